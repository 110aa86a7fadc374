"""A program of the user's is told what happens to runs, and can do no harm."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import recovery_state as at
from coachmand.config import Notify
from coachmand.permissions.programs import Programs
from coachmand.runs.following import notices
from coachmand.runs.following.notices import MOST_WAITING, Notices
from permission_desk import WRITE, Eventually, configured, ended, program, start, waiting


def told(root: Path) -> list[dict[str, Any]]:
    """The documents that the program got."""
    path = root / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def test_a_program_is_told_what_needs_somebody_and_what_ended(
    state_dir: Path, repo: Path, eventually: Eventually
) -> None:
    """A question and an end are told, with their run; control characters are not."""
    hook = program(
        state_dir / "tell",
        f'cat >>{state_dir}/told; echo "$COACHMAN_NOTIFY_TEXT|$1" >>{state_dir}/text',
    )
    with configured(state_dir, f'[notify]\ncommand = ["{hook}", "first"]\n') as daemon:
        run = start(daemon, repo, WRITE, permissions="ask")
        asked = waiting(daemon, run)
        eventually(lambda: told(state_dir))
        with daemon.client() as client:
            client.permission.answer(asked["request"], run=run, kind="allow")
        ended(daemon, run)
        eventually(lambda: len(told(state_dir)) == 2)
        lines = (state_dir / "text").read_text().splitlines()

    [[needs], [end]] = [document["notices"] for document in told(state_dir)]
    assert (needs["on"], needs["run"], needs["attention"]["request"]) == (
        "attention",
        run,
        asked["request"],
    )
    assert (end["on"], end["outcome"]) == ("ended", "succeeded")
    assert lines[0].endswith("|first")
    assert "needs you: Edit x.txt?" in lines[0]


def test_a_program_that_fails_is_named_once_and_runs_go_on(
    state_dir: Path, repo: Path, eventually: Eventually
) -> None:
    """Its failure is one line of the log; what is not wanted is not told at all."""
    hook = program(state_dir / "tell", f"echo x >>{state_dir}/calls; exit 3")
    text = f'[notify]\non = ["ended"]\ncommand = ["{hook}"]\n'
    with configured(state_dir, text) as daemon:
        for number in range(2):
            run = start(daemon, repo, WRITE, task=f"t{number}")
            assert ended(daemon, run)["outcome"] == "succeeded"
            calls = state_dir / "calls"
            eventually(
                lambda: calls.exists() and len(calls.read_text().splitlines()) > number  # noqa: B023
            )
        eventually(lambda: "notify_failed" in daemon.log)

        assert daemon.log.count("notify_failed") == 1
        with daemon.client() as client:
            [found] = client.daemon.status()["findings"]
        assert (found["kind"], found["path"]) == ("notify", str(hook))
        assert "it ended with status 3" in found["why"]


def test_what_is_configured_and_cannot_be_used_is_found_in_the_status(
    state_dir: Path, repo: Path
) -> None:
    """Neither a program to tell nor a handler that is missing is known to the log alone."""
    text = (
        f'permission_handler = "command:{state_dir}/ask"\n[notify]\ncommand = ["{state_dir}/no"]\n'
    )
    with configured(state_dir, text) as daemon:
        with daemon.client() as client:
            found = client.daemon.status()["findings"]
            shown = daemon.cli("status").stdout
        program(state_dir / "ask", "true")
        with daemon.client() as client:
            left = client.daemon.status()["findings"]

    assert [(each["kind"], Path(each["path"]).name) for each in found] == [
        ("notify", "no"),
        ("handler", "ask"),
    ]
    assert all("cannot be opened: No such file" in each["why"] for each in found)
    assert "finding   notify" in shown
    assert "finding   handler" in shown
    assert [each["kind"] for each in left] == ["notify"]


def test_a_store_that_cannot_be_trusted_is_told(
    state_dir: Path, repo: Path, eventually: Eventually
) -> None:
    """It is told although nothing can be written any more."""
    hook = program(state_dir / "tell", f"cat >>{state_dir}/told")
    text = f'[notify]\non = ["degraded"]\ncommand = ["{hook}"]\n'
    with configured(state_dir, text) as daemon:
        run = at.start(daemon, repo, "say hi\nsleep 300")
        at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
        daemon.kill()
        journal = at.directory(daemon, run) / "events.ndjson"
        journal.rename(journal.with_suffix(".kept"))
        journal.symlink_to("/dev/full")
        daemon.start()
        [document] = eventually(lambda: told(state_dir))
        [notice] = document["notices"]
        journal.unlink()

    assert (notice["on"], notice["state"]) == ("degraded", "degraded")
    assert notice["text"].startswith("the store is degraded: ")


class Told:
    """What one program is told in this process."""

    def __init__(self, path: Path, text: str) -> None:
        self.root = path
        hook = program(path / "tell", text)
        self.notices = Notices(Notify(("ended",), (str(hook),)), {"PATH": "/usr/bin:/bin"})
        self.notices.open(Programs(), ())

    async def keep(self, until: Callable[[], object]) -> None:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.notices.keep)
                while not until():  # noqa: ASYNC110 - another process tells
                    await trio.sleep(0.02)
                nursery.cancel_scope.cancel()


async def test_what_cannot_be_told_any_more_is_counted(tmp_path: Path) -> None:
    """Of more than a hundred that wait the oldest go, and the program hears how many."""
    at_work = Told(tmp_path, f"cat >>{tmp_path}/told")
    for number in range(MOST_WAITING + 50):
        at_work.notices.put("ended", {"text": f"end {number}"})
        at_work.notices.put("limited", {"text": "nobody wants this"})
    await at_work.keep(lambda: told(tmp_path))
    [document] = told(tmp_path)

    assert document["dropped"] == 50
    assert [each["text"] for each in document["notices"]] == [
        f"end {number}" for number in range(50, MOST_WAITING + 50)
    ]


async def test_a_program_that_takes_too_long_is_ended_and_the_next_notice_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time, each for its limit at most; that it failed is known until one does not."""
    monkeypatch.setattr(notices, "LIMIT_S", 0.3)
    once = f"[ -e {tmp_path}/once ] || {{ : >{tmp_path}/once; exec sleep 600; }}"
    at_work = Told(tmp_path, f"{once}\ncat >>{tmp_path}/told")
    at_work.notices.put("ended", {"text": "lost"})
    await at_work.keep(at_work.notices.findings)
    [found] = at_work.notices.findings()
    at_work.notices.put("ended", {"text": "told"})
    await at_work.keep(lambda: told(tmp_path) and not at_work.notices.findings())

    assert "it took longer than 0.3 s" in found.why
    assert [each["text"] for each in told(tmp_path)[0]["notices"]] == ["told"]
