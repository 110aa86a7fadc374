"""A daemon that comes back in place as another build: same process, same socket, same runs."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import coachman
import recovery_state as at
from daemon_process import DaemonProcess
from installation import Installation

CLIENTS = 20
Eventually = Callable[..., object]


@pytest.fixture
def installed(state_dir: Path) -> Installation:
    """An installation of the daemon that a test may change."""
    return Installation(state_dir / "venv")


@pytest.fixture
def daemon(state_dir: Path, installed: Installation) -> Iterator[DaemonProcess]:
    """The daemon of that installation."""
    process = DaemonProcess(state_dir, python=installed.python)
    process.start()
    yield process
    process.tidy()


def status(daemon: DaemonProcess) -> Any:
    with daemon.client() as client:
        return client.daemon.status()


def test_a_run_goes_on_while_its_daemon_becomes_another_build(
    daemon: DaemonProcess, installed: Installation, repo: Path
) -> None:
    """Pid and socket stay, build and version change, and a stream over it misses no event."""
    run = at.start(daemon, repo, "say before\nwrite x.txt text\nchunks 50", permissions="ask")
    request = at.until_asked(daemon, run)
    before = status(daemon)
    seen: list[Any] = []
    with daemon.client() as client:
        stream = client.events(run)
        reader = threading.Thread(target=lambda: seen.extend(stream))
        reader.start()
        installed.install("2.0")
        installed.touch()

        daemon.restart_in_place()
        after = status(daemon)
        saved = (at.attempt(daemon, run) / "checkpoint.json").exists()
        client.permission.answer(request, run=run, kind="allow")
        result = at.result(daemon, run)
        reader.join()

    assert (before["version"], after["version"]) == ("1.0", "2.0")
    assert before["build"] != after["build"]
    assert before["pid"] == after["pid"]
    assert result["outcome"] == "succeeded"
    assert saved
    assert seen == daemon.events(run)
    at.check_journal(daemon.events(run))


def test_nobody_who_connects_meanwhile_is_refused(
    daemon: DaemonProcess, eventually: Eventually
) -> None:
    """Twenty clients that ask without a pause through two restarts are answered each time."""
    left = status(daemon)["instance"]
    gone_by: list[set[str]] = [set() for _ in range(CLIENTS)]
    failed: list[Exception] = []

    def ask(instances: set[str]) -> None:
        try:
            while len(instances) < 3:
                with coachman.connect(daemon.socket, name="asker") as client:
                    instances.add(client.daemon.status()["instance"])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(instances,)) for instances in gone_by]
    for thread in threads:
        thread.start()
    for known in (1, 2):
        eventually(lambda known=known: failed or all(len(seen) == known for seen in gone_by))
        daemon.restart_in_place()
    for thread in threads:
        thread.join()

    assert failed == []
    assert all(left in instances for instances in gone_by)


def test_a_wait_outlives_a_restart(daemon: DaemonProcess, repo: Path) -> None:
    """Long polls are asked again by the client, without the caller's noticing."""
    run = at.start(daemon, repo, "write x.txt text\nsay done", permissions="ask")
    request = at.until_asked(daemon, run)
    waited: list[Any] = []
    with daemon.client() as client:
        waiter = threading.Thread(target=lambda: waited.append(client.run.wait([run])))
        waiter.start()
        daemon.restart_in_place()
        with daemon.client() as other:
            other.permission.answer(request, run=run, kind="allow")
        waiter.join()

    assert [run["outcome"] for run in waited[0]["runs"]] == ["succeeded"]


def test_a_new_build_is_noticed_when_a_client_says_hello(
    daemon: DaemonProcess, installed: Installation, eventually: Eventually
) -> None:
    """Installing is enough: the next client that introduces itself makes the daemon come back."""
    pid = status(daemon)["pid"]
    installed.install("2.0")

    def is_new() -> bool:
        with coachman.connect(daemon.socket, name="new") as client:
            return client.daemon.status()["version"] == "2.0"

    assert eventually(is_new)
    assert status(daemon)["pid"] == pid


def test_a_build_that_cannot_start_replaces_nothing(
    daemon: DaemonProcess, installed: Installation, eventually: Eventually
) -> None:
    """The daemon that runs is worth more: it refuses to restart, and says what is wrong."""
    instance = status(daemon)["instance"]
    installed.install("2.0")
    installed.break_it()
    with (
        coachman.connect(daemon.socket, name="new") as client,
        pytest.raises(coachman.CoachmanError, match="half an installation") as caught,
    ):
        client.daemon.restart()

    assert caught.value.name == "Conflict"
    assert eventually(lambda: "new_build_refused" in daemon.log)
    assert status(daemon)["instance"] == instance


def test_a_signal_ends_a_daemon_that_came_back(daemon: DaemonProcess) -> None:
    """It removes its socket and leaves with 0, as one that never restarted."""
    daemon.restart_in_place()

    assert daemon.stop() == 0
    assert not Path(daemon.socket).exists()
