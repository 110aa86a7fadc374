"""A journal that ends anywhere: what is missing of it is told again by the logs, exactly."""

from pathlib import Path

import recovery_state as at
from daemon_process import DaemonProcess, git

PROMPT = "write a.txt text\nrun echo hi\nsay one\nchunks 9\nthink hm\nusage 3 4\nsay done"
MOST_CUTS = 12


def test_the_rest_of_a_journal_is_told_again_from_any_line(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Wherever behind the last answer a journal was cut, the run ends as before, to the line."""
    first = at.start(daemon, repo, PROMPT, task="first")
    at.result(daemon, first)
    whole = daemon.events(first)
    cuts = range(_behind_the_answers(whole), len(whole))
    cuts = cuts[:: len(cuts) // MOST_CUTS + 1]
    runs = [at.start(daemon, repo, PROMPT, task=f"cut-{n}") for n in cuts]
    before = {run: (at.result(daemon, run), daemon.events(run)) for run in runs}
    daemon.kill()
    for n, run in zip(cuts, runs, strict=True):
        at.cut(daemon, run, n, torn_bytes=n % 3 * 7)
    daemon.start()

    for n, run in zip(cuts, runs, strict=True):
        result, events = before[run]
        again, now = at.result(daemon, run), daemon.events(run)
        at.check_journal(now)
        assert at.numbered(now) == at.numbered(events), n
        for name in ("outcome", "stop_reason", "final_message", "usage", "changed_files"):
            assert again[name] == result[name], (n, name)
        recovered = [event for event in now if event["type"] == "run.recovered"]
        assert [event["cut_bytes"] for event in recovered] in ([], [n % 3 * 7])


def test_a_run_that_had_ended_gets_its_result_again(daemon: DaemonProcess, repo: Path) -> None:
    """Killed between run.ended and the result that is derived from it, nothing is decided anew."""
    run = at.start(daemon, repo, PROMPT)
    result, events = at.result(daemon, run), daemon.events(run)
    daemon.kill()
    at.cut(daemon, run, len(events))
    daemon.start()

    again = at.result(daemon, run)
    trees = [git(repo, "rev-parse", f"{r['commits'].pop('to')}^{{tree}}") for r in (again, result)]
    for told in (again, result):
        # What lies on the disk is measured, and there is a result by now.
        del told["bytes"]["all"], told["summary"]["bytes"]
    assert again == result
    assert trees[0] == trees[1]
    assert daemon.events(run) == events
    assert not (daemon.state / "live" / run).exists()


def _behind_the_answers(events: list[at.Event]) -> int:
    """How many lines were synced before the last word reached the agent."""
    told = [e["seq"] for e in events if e["type"] == "agent.input" and e["kind"] == "answer"]
    return max(told)
