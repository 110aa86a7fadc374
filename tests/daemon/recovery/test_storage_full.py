"""A full disk: what lives is held, what is new is refused, and both end by themselves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import coachman
import recovery_state as at
from small_disk import SmallDaemon, SmallDisk

DISK_MIB = 48


@pytest.fixture
def disk(state_dir: Path, tool: Callable[[str], str]) -> Iterator[SmallDisk]:
    for name in ("unshare", "nsenter"):
        assert tool(name)
    small = SmallDisk(state_dir, DISK_MIB)
    yield small
    small.close()


@pytest.fixture
def small(state_dir: Path, disk: SmallDisk) -> Iterator[SmallDaemon]:
    process = SmallDaemon(state_dir, disk)
    process.start()
    yield process
    process.tidy()


def storage(daemon: SmallDaemon) -> str:
    with daemon.client() as client:
        return client.daemon.status()["storage"]["state"]


def state(daemon: SmallDaemon, run: str) -> tuple[str, str | None]:
    with daemon.client() as client:
        found = client.run.get(run)
        return found["state"], found["reason"]


def test_a_run_is_held_while_the_disk_is_full_and_goes_on_by_itself(
    small: SmallDaemon, disk: SmallDisk, repo: Path, eventually: Callable[..., object]
) -> None:
    """Its agent waits in its own writes; with room again it says all that it had to say."""
    run = at.start(small, repo, "say ready\nsleep 1\nchunks 100000\nsay end")
    at.until_event(small, run, lambda event: event["type"] == "agent.message_chunk")
    disk.fill()
    eventually(lambda: state(small, run) == ("waiting", "storage"))
    where = {"COACHMAN_SOCKET": small.socket}
    told = small.cli("status", env=where).stdout
    shown = small.cli("list", "--all", "--json", env=where).stdout
    with small.client() as client, pytest.raises(coachman.CoachmanError) as refused:
        client.run.start("say hi", dir=str(repo), agent="demo")
    disk.empty()
    eventually(lambda: storage(small) == "ok")
    result = at.result(small, run)

    assert "full: the disk is full" in told
    assert "held: the disk is full" in shown
    assert refused.value.name == "Degraded"
    assert refused.value.detail["free_bytes"] < refused.value.detail["needed_bytes"] == 8 << 20
    assert result["outcome"] == "succeeded"
    said = [e["text"] for e in small.events(run) if e["type"] == "agent.message_chunk"]
    assert len(said) == 100_002
    at.check_journal(small.events(run))


def test_a_held_run_can_be_cancelled_and_its_end_is_told(
    small: SmallDaemon, disk: SmallDisk, repo: Path, eventually: Callable[..., object]
) -> None:
    """The reserve makes room for the terminal record, while everything else is refused."""
    run = at.start(small, repo, "say hi\nsleep 300")
    at.until_event(small, run, lambda event: event["type"] == "agent.message_chunk")
    disk.fill()
    with small.client() as client:
        client.run.cancel([run])
    result = at.result(small, run)

    assert result["outcome"] == "cancelled"
    assert storage(small) == "full"
    assert small.events(run)[-1]["type"] == "run.ended"


def test_a_daemon_starts_on_a_full_disk_and_finds_its_runs(
    small: SmallDaemon, disk: SmallDisk, repo: Path, eventually: Callable[..., object]
) -> None:
    """The reserve lets it count itself; the run is held, and goes on once there is room."""
    run = at.start(small, repo, "say hi\nask one\nsay end", permissions="ask")
    at.until_asked(small, run)
    small.kill()
    disk.fill()
    small.start()
    eventually(lambda: state(small, run) == ("waiting", "storage"))
    held = small.state / "reserve"

    assert not held.exists()
    disk.empty()
    eventually(lambda: state(small, run) == ("waiting", "permission"))
    with small.client() as client:
        request = client.permission.list()["permissions"][0]["request"]
        client.permission.answer(request, run=run, kind="allow")
    assert at.result(small, run)["outcome"] == "succeeded"
    assert held.stat().st_size == 4 << 20
