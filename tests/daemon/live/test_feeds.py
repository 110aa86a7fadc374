"""A program of the user's is fed a run's events: all, in order, across daemons, delaying nobody."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import coachman
import recovery_state as at
from coachmand.failpoints import VARIABLE
from daemon_process import DaemonProcess
from permission_desk import Eventually, ended, program, start


def noting(root: Path, more: str = "") -> Path:
    """A program that appends what it is fed to a file, a line at a time."""
    return program(
        root / "noting",
        f'echo "$$ $COACHMAN_AFTER_SEQ $COACHMAN_RUN" >>{root}/lives\n'
        f'while IFS= read -r line; do printf "%s\\n" "$line" >>{root}/fed; {more or ":"}; done',
    )


def fed(root: Path) -> list[dict[str, Any]]:
    """What the program was fed, torn lines left out."""
    path = root / "fed"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"}")]


def lives(root: Path) -> list[list[str]]:
    return [line.split() for line in (root / "lives").read_text().splitlines()]


def settled(daemon: DaemonProcess) -> bool:
    return not os.listdir(daemon.state / "feeds")


def is_through(daemon: DaemonProcess, run: str) -> bool:
    """Whether all was read that there is, and that is on record: nothing is between two steps."""
    place = json.loads((daemon.state / "feeds" / run).read_bytes())
    events = daemon.events(run)
    return bool(fed(daemon.root) == events and place["given"] == events[-1]["seq"])


def test_a_program_is_fed_each_event_once_and_hears_of_the_end_last(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """What it reads is the journal; at `run.ended` the result can be had; nothing is owed then."""
    result = f"{daemon.state}/runs/$COACHMAN_RUN/result.json"
    copy = f'case "$line" in *run.ended*) cp {result} {daemon.root}/got;; esac'
    given = noting(daemon.root, copy)
    done = daemon.cli(
        *("run", "-d", "-a", "demo", "--json", "--on-event", os.path.relpath(given, repo)),
        *("say one", "-q"),
        cwd=repo,
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    ended(daemon, run)
    eventually(lambda: settled(daemon))

    assert fed(daemon.root) == daemon.events(run)
    assert [life[1:] for life in lives(daemon.root)] == [["0", run]]
    assert json.loads((daemon.root / "got").read_text())["outcome"] == "succeeded"
    with daemon.client() as client:
        assert client.daemon.status()["findings"] == []


def test_daemons_that_come_and_go_leave_nothing_out_and_repeat_nothing(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Killed, stopped, restarted in place while the run waits: each goes on behind the last."""
    given = noting(daemon.root)
    run = start(daemon, repo, "ask a\nask b\nask c\nask d", permissions="ask", on_event=str(given))
    for go in (daemon.restart, lambda: (daemon.stop(), daemon.start()), daemon.restart_in_place):
        request = at.until_asked(daemon, run)
        eventually(lambda: is_through(daemon, run))
        go()
        with daemon.client() as client:
            client.permission.answer(request, run=run, kind="allow")
    with daemon.client() as client:
        client.permission.answer(at.until_asked(daemon, run), run=run, kind="allow")
    ended(daemon, run)
    eventually(lambda: settled(daemon))

    assert fed(daemon.root) == daemon.events(run)
    after = [int(life[1]) for life in lives(daemon.root)]
    assert len(after) == 4
    assert after == sorted(after)
    # Each had its end of input, and took it.
    eventually(lambda: at.living([int(life[0]) for life in lives(daemon.root)]) == [])


# The daemon dies before it answers the start; who asks again with the key has the same run.
STARTING = ("start.marked", "feed.owed", "start.recorded", "start.in_task", "start.queued")


@pytest.mark.parametrize("step", [*STARTING, "feed.given", "feed.recorded", "end.recorded"])
def test_a_daemon_that_dies_at_any_step_leaves_nothing_out(
    state_dir: Path, repo: Path, eventually: Eventually, step: str
) -> None:
    """What came between two steps may be fed again, told apart by its `seq`; nothing is missing."""
    with dying_at(state_dir, f"{step}:kill") as daemon:
        given = noting(state_dir)
        key = {"on_event": str(given), "request_key": "once"}
        try:
            run = start(daemon, repo, "say one\nsay two", **key)
        except coachman.CoachmanError:
            assert step in STARTING
        assert daemon.process is not None
        daemon.process.wait(60)
        del daemon.env[VARIABLE]
        daemon.start()
        run = start(daemon, repo, "say one\nsay two", **key)
        ended(daemon, run)
        eventually(lambda: settled(daemon))
        events = {event["seq"]: event for event in fed(state_dir)}

        assert list(events.values()) == daemon.events(run)
        assert len(fed(state_dir)) == len(events) or step == "feed.given"


@contextmanager
def dying_at(state_dir: Path, failpoint: str) -> Iterator[DaemonProcess]:
    process = DaemonProcess(state_dir, {VARIABLE: failpoint}).start()
    try:
        yield process
    finally:
        process.tidy()


