"""What a sandbox's /usr and /etc are made of, read from this host.

The sandbox's /etc is synthesized: links are resolved to content, so that a
resolv.conf that points below /run, or a certificate bundle below another
prefix, is there inside as well.
"""

import os
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice

from attrs import field, frozen

from . import layout
from .environment import CA_FILE_NAMES

FILE_LIMIT_BYTES = 4 * 1024 * 1024
CHUNK_BYTES = 64 * 1024

# Top-level names that are links into /usr on a merged host, directories elsewhere.
USR_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# A store holds programs and their libraries under names that nothing can enumerate.
STORES = ("/nix/store", "/gnu/store")
# Configuration of the system's programs; none of it holds credentials.
SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/openssl.cnf",
)
# Of /proc: what tells of the host's kernel and of the user's keyrings, and where it is there.
MASKED_FILES = (
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
)
CA_SOURCES = (layout.CA_BUNDLE, *layout.CA_BUNDLE_ALIASES)
ZONEINFO = "/usr/share/zoneinfo/"

LOCALHOST = f"127.0.0.1 localhost {layout.HOSTNAME}\n::1 localhost\n".encode()
NSSWITCH = b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@frozen
class Host:
    """Facts of this host, as contents: ``links`` maps a path to where it points."""

    uid: int
    gid: int
    links: tuple[tuple[str, str], ...] = ()
    directories: tuple[str, ...] = ("/usr",)
    files: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    resolv_conf: bytes = b""
    hosts: bytes = b"127.0.0.1 localhost\n::1 localhost\n"
    ca_bundle: bytes = field(default=b"", repr=lambda bundle: f"<{len(bundle)} bytes>")
    localtime: str | bytes | None = None
    memory_bytes: int = 4 * 1024**3

    @property
    def user(self) -> str:
        """The name that our uid has inside."""
        return "root" if self.uid == 0 else layout.USER


def read_host(env: Mapping[str, str]) -> Host:
    """The host as it is now; ``env`` may name further certificate files (SSL_CERT_FILE, …).

    Blocking, about a millisecond. To be read for each run: name servers change
    under a long-lived daemon.
    """
    links, directories = _usr_shape()
    return Host(
        uid=os.getuid(),
        gid=os.getgid(),
        links=links,
        directories=directories,
        files=tuple(path for path in SYSTEM_FILES if os.path.exists(path)),
        masked=tuple(path for path in MASKED_FILES if os.path.exists(path)),
        resolv_conf=read_small("/etc/resolv.conf"),
        hosts=_hosts(read_small("/etc/hosts")),
        ca_bundle=_ca_bundle(env),
        localtime=_localtime(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )


def read_small(path: str) -> bytes:
    """The content of a regular file, links followed; empty when it cannot be read or is huge."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > FILE_LIMIT_BYTES:
            return b""
        # In small steps: the kernel allocates as much as is asked for to read a setting.
        chunks = iter(lambda: os.read(descriptor, CHUNK_BYTES), b"")
        return b"".join(islice(chunks, FILE_LIMIT_BYTES // CHUNK_BYTES))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _usr_shape() -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    links = [(path, os.readlink(path)) for path in USR_LINKS if os.path.islink(path)]
    directories = ["/usr", *(path for path in STORES if os.path.isdir(path))]
    directories += [path for path in USR_LINKS if os.path.isdir(path) and not os.path.islink(path)]
    return tuple(links), tuple(directories)


def _hosts(content: bytes) -> bytes:
    content = content or b"127.0.0.1 localhost\n::1 localhost\n"
    return content.rstrip(b"\n") + f"\n127.0.0.1 {layout.HOSTNAME}\n".encode()


def _ca_bundle(env: Mapping[str, str]) -> bytes:
    """The system's bundle and the files the caller's variables name, each certificate once."""
    system = next((content for path in CA_SOURCES if (content := read_small(path))), b"")
    named = [env[name] for name in CA_FILE_NAMES if env.get(name, "").startswith("/")]
    extra = [read_small(path) for path in dict.fromkeys(named)]
    return merge_certificates(system, *extra)


@lru_cache(maxsize=4)
def merge_certificates(*bundles: bytes) -> bytes:
    """Only certificates cross: a key in the same file stays outside."""
    found = dict.fromkeys(found for bundle in bundles for found in _CERTIFICATE.findall(bundle))
    return b"".join(certificate + b"\n" for certificate in found)


def _localtime() -> str | bytes | None:
    path = os.path.realpath("/etc/localtime")
    return path if path.startswith(ZONEINFO) else read_small(path) or None


def passwd(host: Host) -> bytes:
    """Our uid, with the sandbox's home; root and nobody for the programs that look them up."""
    ours = f"{host.user}:x:{host.uid}:{host.gid}::{layout.HOME}:/bin/sh\n"
    others = "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
    root = "" if host.uid == 0 else "root:x:0:0::/:/usr/sbin/nologin\n"
    return (root + ours + others).encode()


def group(host: Host) -> bytes:
    """Our gid under the user's name; root's and nogroup."""
    root = "" if host.gid == 0 else "root:x:0:\n"
    return f"{root}{host.user}:x:{host.gid}:\nnogroup:x:65534:\n".encode()
