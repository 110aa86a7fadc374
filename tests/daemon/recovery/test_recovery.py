"""What a run that was under way becomes when its daemon is killed and another one starts."""

import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import coachman
import live_runs as live
import recovery_state as at
from coachman.wire import EXIT_STATE
from coachmand.failpoints import VARIABLE
from coachmand.runs.keepers.link import KeeperLink
from coachmand.runs.keepers.starting import KeeperError
from daemon_process import DaemonProcess, git


def test_a_question_outlives_the_daemon_and_is_answered_once(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The pending permission is listed and answered by the next daemon; the agent heard it once."""
    run = at.start(daemon, repo, "say before\nwrite x.txt text\nsay done", permissions="ask")
    request = at.until_asked(daemon, run)

    daemon.restart()
    with daemon.client() as client:
        [listed] = client.permission.list(pending=True)["permissions"]
        client.permission.answer(request, run=run, kind="allow")
    result = at.result(daemon, run)
    stdin = (at.attempt(daemon, run) / "stdin.log").read_bytes()

    assert (listed["request"], listed["state"]) == (request, "pending")
    assert result["outcome"] == "succeeded"
    assert [change["path"] for change in result["changed_files"]] == ["x.txt"]
    assert stdin.count(b'"outcome":"selected"') == 1
    at.check_journal(daemon.events(run))


def test_a_stream_goes_on_behind_the_crash(daemon: DaemonProcess, repo: Path) -> None:
    """What an agent says while no daemon lives is in the journal and the final message, once."""
    run = at.start(daemon, repo, "chunks 3\nrun sleep 1\nchunks 300")
    at.until_event(daemon, run, lambda event: event["type"] == "tool.call")

    daemon.restart()
    result = at.result(daemon, run)
    events = daemon.events(run)

    assert result["outcome"] == "succeeded"
    assert result["final_message"] == "".join(f"chunk {n} of 300\n" for n in range(1, 301))
    at.check_journal(events)


def test_a_killed_keeper_loses_the_run_and_ends_its_tree(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Without its keeper a run ends lost, whatever it had done, and nothing of it lives."""
    run = at.start(daemon, repo, "say done\nwrite kept.txt text\nsleep 300")
    at.until_event(daemon, run, lambda e: e.get("status") == "completed")
    pids = at.kill_keeper(daemon, run)
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("lost", "keeper_lost")
    assert [change["path"] for change in result["changed_files"]] == ["kept.txt"]
    assert len(pids) == 3
    assert eventually(lambda: at.living(pids) == [])
    at.check_journal(daemon.events(run))


def test_what_could_not_be_ended_is_on_record(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The result warns of the process, and status names it for as long as it lives."""
    run = live.keep(daemon, repo, "say one")
    live.until_parked(daemon, run)
    daemon.kill()
    [keeper] = daemon.keepers()
    (at.directory(daemon, run) / "prompts" / "1.md").write_text("say two")
    daemon.env[VARIABLE] = "orphan.found:eio@1+"
    daemon.start()
    result = at.result(daemon, run)
    with daemon.client() as client:
        found = client.daemon.status()["findings"]
    told = daemon.cli("status").stdout
    os.kill(keeper, signal.SIGKILL)

    assert (result["outcome"], result["stop_reason"]) == ("lost", "replay_diverged")
    assert any(f"cannot end process {keeper} of " in text for text in result["warnings"])
    assert live.of_type(daemon, run, "error")[0]["message"] in result["warnings"]
    assert [(each["kind"], f"kill -9 {keeper}" in each["remedy"]) for each in found] == [
        ("process", True)
    ]
    assert f"cannot end process {keeper}" in told
    with daemon.client() as client:
        assert eventually(lambda: client.daemon.status()["findings"] == [])
    at.check_journal(daemon.events(run))


def test_daemon_and_keeper_killed_together_lose_the_run(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The next daemon finds no keeper and no exit.json: lost."""
    run = at.start(daemon, repo, "say done\nsleep 300")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    pids = at.kill_keeper(daemon, run)
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("lost", "keeper_lost")
    assert result["final_message"] == "done"
    assert eventually(lambda: at.living(pids) == [])
    at.check_journal(daemon.events(run))


def test_an_attempt_whose_keeper_never_came_is_followed_by_another(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Killed between attempt.started and its keeper, the run starts a second attempt."""
    run = at.start(daemon, repo, "say done\nsleep 300")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    pids = at.kill_keeper(daemon, run)
    eventually(lambda: at.living(pids) == [])
    types = [event["type"] for event in daemon.events(run)]
    at.cut(daemon, run, types.index("attempt.started") + 1)
    for path in at.attempt(daemon, run).iterdir():
        path.unlink()
    at.reword(daemon, run, "say done")
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("succeeded", 2)
    at.check_journal(daemon.events(run))


def test_a_daemon_killed_while_it_starts_a_run_goes_on_with_it(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Killed as soon as the attempt's lock, its keeper or its output appears, the run succeeds."""
    for appears in ("keeper.lock", "keeper.json", "stdout.0"):
        run = at.start(daemon, repo, "say done")
        path = at.attempt(daemon, run) / appears
        eventually(path.exists)
        daemon.restart()
        assert at.result(daemon, run)["outcome"] == "succeeded", appears
        at.check_journal(daemon.events(run))
    assert eventually(lambda: daemon.keepers() == [])


def test_a_cancel_that_was_only_written_down_is_carried_out(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Killed before the agent heard of the cancel, the next daemon goes up the ladder."""
    run = at.start(daemon, repo, "say hi\nsleep 300")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    at.add(daemon, run, "run.state", **{"from": "active", "to": "stopping", "reason": "cancelled"})
    daemon.start()
    result = at.result(daemon, run)

    assert result["outcome"] == "cancelled"
    assert eventually(lambda: daemon.keepers() == [])
    at.check_journal(daemon.events(run))


@pytest.mark.parametrize("place", ["first", "last"])
def test_other_words_in_the_stdin_log_end_the_run_as_lost(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object], place: str
) -> None:
    """A dialogue that cannot be told again as it was told is not gone on with; its tree ends."""
    run = at.start(daemon, repo, "say hi\nsleep 300")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    log = at.attempt(daemon, run) / "stdin.log"
    told = bytearray(log.read_bytes())
    told[2 if place == "first" else -3] ^= 1
    log.write_bytes(told)
    pids = at.sandbox_pids(daemon, run)
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("lost", "replay_diverged")
    assert eventually(lambda: at.living(pids) == [])
    at.check_journal(daemon.events(run))


def test_a_torn_journal_is_cut_and_the_cut_reported(daemon: DaemonProcess, repo: Path) -> None:
    """Half a line at the journal's end is dropped; run.recovered says how much that was."""
    run = at.start(daemon, repo, "say hi\nwrite x.txt text\nsay done", permissions="ask")
    at.until_asked(daemon, run)
    daemon.kill()
    journal = at.directory(daemon, run) / "events.ndjson"
    with journal.open("ab") as file:
        file.write(b'{"type":"agent.mess')
    daemon.start()
    with daemon.client() as client:
        client.run.cancel([run])
    at.result(daemon, run)
    events = daemon.events(run)
    [recovered] = [event for event in events if event["type"] == "run.recovered"]

    assert recovered["cut_bytes"] == 19
    assert recovered["resumed_after"] == recovered["seq"] - 1
    assert recovered["state"] == "waiting"
    at.check_journal(events)


def test_a_second_daemon_is_refused_and_told_who_holds_the_state(daemon: DaemonProcess) -> None:
    """One daemon per state directory; the refusal names the other's pid."""
    assert daemon.process is not None
    second = DaemonProcess(daemon.root)
    with pytest.raises(AssertionError, match=f"pid {daemon.process.pid} on "):
        second.start()
    assert second.process is not None

    assert second.process.wait(10) == EXIT_STATE
    with daemon.client() as client:
        client.daemon.ping()


async def test_each_daemon_attaches_as_a_higher_generation(
    daemon: DaemonProcess,
    repo: Path,
    nursery: object,
    eventually_async: Callable[..., Awaitable[object]],
) -> None:
    """A daemon that comes back from the dead is refused by a keeper that knows its successor."""
    run = at.start(daemon, repo, "say hi\nsleep 300")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    path = at.attempt(daemon, run)
    generation = lambda: json.loads((path / "keeper.json").read_bytes())["generation"]  # noqa: E731
    before = generation()
    daemon.restart()
    await eventually_async(lambda: generation() != before)
    after = generation()
    with pytest.raises(KeeperError) as refused:
        await KeeperLink.attach(path, before, None, nursery)
    with daemon.client() as client:
        client.run.cancel([run])
    [recovered] = [e for e in daemon.events(run) if e["type"] == "run.recovered"]

    assert after > before
    assert recovered["generation"] == after
    assert refused.value.code == "stale_generation"


def test_a_journal_that_the_disk_refuses_does_not_keep_a_daemon_from_starting(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The run is left to a later daemon, storage is degraded, and everything else answers."""
    run = at.start(daemon, repo, "say hi\nsleep 300")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    journal = at.directory(daemon, run) / "events.ndjson"
    journal.rename(journal.with_suffix(".kept"))
    journal.symlink_to("/dev/full")
    daemon.start()
    with daemon.client() as client:
        eventually(lambda: client.daemon.status()["storage"]["state"] != "ok")
        storage = client.daemon.status()["storage"]
        with pytest.raises(coachman.CoachmanError) as refused:
            client.run.start("say hi", dir=str(repo), agent="demo")
    daemon.kill()
    journal.with_suffix(".kept").rename(journal)
    daemon.start()
    with daemon.client() as client:
        client.run.cancel([run])

    assert (storage["state"], refused.value.name) == ("degraded", "Degraded")
    assert at.result(daemon, run)["outcome"] == "cancelled"
    at.check_journal(daemon.events(run))


def test_a_half_made_worktree_is_made_anew(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Killed in the middle of a checkout, the run starts in a whole tree, not in what was there."""
    run = at.start(daemon, repo, "sleep 300", task="t1")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.session")
    daemon.kill()
    pids = at.kill_keeper(daemon, run)
    eventually(lambda: at.living(pids) == [])
    types = [event["type"] for event in daemon.events(run)]
    at.cut(daemon, run, types.index("attempt.started"))
    shutil.rmtree(at.attempt(daemon, run))
    at.reword(daemon, run, "say done")
    [task] = daemon.state.glob("tasks/*/t1.json")
    task.write_text(json.dumps({**json.loads(task.read_bytes()), "admin": ""}))
    [tree] = daemon.state.glob("worktrees/*/t1")
    (tree / "a.txt").unlink()
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["changed_files"]) == ("succeeded", [])
    assert (tree / "a.txt").read_text() == "first\n"
    assert git(repo, "worktree", "list").count(str(tree)) == 1
    at.check_journal(daemon.events(run))