def test_a_program_that_dies_is_told_of_and_run_again_where_it_was(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Its reason is an event; the next gets what it had not read; the run does not notice."""
    once = daemon.root / "once"
    dies = f"[ -e {once} ] || case $line in *run.started*) : >{once}; echo oh no >&2; exit 7;; esac"
    run = start(daemon, repo, "say one\nsleep 1\nsay two", on_event=str(noting(daemon.root, dies)))
    assert ended(daemon, run)["outcome"] == "succeeded"
    eventually(lambda: settled(daemon))
    [told] = [event for event in daemon.events(run) if event["type"] == "feed.failed"]

    assert told["reason"] == "it ended with status 7: oh no"
    assert (told["then"], told["program"]) == ("again", str(daemon.root / "noting"))
    events = fed(daemon.root)
    assert events == sorted(events, key=lambda event: event["seq"])
    missing = {event["seq"] for event in daemon.events(run)} - {event["seq"] for event in events}
    # A shell reads byte by byte: what it had not read was not lost with it.
    assert missing == set()
    assert len(events) == len(daemon.events(run))


def test_one_that_leaves_by_its_own_will_is_left_alone(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Status 0 before the run's end: told, findable in the status, and never run again."""
    given = program(daemon.root / "first", f"head -n1 >{daemon.root}/first-line")
    run = start(daemon, repo, "sleep 1\nsay two", on_event=str(given))
    result = ended(daemon, run)
    eventually(lambda: settled(daemon))
    [told] = [event for event in daemon.events(run) if event["type"] == "feed.failed"]
    with daemon.client() as client:
        [finding] = client.daemon.status()["findings"]

    assert (told["reason"], told["then"]) == (
        "it ended with status 0, before the run did",
        "given_up",
    )
    assert (finding["kind"], finding["path"]) == ("on_event", str(given))
    assert run[-5:] in finding["why"]
    assert any("not fed to" in warning for warning in result["warnings"])
    assert "finding   on_event" in daemon.cli("status").stdout


def test_one_that_reads_nothing_delays_neither_its_run_nor_the_daemon(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """More than a pipe holds is said; the run ends, the daemon leaves, and the rest comes later."""
    given = program(
        daemon.root / "deaf",
        f"echo $$ >>{daemon.root}/lives; [ -e {daemon.root}/go ] || exec sleep 600\n"
        f"cat >>{daemon.root}/fed",
    )
    much = "head -c 60000 /dev/zero | tr '\\0' x; echo"
    argv = ["/bin/sh", "-c", f"for i in 1 2 3 4; do {much}; done"]
    run = at.start(daemon, repo, "", agent="command", argv=argv, on_event=str(given))
    ended(daemon, run)
    eventually((daemon.root / "lives").exists)
    first = int((daemon.root / "lives").read_text())
    assert at.living([first]) == [first]
    daemon.stop()
    (daemon.root / "go").touch()
    os.kill(first, signal.SIGKILL)
    daemon.start()
    eventually(lambda: settled(daemon))

    events = fed(daemon.root)
    assert events
    assert events == daemon.events(run)[-len(events) :]


def test_who_is_fed_hears_of_the_ends_before_a_daemon_that_ends_runs_is_gone(
    daemon: DaemonProcess, repo: Path
) -> None:
    """`daemon stop --runs` gives them the time to read it."""
    run = start(daemon, repo, "sleep 600", on_event=str(noting(daemon.root)))
    at.until_event(daemon, run, lambda event: event["type"] == "run.started")
    done = daemon.cli("daemon", "stop", "--runs")

    assert done.returncode == 0, done.stderr
    assert fed(daemon.root) == daemon.events(run)
    assert fed(daemon.root)[-1]["outcome"] == "cancelled"
    assert settled(daemon)


def test_only_a_program_of_the_users_own_is_fed(daemon: DaemonProcess, repo: Path) -> None:
    """It is pinned as a permission handler is, and refused before anything happens."""
    bare = program(daemon.root / "bare", "cat")
    bare.write_text("cat >/dev/null\n")
    cases = {
        "which agents reach": (program(repo / "reader", "cat"), "it has to be yours"),
        "written by others": (program(daemon.root / "shared", "cat", 0o722), "it has to be yours"),
        "is no executable file": (program(daemon.root / "plain", "cat", 0o600), "chmod [+]x /"),
        "cannot be opened": (daemon.root / "missing", "check the path"),
        "names no interpreter": (bare, "begin it with a line that names one, as #!/bin/sh"),
    }
    for why, (path, hint) in cases.items():
        with pytest.raises(coachman.CoachmanError, match=why) as refused:
            start(daemon, repo, "say hi", on_event=str(path))
        assert refused.value.name == "Denied"
        assert re.match(hint, refused.value.hint or "")
    with pytest.raises(coachman.CoachmanError, match="an absolute path to a program"):
        start(daemon, repo, "say hi", on_event="reader")
    empty = daemon.cli("run", "--on-event", "", "say hi", cwd=repo)

    assert "cannot run --on-event '': name a file" in empty.stderr
    assert os.listdir(daemon.state / "runs") == os.listdir(daemon.state / "feeds") == []


def test_the_program_is_the_one_that_the_run_was_started_with(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Changed while no daemon ran it is not run; put back, it goes on where it was."""
    given = noting(daemon.root)
    text = given.read_bytes()
    run = start(daemon, repo, "ask a", permissions="ask", on_event=str(given))
    request = at.until_asked(daemon, run)
    eventually(lambda: is_through(daemon, run))
    daemon.kill()
    program(given, f"cat >{daemon.root}/stolen")
    daemon.start()
    told = at.until_event(daemon, run, lambda event: event["type"] == "feed.failed")
    given.write_bytes(text)
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    ended(daemon, run)
    eventually(lambda: settled(daemon))

    assert told["reason"] == "is not the program any more that the run was started with"
    assert told["then"] == "again"
    assert fed(daemon.root) == daemon.events(run)
    assert not (daemon.root / "stolen").exists()
