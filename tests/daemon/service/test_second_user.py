"""Another user of the machine can neither connect to the daemon nor read anything of its runs."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
from daemon_process import DaemonProcess

NOBODY = 65534
# Run as the other user: what of these could be opened, entered or connected to?
TRY = r"""
import contextlib, json, os, socket, sys
got = []
for path in json.load(sys.stdin):
    for how in (os.listdir, lambda p: open(p, "rb").read(1), lambda p: open(p, "ab")):
        try:
            how(path)
            got.append(path)
        except OSError:
            pass
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(5)
    try:
        channel.connect(path)
        # Who is denied may be told so before it asks.
        with contextlib.suppress(BrokenPipeError):
            channel.sendall(b'{"jsonrpc":"2.0","id":1,"method":"daemon.status"}\n')
        if answer := channel.recv(65536):
            got.append(json.loads(answer)["error"]["data"]["name"])
    except OSError:
        pass
print(json.dumps(got))
"""
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")


@pytest.fixture
def shared(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon whose worktrees lie elsewhere, in a place that everybody may enter."""
    state_dir.chmod(0o755)
    config = state_dir / "config.toml"
    config.write_text(f'[storage]\nworktrees = "{state_dir}/trees"\n')
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)}, sys.executable)
    daemon.start()
    yield daemon
    daemon.tidy()


def as_nobody(paths: list[str]) -> list[Any]:
    """What the other user gets of these paths."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    assert python is not None
    ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    done = subprocess.run(
        ["setpriv", *ids, "--", python, "-I", "-c", TRY],
        input=json.dumps(paths),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def test_another_user_reads_nothing(shared: DaemonProcess, repo: Path) -> None:
    """State, records, logs, keepers' sockets, homes, worktrees: whoever may enter around them."""
    run = live.keep(shared, repo, "say a secret\nwrite secret.txt x", task="t1")
    live.until_parked(shared, run)
    tops = [shared.state, shared.root / "trees"]
    paths = [str(path) for top in tops for path in (top, *top.rglob("*"))]
    assert shared.process is not None
    process = Path("/proc", str(shared.process.pid))
    of_process = [str(process / name) for name in ("environ", "mem", "maps", "fd", "cwd")]
    kinds = {stat.S_IFMT(os.lstat(path).st_mode) for path in paths}
    told = as_nobody([*paths, *of_process])
    control = as_nobody(["/etc/passwd"])

    assert told == []
    assert control == ["/etc/passwd"]
    assert {stat.S_IFSOCK, stat.S_IFREG, stat.S_IFDIR} <= kinds
    assert any(path.endswith("secret.txt") for path in paths)


def test_who_is_let_in_by_mistake_is_still_not_answered(shared: DaemonProcess) -> None:
    """Modes that somebody loosened open no door: the kernel says who calls."""
    shared.state.chmod(0o755)
    os.chmod(shared.socket, 0o777)

    assert as_nobody([shared.socket]) == ["Denied"]
    with shared.client() as client:
        assert client.daemon.status()["pid"]
