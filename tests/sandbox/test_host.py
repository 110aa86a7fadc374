"""Reading the host's facts."""

import os
from pathlib import Path

from coachman_sandbox.host import merge_certificates, read_host, read_small

ONE = b"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----"
TWO = b"-----BEGIN CERTIFICATE-----\nBBB\n-----END CERTIFICATE-----"
KEY = b"-----BEGIN PRIVATE KEY-----\nKKK\n-----END PRIVATE KEY-----"


def test_only_certificates_cross_each_once() -> None:
    """A key and the text between certificates stay outside."""
    assert merge_certificates(b"# text\n" + ONE, KEY + TWO + ONE) == ONE + b"\n" + TWO + b"\n"


def test_the_callers_certificates_join_the_systems(tmp_path: Path) -> None:
    """A corporate file named by a variable is in the bundle; a relative name is ignored."""
    (tmp_path / "ca.pem").write_bytes(TWO)
    system = read_host({}).ca_bundle
    named = read_host({"NODE_EXTRA_CA_CERTS": f"{tmp_path}/ca.pem", "PIP_CERT": "ca.pem"})
    assert named.ca_bundle == system + TWO + b"\n"


def test_a_file_that_is_none_reads_as_empty(tmp_path: Path) -> None:
    """Pipes, directories and missing files neither block nor fail."""
    os.mkfifo(tmp_path / "pipe")
    assert [read_small(str(tmp_path / name)) for name in ("pipe", "missing", ".")] == [b""] * 3


def test_the_host_is_who_we_are() -> None:
    """uid, gid and the shape of /usr are this machine's."""
    host = read_host({})
    assert (host.uid, host.gid) == (os.getuid(), os.getgid())
    assert "/usr" in host.directories
    assert all(os.readlink(path) == target for path, target in host.links)
    assert host.hosts.endswith(b"\n127.0.0.1 coachman\n")
