"""How a daemon ended is told by the next client that finds none, from what lies on the disk."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
from coachman import lifetime
from daemon_process import DaemonProcess


def told(daemon: DaemonProcess) -> dict[str, Any]:
    """The error of a command that finds no daemon."""
    done = daemon.cli("status", "--json")
    assert done.returncode == 69
    found: dict[str, Any] = json.loads(done.stdout)["error"]
    return found


def until_dead(daemon: DaemonProcess) -> None:
    assert daemon.process is not None
    daemon.process.wait(20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_can_be_seen_is_named(daemon: DaemonProcess, number: signal.Signals) -> None:
    """With the moment; it is an end that somebody wanted."""
    assert daemon.process is not None
    daemon.process.send_signal(number)
    until_dead(daemon)
    error = told(daemon)

    assert daemon.process.returncode == 0
    assert f" by {number.name}" in error["message"]
    assert (error["detail"]["last_end"]["how"], error["detail"]["last_end"]["orderly"]) == (
        "signal",
        True,
    )
    assert error["next"] == [["coachman", "daemon", "start"]]


def test_who_stopped_it_is_named(daemon: DaemonProcess) -> None:
    """By pid, which the kernel vouches for."""
    with daemon.client() as client:
        client.daemon.shutdown()
    until_dead(daemon)
    end = told(daemon)["detail"]["last_end"]

    assert (end["how"], end["mode"], end["by"]["pid"]) == ("stopped", "detach", os.getpid())
    assert f"by pid {os.getpid()}" in end["message"]


def test_a_daemon_that_was_killed_is_said_to_be(daemon: DaemonProcess) -> None:
    """It wrote nothing: what else could have ended it would have been seen."""
    began = time.time_ns() // 1_000_000
    daemon.kill()
    error = told(daemon)
    end = error["detail"]["last_end"]
    listed = daemon.cli("list")
    daemon.start()
    with daemon.client() as client:
        before = client.daemon.status()["before"]
    status = daemon.cli("status").stdout

    assert (end["how"], end["orderly"]) == ("killed", False)
    assert "(signal 9)" in error["message"]
    assert abs(end["at"] - began) < 60_000
    assert "(signal 9)" in listed.stderr
    assert before is not None
    assert before["how"] == "killed"
    assert "before    the last one was killed" in status


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_is_told_in_the_interpreters_words(
    daemon: DaemonProcess, number: signal.Signals
) -> None:
    """A fault of native code leaves its name behind."""
    assert daemon.process is not None
    daemon.process.send_signal(number)
    until_dead(daemon)
    end = told(daemon)["detail"]["last_end"]

    assert (end["how"], end["orderly"]) == ("crashed", False)
    assert "Fatal Python error" in end["message"]


def test_a_command_that_starts_another_one_says_why(daemon: DaemonProcess, repo: Path) -> None:
    """Where the last one died; where it was stopped there is nothing to say."""
    daemon.kill()
    again = {"COACHMAN_AUTOSTART": "1"}
    after_death = daemon.cli("run", "-a", "demo", "-q", "say hi", cwd=repo, env=again)
    loud = []
    for _ in range(2):
        assert daemon.cli("daemon", "stop").returncode == 0
        loud.append(daemon.cli("run", "-a", "demo", "say hi", cwd=repo, env=again).stderr)
    with daemon.client() as client:
        pid = client.daemon.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    while lifetime.start_ticks(pid) is not None:
        time.sleep(0.01)
    told_so = daemon.cli("run", "-a", "demo", "say hi", cwd=repo, env=again).stderr
    daemon.cli("daemon", "stop")

    assert after_death.returncode == 0
    assert not any("another daemon" in text for text in loud)
    assert "[another daemon was started: the last one was killed" in told_so


def test_a_record_of_another_boot_tells_of_a_reboot(tmp_path: Path) -> None:
    """Nothing of that boot can be alive, whatever has its number now."""
    record = {"pid": os.getpid(), "boot": "another", "started_ms": 1_000, "ended": None}
    (tmp_path / lifetime.RECORD).write_text(json.dumps(record))
    (tmp_path / lifetime.ALIVE).write_text("61000 0\n")
    end = lifetime.last_end(str(tmp_path))

    assert end is not None
    assert (end["how"], end["at"], end["orderly"]) == ("reboot", 61_000, False)


def test_a_daemon_that_does_not_listen_yet_is_not_dead(tmp_path: Path) -> None:
    """Its process is there, and is the very one."""
    ticks = lifetime.start_ticks(os.getpid())
    record = {"pid": os.getpid(), "start_ticks": ticks, "boot": lifetime.boot(), "ended": None}
    (tmp_path / lifetime.RECORD).write_text(json.dumps(record))
    end = lifetime.last_end(str(tmp_path))
    (tmp_path / lifetime.RECORD).write_text(json.dumps({**record, "start_ticks": 1}))
    other = lifetime.last_end(str(tmp_path))

    assert end is not None
    assert other is not None
    assert (end["how"], other["how"]) == ("lives", "killed")


def test_want_of_memory_is_suspected_where_the_kernel_killed(tmp_path: Path) -> None:
    """The kernel counts what it killed; more than at the last sign of life is a hint, no proof."""
    record = {"pid": 0, "start_ticks": 1, "boot": lifetime.boot(), "ended": None}
    (tmp_path / lifetime.RECORD).write_text(json.dumps(record))
    (tmp_path / lifetime.ALIVE).write_text("1000 -1\n")
    assert "want of memory" not in (lifetime.last_end(str(tmp_path)) or {})["message"]
    (tmp_path / lifetime.ALIVE).write_text(f"1000 {lifetime.oom_kills()}\n")
    none = lifetime.last_end(str(tmp_path))

    assert none is not None
    assert (none["oom_kills"], "want of memory" in none["message"]) == (0, False)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"ended": 3}'])
def test_a_record_that_makes_no_sense_is_no_error(tmp_path: Path, text: str) -> None:
    """It is told as far as it can be, and nothing fails over it."""
    (tmp_path / lifetime.RECORD).write_text(text)
    lifetime.last_end(str(tmp_path))

    assert lifetime.last_end(str(tmp_path / "none")) is None


def test_ending_the_runs_is_bounded(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """What is not over in time goes on, is named, and the daemon leaves all the same."""
    run = live.keep(daemon, repo, "say one\nsleep 60")
    live.until_said(daemon, run, "one")
    drained = daemon.cli("daemon", "stop", "--drain", "--timeout", "1s", "--json")
    until_dead(daemon)
    daemon.start()
    stopped = daemon.cli("daemon", "stop", "--runs", "--json")
    refused = daemon.cli("daemon", "stop", "--runs", "--drain")

    assert json.loads(drained.stdout) == {
        "mode": "drain",
        "going_on": [run[-5:]],
        "in_time": False,
    }
    assert json.loads(stopped.stdout) == {"mode": "stop", "going_on": [], "in_time": True}
    assert live.of_type(daemon, run, "run.ended")[0]["outcome"] == "cancelled"
    assert refused.returncode == 64
    eventually(lambda: not daemon.keepers())
