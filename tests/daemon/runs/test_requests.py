"""Requests about runs that come together, break off, or ask for too much."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import coachman
from daemon_process import DaemonProcess


class Raw:
    """A connection that sends without waiting."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")

    def send(self, number: int, method: str, **params: Any) -> None:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._file.readline())
        return answer

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.fixture
def raw(daemon: DaemonProcess) -> Iterator[Raw]:
    """A raw connection to the daemon."""
    connection = Raw(daemon.socket)
    yield connection
    connection.close()


def test_one_key_sent_many_times_at_once_starts_one_run(
    daemon: DaemonProcess, repo: Path, raw: Raw
) -> None:
    """Concurrent starts with one key all answer with the same run; one of them is new."""
    for number in range(8):
        raw.send(number, "run.start", dir=str(repo), agent="demo", prompt="say", request_key="k")
    results = [raw.receive()["result"] for _ in range(8)]

    assert len({result["run"] for result in results}) == 1
    assert sorted(result["new"] for result in results) == [False] * 7 + [True]
    assert len(list((daemon.state / "runs").iterdir())) == 1


def test_a_start_whose_caller_goes_is_a_whole_run_or_none(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Connections that close within a start leave runs that end, and no directory without one."""
    for number in range(12):
        caller = Raw(daemon.socket)
        caller.send(1, "run.start", dir=str(repo), agent="demo", prompt=f"say {number}")
        caller.close()
    with daemon.client() as client:
        eventually(lambda: client.daemon.status()["capacity"]["active"] == 0)
        listed = {run["run"] for run in client.run.list()["runs"]}

    assert {path.name for path in (daemon.state / "runs").iterdir()} == listed
    assert eventually(lambda: list((daemon.state / "live").iterdir()) == [])


def test_a_drain_whose_caller_goes_is_called_off(
    daemon: DaemonProcess, repo: Path, raw: Raw
) -> None:
    """The daemon does not refuse runs for ever because somebody once wanted it to leave."""
    with daemon.client() as client:
        client.run.start("sleep 60", dir=str(repo), agent="demo", task="t1")
        leaver = Raw(daemon.socket)
        leaver.send(1, "daemon.shutdown", mode="drain")
        raw.send(2, "daemon.ping")
        raw.receive()
        leaver.close()
        started = _start_when_allowed(client, repo)

    assert started["state"] == "queued"


def _start_when_allowed(client: coachman.Client, repo: Path) -> Any:
    for _ in range(200):
        try:
            return client.run.start("say hi", dir=str(repo), agent="demo")
        except coachman.CoachmanError as error:
            if error.name != "Busy":
                raise
    return pytest.fail("the daemon refuses runs although nobody waits for it to leave")


@pytest.mark.parametrize("seconds", [0, -5, 1e300])
def test_a_timeout_that_cannot_be_is_refused(
    daemon: DaemonProcess, repo: Path, seconds: float
) -> None:
    """Zero, negative and absurd timeouts are named, whichever they are."""
    with daemon.client() as client:
        for member in ("wall_s", "permission_s"):
            with pytest.raises(coachman.CoachmanError, match=f"timeouts.{member}"):
                client.run.start("x", dir=str(repo), agent="demo", timeouts={member: seconds})


def test_every_run_is_on_some_page(daemon: DaemonProcess, repo: Path) -> None:
    """Pages of two, over living and ended runs, together hold each run once."""
    with daemon.client() as client:
        ended = [client.run.start(f"say {n}", dir=str(repo), agent="demo")["run"] for n in range(4)]
        client.run.wait(ended, timeout_s=180)
        living = [
            client.run.start("sleep 60", dir=str(repo), agent="demo", task=f"t{n}")["run"]
            for n in range(4)
        ]
        seen, cursor = [], None
        for _ in range(20):
            page = client.call("run.list", {"limit": 2, **({"cursor": cursor} if cursor else {})})
            assert len(page["runs"]) <= 2
            seen += [run["run"] for run in page["runs"]]
            if (cursor := page["next_cursor"]) is None:
                break

    assert sorted(seen) == sorted([*ended, *living])


def test_a_run_cancelled_while_it_is_prepared_leaves_nothing_open(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Starts that are cancelled at once hold neither descriptors nor processes in the daemon."""
    assert daemon.process is not None
    descriptors = Path(f"/proc/{daemon.process.pid}/fd")
    with daemon.client() as client:
        for number in range(20):
            run = client.run.start("say", dir=str(repo), agent="demo", task=f"t{number}")["run"]
            client.run.cancel([run])
        eventually(lambda: client.daemon.status()["capacity"]["active"] == 0)

    def locks() -> list[str]:
        return [t for fd in descriptors.iterdir() if (t := _target(fd)).endswith("keeper.lock")]

    assert eventually(lambda: locks() == [])


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_an_empty_name_means_no_run(daemon: DaemonProcess, repo: Path) -> None:
    """`cancel ""`, as a script with an unset variable says it, cancels nothing."""
    with daemon.client() as client:
        run = client.run.start("sleep 60", dir=str(repo), agent="demo")["run"]
        with pytest.raises(coachman.CoachmanError, match="its name is empty"):
            client.run.cancel([""])
        state = client.run.get(run)["state"]

    assert state != "stopping"


def test_a_run_whose_files_are_gone_is_never_a_success(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Somebody deletes a finished run's result: wait says lost, with its exit code."""
    with daemon.client() as client:
        run = client.run.start("say hi", dir=str(repo), agent="demo")["run"]
        client.run.wait([run], timeout_s=180)
        (daemon.state / "runs" / run / "result.json").unlink()
        [row] = client.run.wait([run], timeout_s=5)["runs"]

    assert (row["outcome"], row["exit_code"]) == ("lost", 9)
