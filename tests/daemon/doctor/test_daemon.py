"""The doctor with a daemon, which tells of its own surroundings; and what such a daemon starts."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import coachman
import recovery_state as at
from bare_site import bin_of, make_bare_site
from coachman.wire import EXIT_BOUNDARY, EXIT_OK
from daemon_process import DaemonProcess

OFF = "echo 0 >/proc/sys/user/{}"


@contextmanager
def daemon_where(root: Path, amiss: str) -> Iterator[DaemonProcess]:
    """A daemon in a user namespace of its own, in which something was done before."""
    python = root / "python"
    python.write_text(
        f'#!/bin/sh\nexec unshare -Ur sh -c \'{amiss} && exec "$@"\' sh {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    process = DaemonProcess(root, python=str(python))
    try:
        yield process.start()
    finally:
        process.tidy()


def examined(daemon: DaemonProcess, *words: str, **env: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document."""
    done = daemon.cli("doctor", *words, "--json", env=env)
    return done.returncode, json.loads(done.stdout)


def of(document: dict[str, Any], area: str, name: str) -> dict[str, Any]:
    """The one diagnosis of that name."""
    [found] = [d for d in document["diagnoses"] if (d["area"], d["name"]) == (area, name)]
    return found


def test_a_daemon_examines_its_own_surroundings(state_dir: Path) -> None:
    """A key that only its environment has counts, and so does what its caller would lend."""
    (state_dir / "bin").mkdir()
    for name in ("claude", "gemini"):
        (state_dir / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (state_dir / "bin" / name).chmod(0o755)
    path = f"{state_dir}/bin:{os.environ['PATH']}"
    process = DaemonProcess(state_dir, {"ANTHROPIC_API_KEY": "sk-of-the-daemon"})
    process.start()
    try:
        # The client's own environment lacks the one, and has the other.
        del process.env["ANTHROPIC_API_KEY"]
        _, claude = examined(process, "claude", PATH=path)
        _, gemini = examined(process, "gemini", PATH=path, GEMINI_API_KEY="of-the-caller")
    finally:
        process.tidy()

    assert claude["by"] == "daemon"
    assert of(claude, "daemon", "answers")["status"] == "ok"
    told = of(claude, "agent claude", "credential")["found"]
    assert told == "ANTHROPIC_API_KEY from the daemon's environment"
    told = of(gemini, "agent gemini", "credential")["found"]
    assert told == "GEMINI_API_KEY from your shell"
    assert "sk-of-the-daemon" not in json.dumps(claude)


def test_a_daemon_without_bubblewrap_says_so_to_a_client_that_has_it(
    state_dir: Path, tmp_path: Path, repo: Path
) -> None:
    """The walls are the daemon's to build; a refused run points to the doctor."""
    bin_dir = bin_of(make_bare_site(tmp_path / "v"))
    bare = DaemonProcess(state_dir, {"PATH": str(bin_dir)}, str(bin_dir / "python"))
    bare.start()
    try:
        code, document = examined(bare, "demo", PATH=os.environ["PATH"])
        with pytest.raises(coachman.CoachmanError) as refused:
            at.start(bare, repo, "say done")
    finally:
        bare.tidy()

    assert code == EXIT_BOUNDARY
    assert "cannot find bubblewrap" in of(document, "boundary", "walls")["cause"]
    assert refused.value.name == "BoundaryUnavailable"
    assert refused.value.next == [["coachman", "doctor"]]


def test_without_network_namespaces_only_runs_that_have_one_are_refused(
    state_dir: Path, repo: Path
) -> None:
    """A run with the host's network starts, and the status says which do."""
    with daemon_where(state_dir, OFF.format("max_net_namespaces")) as daemon:
        with pytest.raises(coachman.CoachmanError, match="max_net_namespaces is 0"):
            at.start(daemon, repo, "say done")
        on_host = at.result(daemon, at.start(daemon, repo, "say done", network=["host"]))
        status = daemon.cli("status").stdout

    assert (on_host["outcome"], on_host["final_message"]) == ("succeeded", "done")
    assert "only with --network host do runs start" in status


def test_without_user_namespaces_only_isolated_runs_are_refused(
    state_dir: Path, repo: Path
) -> None:
    """Who is root makes the namespace of processes that profile host needs without one."""
    with daemon_where(state_dir, OFF.format("max_user_namespaces")) as daemon:
        with pytest.raises(coachman.CoachmanError, match="max_user_namespaces is 0"):
            at.start(daemon, repo, "say done", network=["host"])
        native = at.result(daemon, at.start(daemon, repo, "say done", profile="host"))
        status = daemon.cli("status").stdout

    assert (native["outcome"], native["final_message"]) == ("succeeded", "done")
    assert "only with -p host do runs start" in status


def test_a_daemon_that_died_is_warned_of(daemon: DaemonProcess) -> None:
    """While it lives it answers; once it was killed its program stands in and tells its end."""
    before_code, before = examined(daemon, "demo")
    daemon.kill()
    dead_code, dead = examined(daemon, "demo")

    assert (before_code, dead_code) == (EXIT_OK, EXIT_OK)
    assert [each["by"] for each in (before, dead)] == ["daemon", "program"]
    assert of(before, "daemon", "socket")["status"] == "ok"
    assert "killed" in of(dead, "daemon", "answers")["cause"]
    assert of(dead, "daemon", "answers")["next"] == [["coachman", "daemon", "logs"]]
