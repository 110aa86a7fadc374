"""Two daemons on one state directory: the newest has it, the other writes nothing more."""

import argparse
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio.testing

import coachman
import live_runs as live
import recovery_state as at
from coachmand import durable, main, ownership
from coachmand.config import Config
from coachmand.evidence.state import StateDirectory
from coachmand.service import Service
from daemon_process import DaemonProcess


@pytest.fixture
def successor(daemon: DaemonProcess) -> Iterator[DaemonProcess]:
    """Another daemon for the same state, not started yet, with a socket of its own."""
    other = DaemonProcess(daemon.root, {"COACHMAN_SOCKET": str(daemon.root / "other.sock")})
    yield other
    other.tidy()


def take_over(daemon: DaemonProcess, successor: DaemonProcess) -> None:
    """Start the other one although the first one lives: its lock is lost, as on a bad network."""
    assert daemon.process is not None
    os.kill(daemon.process.pid, signal.SIGSTOP)
    (daemon.state / "lock").unlink()
    successor.start()


def client_of(successor: DaemonProcess) -> coachman.Client:
    return coachman.connect(successor.env["COACHMAN_SOCKET"])


def test_a_daemon_that_was_taken_over_from_writes_nothing_more(
    daemon: DaemonProcess, successor: DaemonProcess, repo: Path
) -> None:
    """Woken again, it answers no client with a promise, leaves, and the runs are the other's."""
    asking = at.start(daemon, repo, "ask one\nsay end", permissions="ask")
    request = at.until_asked(daemon, asking)
    kept = live.keep(daemon, repo, "say one")
    live.until_parked(daemon, kept)
    with daemon.client() as old:
        take_over(daemon, successor)
        assert daemon.process is not None
        os.kill(daemon.process.pid, signal.SIGCONT)
        refused = [
            live.refused(old.permission.answer, request, run=asking, kind="deny"),
            live.refused(old.run.prompt, kept, "say two"),
            live.refused(old.run.start, "say hi", dir=str(repo), agent="demo"),
        ]
    assert daemon.process.wait(20) == 0, daemon.log[-4000:]
    with client_of(successor) as client:
        client.permission.answer(request, run=asking, kind="allow")
        client.run.close([kept])
        client.run.wait([asking, kept], timeout_s=180)
        results = [client.run.result(run) for run in (asking, kept)]
        runs = client.run.list(all=True)["runs"]

    assert len(refused) == 3
    assert [result["outcome"] for result in results] == ["succeeded", "succeeded"]
    assert results[0]["final_message"] == "end"
    assert {row["run"] for row in runs} == {asking, kept}
    for run in (asking, kept):
        at.check_journal(daemon.events(run))


def test_a_daemon_that_is_idle_notices_that_it_was_taken_over_from(
    daemon: DaemonProcess, successor: DaemonProcess, eventually: Callable[..., object]
) -> None:
    """Without anything to write it leaves by itself, and takes nothing of the other's along."""
    take_over(daemon, successor)
    assert daemon.process is not None
    os.kill(daemon.process.pid, signal.SIGCONT)

    assert daemon.process.wait(20) == 0
    with client_of(successor) as client:
        assert client.daemon.status()["storage"]["state"] == "ok"


def test_a_run_that_meets_the_fence_while_the_daemon_leaves_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled and fenced at once, its task fails as a whole; the daemon's end is in order."""

    async def run(scope: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ownership.FencedError("behind the fence")

    async def serve(*_: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, nursery.cancel_scope)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(main, "_serve", serve)
    state = StateDirectory.at(str(tmp_path))

    assert main._run(Config(), state, {}, Service(), argparse.Namespace(), {}) is None
    assert os.listdir(tmp_path) == []


def test_behind_a_fence_that_fell_nothing_reaches_the_disk(tmp_path: Path) -> None:
    """Every way to the disk is closed: to create, append, replace, move and remove."""
    path = tmp_path / "generation"
    path.write_text("1\n")
    log = durable.AppendFile(tmp_path / "log")
    ownership.stand_behind(ownership.Fence.of(path))
    try:
        durable.put(tmp_path / "before", b"x")
        (tmp_path / "new").write_text("2\n")
        (tmp_path / "new").replace(path)
        deeds = (
            lambda: durable.put(tmp_path / "file", b"x"),
            lambda: durable.create(tmp_path / "file", b"x"),
            lambda: durable.mark(tmp_path / "file"),
            lambda: durable.claim(tmp_path / "file", b"x"),
            lambda: durable.move(tmp_path / "before", tmp_path / "file"),
            lambda: durable.remove(tmp_path / "before"),
            lambda: durable.make_directory(tmp_path / "file"),
            lambda: log.append(b"line\n", sync=False),
        )
        for deed in deeds:
            with pytest.raises(ownership.FencedError):
                deed()
    finally:
        ownership.stand_behind(None)
        log.close()

    assert sorted(p.name for p in tmp_path.iterdir()) == ["before", "generation", "log"]
    assert (tmp_path / "log").read_bytes() == b""
