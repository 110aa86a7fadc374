"""A daemon, and clients, of a user without rights, also where root runs the tests."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from daemon_process import COMMAND_LIMIT_S, DaemonProcess, make_repository
from shared_daemon import shared_daemon
from sourcetree import ROOT

NOBODY = 65534
IS_ROOT = os.getuid() == 0
USERS = ("self", "ordinary") if IS_ROOT else ("self",)
UID = NOBODY if IS_ROOT else os.getuid()
GID = NOBODY if IS_ROOT else os.getgid()
SOURCES = ("client", "daemon", "adapters", "sandbox")
LEFT_OUT = shutil.ignore_patterns(
    *("test", "tests", "idlelib", "ensurepip", "site-packages", "config-*", "node_modules"),
    *("mypy*", "pyright*", "ruff*", "hypothesis*", "*pytest*", "nodejs*", "pip*"),
)


def _copy(source: Path, target: Path) -> None:
    """A tree whose files are the same where that can be."""
    shutil.copytree(
        source,
        target,
        symlinks=True,
        ignore=LEFT_OUT,
        dirs_exist_ok=True,
        copy_function=_link,
    )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _beside_its_library(base: Path, python: Path) -> None:
    """Let an interpreter that looks for its library where it was built look beside itself."""
    built, beside = f"{base}/lib\0".encode(), b"$ORIGIN/../lib\0"
    python.write_bytes(python.read_bytes().replace(built, beside.ljust(len(built), b"\0")))


def install(prefix: Path) -> None:
    """An environment with all that the daemon needs, where anybody may go."""
    name = f"python3.{sys.version_info.minor}"
    base, site = _base(prefix / "base", name), prefix / "lib" / name / "site-packages"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to(base / name)
    (prefix / "pyvenv.cfg").write_text(f"home = {base}\n")
    _copy(Path(sysconfig.get_path("purelib")), site)
    for pth in site.glob("*coachman*.pth"):
        pth.unlink()
    for each in (*SOURCES, "systemd"):
        _copy(ROOT / each, prefix / "src" / each)
    (site / "_coachman.pth").write_text("".join(f"{prefix}/src/{each}\n" for each in SOURCES))
    shutil.copy(ROOT / "client/sh/coachman", prefix / "bin/coachman")
    for folder, _, _ in os.walk(prefix):
        os.chmod(folder, 0o755)


def _base(copy: Path, name: str) -> Path:
    """The directory of an interpreter that the user may run: ours, or a copy of it."""
    base = Path(sys.base_prefix)
    if not IS_ROOT or all(each.stat().st_mode & 0o001 for each in (base, *base.parents)):
        return base / "bin"
    (copy / "bin").mkdir(parents=True)
    _beside_its_library(base, shutil.copy(base / "bin" / name, copy / "bin" / name))
    _copy(base / "lib" / name, copy / "lib" / name)
    for library in base.glob("lib/libpython3*"):
        shutil.copy(library, copy / "lib")
    return copy / "bin"


class OrdinaryDaemon(DaemonProcess):
    """A daemon and its command line, both of that user, from an installation at ``prefix``."""

    def __init__(self, root: Path, prefix: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__(root, env, str(prefix / "bin/python"))
        self.prefix = prefix

    def _new_process(self, ready: int, log: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self.prefix / "bin/python"), "-I", "-m", "coachmand", "--ready-fd", str(ready)],
            env=self.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(ready,),
            start_new_session=True,
            **_as_user(),
        )

    def cli(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.prefix / "bin/coachman"), *arguments],
            cwd=cwd or self.root,
            env={**self.env, **(env or {})},
            input=stdin.decode(),
            text=True,
            capture_output=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
            **_as_user(),
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout, done.stderr)


def _as_user() -> dict[str, Any]:
    return {"user": UID, "group": GID, "extra_groups": []} if IS_ROOT else {}


@contextmanager
def ordinary_daemon(config: str = "") -> Iterator[OrdinaryDaemon]:
    """One that runs, with a repository ``repo`` below its root; all of it is the user's."""
    with (
        tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp", ignore_cleanup_errors=True) as root,
        tempfile.TemporaryDirectory(prefix="n-", dir="/tmp", ignore_cleanup_errors=True) as neutral,
    ):
        top = Path(root)
        install(top / "prefix")
        process = OrdinaryDaemon(top, top / "prefix")
        make_repository(top / "repo")
        path = top / "config.toml"
        path.write_text(config.replace("{neutral}", neutral))
        process.env["COACHMAN_CONFIG"] = str(path)
        (top / "daemon.log").touch()
        top.chmod(0o755)
        for each in (top, Path(neutral)):
            os.chown(each, UID, GID)
        for folder in ("repo", "home"):
            for found in (top / folder, *(top / folder).rglob("*")):
                os.chown(found, UID, GID, follow_symlinks=False)
        process.start()
        try:
            yield process
        finally:
            process.tidy()


@contextmanager
def daemons_of(config: str = "") -> Iterator[dict[str, DaemonProcess]]:
    """A daemon of each of USERS: whoever runs the tests, and a user without rights."""
    with ExitStack() as stack:
        made: dict[str, DaemonProcess] = {"self": stack.enter_context(shared_daemon(config))}
        if IS_ROOT:
            made["ordinary"] = stack.enter_context(ordinary_daemon(config))
        yield made
