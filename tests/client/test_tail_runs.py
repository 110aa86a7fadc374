"""`tail` over several runs of a real daemon: chosen, merged, resumed, and without it as well."""

import json
import time
from pathlib import Path
from typing import Any

import recovery_state as at
from daemon_process import DaemonProcess
from live_runs import refused


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def places(events: list[dict[str, Any]]) -> list[int]:
    return [event["g"] for event in events if not event["type"].startswith("stream.")]


def test_a_tail_goes_on_by_its_cursor_file_across_daemons(
    daemon: DaemonProcess, repo: Path
) -> None:
    """What ended or began between two tails, and two daemons, is printed once by the second."""
    words = ("tail", "-l", "team=a", "--since", "1h", "--no-follow", "--cursor", "at", "--json")
    first = at.start(daemon, repo, "chunks 5", labels={"team": "a"})
    at.result(daemon, first)
    before = documents(daemon.cli(*words, cwd=repo).stdout)
    daemon.kill()
    daemon.start()
    second = at.start(daemon, repo, "chunks 5", labels={"team": "a"})
    other = at.start(daemon, repo, "chunks 5")
    at.result(daemon, second)
    at.result(daemon, other)
    after = documents(daemon.cli(*words, cwd=repo).stdout)

    assert before.pop()["reason"] == after.pop()["reason"] == "caught_up"
    assert before == daemon.events(first)
    assert after == daemon.events(second)
    assert documents(daemon.cli(*words, cwd=repo).stdout)[0]["type"] == "stream.ended"


def test_several_runs_are_one_stream_that_ends_with_the_last(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Named runs, in the order of all events; the same from the files once the daemon is gone."""
    runs = [at.start(daemon, repo, "chunks 20") for _ in range(2)]
    live = documents(daemon.cli("tail", *runs, "--json", cwd=repo).stdout)
    text = daemon.cli("watch", *(run[-5:] for run in runs), cwd=repo).stdout.splitlines()
    daemon.kill()
    stale = documents(daemon.cli("tail", *runs, "--json", cwd=repo).stdout)

    assert live.pop()["reason"] == "run_ended"
    assert places(live) == sorted(places(live))
    assert {event["run"] for event in live} == set(runs)
    assert stale.pop() | {"last_seq": 0} == {
        "type": "stream.ended",
        "last_seq": 0,
        "reason": "run_ended",
        "stale": True,
    }
    assert sorted(stale, key=lambda event: event["g"]) == live
    for run in runs:
        assert f"milestone {run[-5:]}   [ended: succeeded]" in text


def test_a_run_is_followed_from_its_file_while_no_daemon_runs(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The daemon dies, a tail begins, the next daemon goes on: the tail ends with the run."""
    run = at.start(daemon, repo, "chunks 3\nask on\nchunks 3", permissions="ask")
    request = at.until_asked(daemon, run)
    daemon.kill()
    tail = daemon.spawn("tail", run, "--json", cwd=repo)
    time.sleep(0.5)
    daemon.start()
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    output, errors = tail.communicate(timeout=60)

    assert (tail.returncode, errors) == (0, b"")
    assert documents(output.decode())[:-1] == daemon.events(run)


def test_what_policy_settled_is_one_line_and_what_is_settled_is_not_offered(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Also among several runs and with classes; only what still waits names how to answer it."""
    free = at.start(daemon, repo, "write x.txt text\nsay done")
    at.result(daemon, free)
    asking = at.start(daemon, repo, "ask first\nask second", permissions="ask")
    with daemon.client() as client:
        request = at.until_asked(daemon, asking)
        client.permission.answer(request, run=asking, kind="allow")
        while at.until_asked(daemon, asking) == request:
            time.sleep(0.02)
    alone = daemon.cli("tail", free, "--classify", cwd=repo).stdout
    both = daemon.cli("tail", "-a", "--since", "1h", "--no-follow", cwd=repo).stdout
    one = daemon.cli("tail", asking, "--no-follow", cwd=repo).stdout
    daemon.kill()
    stale = daemon.cli("tail", asking, "--no-follow", cwd=repo).stdout

    for text in (alone, both):
        assert [line for line in text.splitlines() if "x.txt?" in line and " = " in line]
        assert not [line for line in text.splitlines() if "x.txt?" in line and " ? " in line]
    for text in (both, one):
        assert text.count("coachman answer") == 1
        assert text.index("allow once, by") < text.index("coachman answer")
    assert "coachman answer" not in stale


def test_a_batch_is_what_was_started_with_its_name(daemon: DaemonProcess, repo: Path) -> None:
    """`--batch` is one label: it chooses in lists, streams and waits, with and without a daemon."""
    for number, words in enumerate((["--batch", "b1"], ["--batch", "b1", "-l", "a=b"], [])):
        done = daemon.cli("run", "-a", "demo", "-t", f"t{number}", *words, "say hi", cwd=repo)
        assert done.returncode == 0, done.stderr
    asking = daemon.cli("run", "-d", "-a", "demo", "--batch", "b2", "sleep 600", "-q", cwd=repo)
    listed = daemon.cli("list", "--batch", "b1", "-q", cwd=repo).stdout.split()
    told = documents(
        daemon.cli("tail", "--batch", "b1", "--since", "1h", "--no-follow", "--json").stdout
    )
    ended = daemon.cli("cancel", "--batch", "b2", cwd=repo)
    both = daemon.cli("list", "--batch", "b1", "-l", "batch=b2", cwd=repo)
    with daemon.client() as client:
        rows = client.run.list(batch="b1", labels={"a": "b"})["runs"]
        heard = {event["run"] for event in client.follow(batch="b2", since=0, until_now=True)}
        wrong = refused(client.run.list, batch="b1", labels={"batch": "b2"})
    daemon.kill()
    stale = daemon.cli("list", "--batch", "b1", "-q", cwd=repo).stdout.split()

    assert len(listed) == 2
    assert sorted(stale) == sorted(listed)
    assert {event["run"][-5:] for event in told[:-1]} == set(listed)
    assert ended.returncode == 0
    assert asking.stdout.strip() in ended.stdout
    assert (both.returncode, "differ" in both.stderr) == (64, True)
    assert [row["task"] for row in rows] == ["t1"]
    assert [run[-5:] for run in heard] == [asking.stdout.strip()]
    assert (wrong.name, wrong.detail) == ("InvalidParams", {"member": "batch"})
