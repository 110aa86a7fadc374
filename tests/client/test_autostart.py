"""Starting a daemon: its own session, a clean environment, and one of two that race."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client_daemon import FakeDaemon, coachman, environment
from client_samples import AGENTS, started
from coachman import CoachmanError, DaemonNotRunning
from coachman.autostart import check_daemon, may_start, start_daemon
from daemon_process import BIN

# Says what it was given in a file, and on the ready descriptor what the test wants.
STARTED = """
import json, os, sys
state = os.environ["COACHMAN_STATE_DIR"]
fd = int(sys.argv[sys.argv.index("--ready-fd") + 1])
facts = {
    "cwd": os.getcwd(), "leader": os.getsid(0) == os.getpid(), "env": dict(os.environ),
    "stdin": os.readlink("/proc/self/fd/0"), "fds": sorted(os.listdir("/proc/self/fd")),
    "pid": os.getpid(),
}
with open(state + "/facts.new", "w") as file:
    json.dump(facts, file)
os.rename(state + "/facts.new", state + "/facts")
print("on stdout", flush=True)
print("on stderr", file=sys.stderr, flush=True)
os.write(fd, sys.argv[1].encode())
"""
READY = '{"ready": true, "socket": "/s", "pid": 7}\n'


def daemon_that_says(said: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", STARTED, said]


@pytest.fixture
def env(state_dir: Path) -> Iterator[dict[str, str]]:
    """An environment of a caller that runs under an agent."""
    return environment(
        state_dir,
        CLAUDECODE="1",
        CLAUDE_CODE_ENTRYPOINT="cli",
        CODEX_SANDBOX="seatbelt",
        GEMINI_CLI="1",
        OPENCODE="1",
        COACHMAN_RUN="x",
        NOTIFY_SOCKET="/n",
        ANTHROPIC_API_KEY="kept",
    )


def test_a_daemon_is_started_on_its_own(state_dir: Path, env: dict[str, str]) -> None:
    """It leads a session in /, without terminal or descriptors, and logs to a private file."""
    said = start_daemon(env, command=daemon_that_says(READY))
    facts = json.loads((state_dir / "facts").read_text())
    log = state_dir / "daemon.log"

    assert said == {"ready": True, "socket": "/s", "pid": 7}
    assert (facts["cwd"], facts["leader"], facts["stdin"]) == ("/", True, "/dev/null")
    assert len(facts["fds"]) == 5, "stdio, the ready descriptor and the listing itself"
    assert log.read_text() == "on stdout\non stderr\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_marks_of_an_enclosing_agent_stay_behind(state_dir: Path, env: dict[str, str]) -> None:
    """The daemon does not pass for a child of the agent that started it."""
    start_daemon(env, command=daemon_that_says(READY))
    seen = json.loads((state_dir / "facts").read_text())["env"]

    assert set(env) - set(seen) == {
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CODEX_SANDBOX",
        "GEMINI_CLI",
        "OPENCODE",
        "COACHMAN_RUN",
        "NOTIFY_SOCKET",
    }
    assert seen["ANTHROPIC_API_KEY"] == "kept"


def test_a_refusal_is_told_in_the_daemons_words(env: dict[str, str]) -> None:
    """The daemon's error, hint and exit code reach the person who started it."""
    why = {"name": "BoundaryUnavailable", "message": "cannot start: no", "hint": "h", "exit": 71}
    with pytest.raises(CoachmanError, match="cannot start: no") as caught:
        start_daemon(env, command=daemon_that_says(json.dumps({"error": why}) + "\n"))

    assert (caught.value.name, caught.value.hint) == ("BoundaryUnavailable", "h")
    assert caught.value.exit_code == 71


@pytest.mark.parametrize("said", ["", "nonsense\n", "[]\n"])
def test_a_daemon_that_says_nothing_useful_is_reported(env: dict[str, str], said: str) -> None:
    """A daemon that dies or babbles is an error that names its log."""
    with pytest.raises(DaemonNotRunning, match="cannot start the daemon") as caught:
        start_daemon(env, command=daemon_that_says(said))

    assert "daemon.log" in str(caught.value.hint)


def test_a_daemon_that_is_not_ready_in_time_is_reported(env: dict[str, str]) -> None:
    """Silence is bounded."""
    silent = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read(); input()"]
    with pytest.raises(DaemonNotRunning):
        start_daemon(env, command=silent, timeout_s=0.5)


def test_of_two_that_start_at_once_both_get_the_one_daemon(
    state_dir: Path, env: dict[str, str]
) -> None:
    """The loser hears that the lock is held, and connects to the winner once it listens."""
    held = {"name": "Conflict", "message": "cannot start: the state lock is held by pid 7"}
    winner: list[FakeDaemon] = []
    timer = threading.Timer(
        0.2, lambda: winner.append(FakeDaemon(state_dir / "control.sock", {"daemon.ping": {}}))
    )
    timer.start()
    said = start_daemon(env, command=daemon_that_says(json.dumps({"error": held}) + "\n"))
    timer.join()
    winner[0].__exit__()

    assert said == {"ready": True, "socket": str(state_dir / "control.sock"), "pid": None}


