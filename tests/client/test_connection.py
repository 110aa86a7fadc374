"""One connection: paths of any length, errors by name, a daemon that comes and goes."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import coachman
from client_daemon import ROOT, FakeDaemon, FaultError, Peer, served
from coachman.client import REPEATS
from coachman.connection import SUN_PATH_BYTES, _connect_error


def test_a_socket_beyond_the_length_limit_is_reached(tmp_path: Path) -> None:
    """A path that does not fit into a socket address is connected to all the same."""
    deep = tmp_path.joinpath(*["d" * 60] * 3)
    deep.mkdir(parents=True)
    path = deep / "control.sock"
    assert len(str(path)) > SUN_PATH_BYTES
    directory = os.open(deep, os.O_PATH)
    try:
        listening = Path(f"/proc/self/fd/{directory}/control.sock")
        with (
            FakeDaemon(listening, {"daemon.ping": {}}),
            coachman.connect(str(path)) as client,
        ):
            client.daemon.ping()
    finally:
        os.close(directory)


def test_a_missing_daemon_has_an_exception_of_its_own(state_dir: Path) -> None:
    """Where nobody listens, connect says so; a path that was chosen is not started on."""
    with pytest.raises(coachman.DaemonNotRunning) as caught:
        coachman.connect(str(state_dir / "control.sock"))

    assert caught.value.exit_code == 69
    assert "was chosen" in str(caught.value.hint)
    assert caught.value.next == []


def test_a_program_is_told_how_a_daemon_is_started(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one may be started, the exception names the argument that does it."""
    monkeypatch.delenv("COACHMAN_SOCKET", raising=False)
    monkeypatch.delenv("COACHMAN_AUTOSTART", raising=False)
    monkeypatch.setenv("COACHMAN_STATE_DIR", str(state_dir))
    with pytest.raises(coachman.DaemonNotRunning) as caught:
        coachman.connect()

    assert "connect(autostart=True)" in str(caught.value.hint)


def test_a_forbidden_socket_is_explained() -> None:
    """EPERM on connect is the caller's own sandbox, and is named as that."""
    error = _connect_error("/s", OSError(errno.EPERM, "no"))

    assert error.name == "Denied"
    assert "blocks Unix sockets" in str(error)
    assert error.exit_code == 77


def test_an_error_carries_what_the_daemon_said(state_dir: Path) -> None:
    """Name, hint, retry and next steps of a refusal arrive as attributes."""

    def refuse(_params: object, _peer: Peer) -> dict[str, object]:
        raise FaultError(
            "Busy", "cannot start: full", hint="wait", retryable=True, retry_after_s=3, next=[["x"]]
        )

    with (
        served(state_dir / "s", {"run.start": refuse}) as (_, client),
        pytest.raises(coachman.CoachmanError, match="cannot start: full") as caught,
    ):
        client.run.start("p", dir="/")

    error = caught.value
    assert (error.name, error.hint, error.retryable) == ("Busy", "wait", True)
    assert (error.retry_after_s, error.next, error.exit_code) == (3.0, [["x"]], 75)


def test_only_given_parameters_are_sent(state_dir: Path) -> None:
    """What the caller leaves out is left to the daemon's defaults."""
    with served(state_dir / "s", {"run.start": {}, "run.list": {}}) as (daemon, client):
        client.run.start("p", dir="/src", labels={"a": "b"}, timeouts={"wall_s": 3})
        client.run.list(state=("active",))

    assert daemon.requests == [
        (
            "run.start",
            {"prompt": "p", "dir": "/src", "labels": {"a": "b"}, "timeouts": {"wall_s": 3}},
        ),
        ("run.list", {"state": ["active"]}),
    ]


def test_a_client_outlives_its_daemon(state_dir: Path) -> None:
    """A call after the daemon was replaced connects again by itself."""
    path = state_dir / "s"
    with FakeDaemon(path, {"daemon.ping": {}}):
        client = coachman.connect(str(path))
        client.daemon.ping()
    with FakeDaemon(path, {"daemon.ping": {}}):
        client.daemon.ping()
        client.close()


def test_a_named_client_introduces_itself_on_each_connection(state_dir: Path) -> None:
    """The name that others see is told again to a daemon that was restarted."""
    path, handlers = state_dir / "s", {"daemon.hello": {}, "daemon.ping": {}}
    with FakeDaemon(path, handlers):
        client = coachman.connect(str(path), name="deploy-bot")
    with FakeDaemon(path, handlers) as daemon:
        client.daemon.ping()
        client.close()

    assert daemon.requests == [
        ("daemon.hello", {"client": {"name": "deploy-bot"}, "api": [1]}),
        ("daemon.ping", {}),
    ]


def test_a_daemon_that_hangs_up_is_told_from_one_that_refuses(state_dir: Path) -> None:
    """An answer that never came is ConnectionLost, since the daemon may have acted."""

    def leave(_params: object, peer: Peer) -> dict[str, object]:
        peer.hang_up()
        return {}

    with (
        served(state_dir / "s", {"run.cancel": leave}) as (_, client),
        pytest.raises(coachman.ConnectionLostError) as caught,
    ):
        client.run.cancel(["x"])

    assert caught.value.retryable


def test_a_late_answer_never_meets_the_next_request(state_dir: Path) -> None:
    """After a timeout the connection is given up, so that answers cannot be mixed up."""
    go = threading.Event()

    def slow(_params: object, _peer: Peer) -> dict[str, object]:
        go.wait(20)
        return {"stale": True}

    with served(
        state_dir / "s", {"daemon.status": slow, "agent.list": {"agents": []}}, timeout=0.05
    ) as (_, client):
        with pytest.raises(coachman.CoachmanError, match="did not answer within") as caught:
            client.daemon.status()
        assert client.agent.list() == {"agents": []}
        go.set()

    assert caught.value.name == "Timeout"


def test_the_import_is_small_and_isolated() -> None:
    """The client loads under an interpreter without site packages, and little of that."""
    code = (
        "import json, sys; sys.path.append(sys.argv[1]); import coachman;"
        " print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT / "client")],
        capture_output=True,
        check=True,
    )
    loaded = json.loads(done.stdout)
    tops = {name.partition(".")[0] for name in loaded}

    assert tops - set(sys.stdlib_module_names) <= {"coachman", "__main__"}
    assert not tops & {"typing", "socket", "argparse", "dataclasses", "subprocess", "logging"}
    assert len(loaded) <= 70


def test_a_request_that_a_restarting_daemon_did_not_take_is_asked_again(state_dir: Path) -> None:
    """Whatever it was: the daemon said that it has not been and will not be carried out."""
    asked: list[object] = []

    def start(params: object, peer: Peer) -> dict[str, object]:
        asked.append(params)
        if len(asked) == 1:
            peer.notify("daemon.leaving", reason="restart")
            peer.hang_up()
        return {"run": "x"}

    with served(state_dir / "s", {"run.start": start}) as (_, client):
        assert client.run.start("p", dir="/") == {"run": "x"}

    assert len(asked) == 2


def test_a_daemon_that_restarts_for_ever_is_given_up(state_dir: Path) -> None:
    """A request is not repeated without end."""

    def leave(_params: object, peer: Peer) -> dict[str, object]:
        peer.notify("daemon.leaving", reason="restart")
        peer.hang_up()
        return {}

    with (
        served(state_dir / "s", {"daemon.ping": leave}) as (daemon, client),
        pytest.raises(coachman.ConnectionLostError),
    ):
        client.daemon.ping()

    assert len(daemon.requests) == REPEATS + 1
