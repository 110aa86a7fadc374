"""State directories of released versions: made once, without a machine's own, opened for ever.

A frozen one lies in tests/frozen/VERSION as it was left by a killed daemon: its paths begin
with a mark, and `expected.json` says how each run has to end.
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).parents[1]
    roots = [TESTS.parent / name for name in ("client", "daemon", "adapters", "sandbox")]
    sys.path[:0] = [str(TESTS / "support"), *map(str, roots)]

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess, make_repository

FROZEN = Path(__file__).parents[1] / "frozen"
MARK = "@ROOT@"
PYTHON = "/usr/bin/python3"
# What a version writes that others have to read; the rest is derived, or a process's own.
KEPT = ("runs", "live", "tasks", "keys", "generation")
TEXTS = frozenset({".json", ".ndjson", ".md", ""})
ENDS = ("lost", "failed", "timed_out", "cancelled")


def thaw(frozen: Path, root: Path) -> dict[str, list[str]]:
    """Put a frozen state below ``root``; the outcomes that each of its runs may come to."""
    state = root / "state"
    shutil.copytree(frozen / "state", state)
    for path in _texts(state):
        path.write_bytes(path.read_bytes().replace(MARK.encode(), str(root).encode()))
    for path in [state, *state.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    for name in ("attempts", "artifacts", "inputs", "prompts", "scratch"):
        for run in (state / "runs").iterdir():
            # An empty directory cannot be committed.
            (run / name).mkdir(exist_ok=True)
    expected: dict[str, list[str]] = json.loads((frozen / "expected.json").read_text())
    return expected


def _texts(state: Path) -> list[Path]:
    return [path for path in state.rglob("*") if path.is_file() and path.suffix in TEXTS]


def freeze(target: Path) -> None:
    """Make a state directory with a run in every state, and keep what of it belongs to nobody."""
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    daemon = DaemonProcess(root)
    config = root / "config.toml"
    config.write_text("[capacity]\nmax_active = 2\n")
    daemon.env["COACHMAN_CONFIG"] = str(config)
    try:
        daemon.start()
        expected = _make_runs(daemon, make_repository(root / "repo"))
        _kill_all(daemon)
        shutil.rmtree(target, ignore_errors=True)
        _keep(daemon, target)
        (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    finally:
        daemon.tidy()
        shutil.rmtree(root)


def _make_runs(daemon: DaemonProcess, repo: Path) -> dict[str, list[str]]:
    """Ended, parked, active, waiting and queued; and what each may come to."""
    succeeded = at.start(daemon, repo, "think so\nrun echo hi\nsay done", request_key="key")
    at.result(daemon, succeeded)
    crashed = at.start(daemon, repo, "say hi\ncrash")
    at.result(daemon, crashed)
    parked = live.keep(daemon, repo, "say one")
    live.until_parked(daemon, parked)
    active = at.start(daemon, repo, "say hi\nsleep 300")
    at.until_event(daemon, active, lambda event: event["type"] == "agent.message_chunk")
    waiting = at.start(daemon, repo, "ask one\nsay end", permissions="ask")
    at.until_asked(daemon, waiting)
    queued = at.start(daemon, repo, "say never")
    ended = {run: [at.result(daemon, run)["outcome"]] for run in (succeeded, crashed)}
    return ended | {run: list(ENDS) for run in (parked, active, waiting, queued)}


def _kill_all(daemon: DaemonProcess) -> None:
    daemon.kill()
    for pid in daemon.keepers():
        os.kill(pid, signal.SIGKILL)


def _keep(daemon: DaemonProcess, target: Path) -> None:
    ignored = shutil.ignore_patterns("*.sock", "keeper.log")
    for name in KEPT:
        source, place = daemon.state / name, target / "state" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=ignored)
        else:
            shutil.copy(source, place)
    for path in _texts(target):
        path.write_bytes(_without_machine(path.read_bytes(), str(daemon.root)))


def _without_machine(data: bytes, root: str) -> bytes:
    """Text as every machine could have written it."""
    text = data.decode().replace(root, MARK).replace(sys.executable, PYTHON)
    text = text.replace(os.path.realpath(sys.executable), PYTHON)
    text = re.sub(r'("user": ?)"[^"]*"', r'\1"someone"', text)
    return re.sub(r'("boot(?:_id)?": ?)"[^"]*"', r'\1"0000"', text).encode()


def main(argv: list[str]) -> int:
    """Freeze this version, or another name for it."""
    target = FROZEN / (argv[0] if argv else version("coachman"))
    freeze(target)
    files: list[Any] = [path for path in target.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{target.relative_to(FROZEN.parents[1])}: {len(files)} files, {size >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