def test_a_place_without_unix_sockets_is_refused_before_anything_starts(
    state_dir: Path, env: dict[str, str]
) -> None:
    """Where a probe socket cannot be bound, the error explains the sandbox around the caller."""
    blocked = state_dir / "file"
    blocked.touch()
    with pytest.raises(CoachmanError, match="cannot start the daemon"):
        start_daemon({**env, "COACHMAN_SOCKET": str(blocked / "x" / "s")}, command=["/bin/false"])

    assert not (state_dir / "facts").exists()


@pytest.mark.parametrize(
    ("env", "may"),
    [
        ({}, True),
        ({"COACHMAN_AUTOSTART": "1"}, True),
        ({"COACHMAN_AUTOSTART": "0"}, False),
        ({"COACHMAN_AUTOSTART": "no"}, False),
        ({"COACHMAN_SOCKET": "/s"}, False),
    ],
)
def test_autostart_can_be_forbidden(env: dict[str, str], may: bool) -> None:
    """A chosen socket or COACHMAN_AUTOSTART=0 means that nothing is started."""
    assert may_start(env) is may


def test_verbs_that_start_work_respect_the_prohibition(state_dir: Path) -> None:
    """`run` without a daemon exits 69 where autostart is off."""
    done = coachman(state_dir, "run", "p")

    assert done.returncode == 69
    assert not (state_dir / "daemon.log").exists()


def test_daemon_start_leaves_a_running_one_alone(state_dir: Path) -> None:
    """Starting twice is no error."""
    handlers: dict[str, Any] = {
        "daemon.status": {"socket": "/s", "pid": os.getpid()},
        "daemon.hello": {},
        "agent.list": AGENTS,
        "run.start": started(),
    }
    with FakeDaemon(state_dir / "control.sock", handlers):
        done = coachman(state_dir, "daemon", "start")

    assert (done.returncode, done.stdout) == (
        0,
        f"the daemon runs already, pid {os.getpid()}: /s\n",
    )


def test_daemon_stop_says_what_goes_on(state_dir: Path) -> None:
    """Stopping tells which runs outlive the daemon, and waits until it is gone."""
    path = state_dir / "control.sock"
    daemon = FakeDaemon(
        path,
        {
            # A process that is gone already: the client waits for the socket alone.
            "daemon.status": {"pid": 2**22 - 1},
            "daemon.shutdown": lambda params, peer: _leave(path, params),
        },
    )
    with daemon:
        done = coachman(state_dir, "daemon", "stop")

    assert done.returncode == 0
    assert "1 going on without it: k7q3x" in done.stdout
    assert daemon.params("daemon.shutdown") == [{"mode": "detach"}]


def test_stopping_nothing_is_no_error(state_dir: Path) -> None:
    """Without a daemon `daemon stop` has nothing to do, and says so."""
    people, program = (coachman(state_dir, "daemon", "stop", *words) for words in ([], ["--json"]))

    assert (people.returncode, people.stdout, people.stderr) == (0, "no daemon runs\n", "")
    assert (program.returncode, json.loads(program.stdout)) == (
        0,
        {"mode": "detach", "going_on": [], "stopped": False},
    )


def checking(code: int, said: str) -> list[str]:
    """A daemon that was asked with --check alone whether it could start."""
    script = (
        "import sys; assert sys.argv[2:] == ['--check']; print(sys.argv[1]);"
        f" print('why', file=sys.stderr); sys.exit({code})"
    )
    return [sys.executable, "-I", "-S", "-c", script, said]


def test_a_daemon_is_asked_whether_it_could_start(env: dict[str, str]) -> None:
    """A refusal comes in the daemon's words; one without words says what it left behind."""
    why = {"name": "Configuration", "message": "cannot read: line 3", "hint": "h", "exit": 78}
    check_daemon(env, command=checking(0, ""))
    with pytest.raises(CoachmanError, match="cannot read: line 3") as caught:
        check_daemon(env, command=checking(78, json.dumps({"error": why})))
    with pytest.raises(CoachmanError, match="cannot check the daemon: why"):
        check_daemon(env, command=checking(2, ""))
    silent = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
    with pytest.raises(CoachmanError, match="cannot check the daemon"):
        check_daemon(env, command=silent, timeout_s=0.3)

    assert (caught.value.name, caught.value.exit_code) == ("Configuration", 78)


def test_a_broken_configuration_spares_the_daemon_that_runs(state_dir: Path) -> None:
    """`daemon restart` asks before it stops anything."""
    (state_dir / "config.toml").write_text("nonsense = [")
    with FakeDaemon(state_dir / "control.sock", {}) as daemon:
        done = subprocess.run(
            [BIN / "coachman", "daemon", "restart"],
            env=environment(state_dir, COACHMAN_CONFIG=str(state_dir / "config.toml")),
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 78
    assert str(state_dir / "config.toml") in done.stderr
    assert daemon.requests == []


def _leave(path: Path, params: dict[str, Any]) -> dict[str, Any]:
    path.unlink()
    return {"mode": params["mode"], "going_on": ["k7q3x"]}


def test_daemon_logs_are_shown_visibly(state_dir: Path) -> None:
    """The end of the log is printed with everything that acts made visible."""
    (state_dir / "daemon.log").write_text("one\ntwo\x1b[2J\n")
    done = coachman(state_dir, "daemon", "logs", "-n", "1")

    assert (done.returncode, done.stdout) == (0, "two\\x1b[2J\n")
