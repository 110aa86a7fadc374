"""Budgets: a run ends once it has used more than it may, and what cannot be known is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess


@pytest.fixture(autouse=True)
def nothing_unexpected(state_dir: Path) -> Iterator[None]:
    """No run had to be taken up again because carrying it failed."""
    yield
    assert "run_failed" not in (state_dir / "daemon.log").read_text()


def test_a_cost_ends_the_run_while_it_runs(daemon: DaemonProcess, repo: Path) -> None:
    """As soon as the agent tells of it, exit code 7, with the work kept."""
    ran = daemon.cli(
        "run", "-a", "demo", "-t", "t1", "--max-cost", "0.001",
        "write a.txt x\nusage 900 50\nusage 900 50\nsleep 300", cwd=repo,
    )  # fmt: skip
    with daemon.client() as client:
        result = client.run.result("t1", dir=str(repo))
    [told] = live.of_type(daemon, result["run"], "budget.exceeded")

    assert ran.returncode == 7, ran.stderr
    assert (result["outcome"], result["stop_reason"]) == ("over_budget", "over_budget")
    assert (told["which"], told["limit"], told["used"]) == ("cost_usd", 0.001, 0.0019)
    assert result["error"]["message"] == "it cost $0.0019 of $0.0010"
    assert [change["path"] for change in result["changed_files"]] == ["a.txt"]


def test_tokens_that_are_told_at_a_turns_end_end_the_run_there(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A kept run takes no more prompts; one that has ended by itself was over all the same."""
    run = live.keep(daemon, repo, "usage 1500 100", limits={"tokens": 2000})
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "usage 1500 100\nsay two")
    kept = at.result(daemon, run)
    bounded = at.result(
        daemon, at.start(daemon, repo, "usage 3000 1\nsay done", limits={"tokens": 3000})
    )
    enough = at.result(
        daemon, at.start(daemon, repo, "usage 2999 1\nsay done", limits={"tokens": 3000})
    )

    assert (kept["outcome"], kept["usage"]["total"]) == ("over_budget", 3200)
    assert bounded["outcome"] == "over_budget"
    assert enough["outcome"] == "succeeded"


def test_a_budget_is_for_all_attempts_of_a_run(daemon: DaemonProcess, repo: Path) -> None:
    """What was used before a limit was reached counts behind it."""
    run = live.keep(daemon, repo, "usage 900 0", limits={"tokens": 1000})
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "limit 2\nusage 200 0")
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("over_budget", 2)
    assert result["usage"]["total"] == 1100


def test_a_restart_forgets_no_budget(daemon: DaemonProcess, repo: Path) -> None:
    """It is in the run's record."""
    run = at.start(daemon, repo, "sleep 2\nusage 5000 0\nsleep 300", limits={"cost_usd": 0.001})
    live.until_turn(daemon, run, 1)
    daemon.restart()

    assert at.result(daemon, run)["outcome"] == "over_budget"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agent": "command", "argv": ["true"], "limits": {"tokens": 5}}, "counts no tokens"),
        ({"agent": "command", "argv": ["true"], "limits": {"cost_usd": 5}}, "tells no cost"),
        ({"agent": "codex", "limits": {"cost_usd": 5}}, "a model that is not named"),
        (
            {"agent": "codex", "model": "nobodys", "provider": "openai", "limits": {"cost_usd": 5}},
            "no price for model nobodys of openai",
        ),
        ({"limits": {"tokens": 0}}, "above 0"),
        ({"limits": {"cost_usd": -1}}, "above 0"),
        ({"limits": {"euros": 1}}, "euros"),
    ],
)
def test_what_cannot_be_limited_is_refused(
    daemon: DaemonProcess, repo: Path, options: dict[str, Any], words: str
) -> None:
    """Before anything is done, saying why."""
    with daemon.client() as client:
        refused = live.refused(
            client.run.start, "say x", dir=str(repo), **{"agent": "demo", **options}
        )

    assert refused.name == "InvalidParams"
    assert words in str(refused)
    assert not list((daemon.state / "runs").iterdir())


def test_a_price_that_is_known_is_enough(daemon: DaemonProcess, repo: Path) -> None:
    """Such a run gets further than its budget: here to that its program is not installed."""
    with daemon.client() as client:
        refused = live.refused(
            client.run.start, "x", dir=str(repo), agent="codex", model="gpt-5", provider="openai",
            limits={"cost_usd": 5},
        )  # fmt: skip

    assert "cannot start codex" in str(refused)


def test_the_command_line_takes_dollars(daemon: DaemonProcess, repo: Path) -> None:
    """With or without the sign; anything else is a mistake."""
    fine = daemon.cli("run", "-a", "demo", "--max-cost", "$5", "--max-tokens", "9", "hi", cwd=repo)
    wrong = daemon.cli("run", "-a", "demo", "--max-cost", "a lot", "hi", cwd=repo)

    assert fine.returncode == 0, fine.stderr
    assert wrong.returncode == 64
    assert "no number of dollars" in wrong.stderr
