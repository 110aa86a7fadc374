"""A program of the user's is told what happens to runs, and can do no harm."""

import json
from pathlib import Path
from typing import Any

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
