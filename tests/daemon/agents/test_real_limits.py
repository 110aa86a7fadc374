"""Real agents whose model answers 429: the run waits and goes on in the same session."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import coachman
import live_runs as live
import recovery_state as at
from agents_model import ModelServer
from agents_parts import PARTS, Part
from daemon_process import DaemonProcess

pytestmark = pytest.mark.real_agent

# With a subscription's token, Claude Code tells its limit at once.
LENT = {
    "claude": {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"},
    "codex": {"CODEX_API_KEY": "dummy"},
}
PROMPT = "WRITE made.txt by the agent\nLIMIT 5\nSAY finished"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model on loopback."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def daemon(state_dir: Path, agents_dir: Path, model: ModelServer) -> Iterator[DaemonProcess]:
    """A daemon whose user has subscriptions at both providers, whose limits have an end."""
    env = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
    }
    process = DaemonProcess(state_dir, env)
    process.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{process.env['PATH']}"
    config = process.home / ".codex" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'model = "gpt-5.5"\nopenai_base_url = "{model.base_url}"\n')
    process.start()
    yield process
    assert "run_failed" not in process.log
    process.tidy()


@pytest.mark.parametrize("members", [{}, {"permissions": "ask"}], ids=["plain", "asked"])
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_limit_is_waited_for_in_the_same_session(
    daemon: DaemonProcess, repo: Path, model: ModelServer, agent: str, members: dict[str, Any]
) -> None:
    """In the middle of a turn: what was done stays done, and the model is told to go on."""
    run = at.start(daemon, repo, PROMPT, agent=agent, env=LENT[agent], **members)
    if members:
        request = at.until_asked(daemon, run)
        with daemon.client() as client:
            client.permission.answer(request, run=run, kind="allow")
    result = at.result(daemon, run, timeout_s=180)
    limits = live.of_type(daemon, run, "limit.reached")
    named = {e["session"] for e in live.of_type(daemon, run, "agent.session")}

    assert (result["outcome"], result["attempts"] >= 2) == ("succeeded", True)
    assert {limit["action"] for limit in limits} == {"wait"}
    assert all(limit["resets_at"] for limit in limits)
    assert named == {result["session"]}
    assert [change["path"] for change in result["changed_files"]] == ["made.txt"]
    # What was said before is in the request that was answered at last.
    assert model.requests[-1]["messages"] > 2
    totals = model.totals()
    assert result["usage"].items() >= totals.items()
    at.check_journal(daemon.events(run))


@pytest.mark.parametrize(
    ("agent", "members"),
    [("pi", {}), ("claude", {}), ("codex", {"permissions": "ask"})],
    ids=["pi", "claude", "codex"],
)
def test_a_budget_ends_a_long_run(
    daemon: DaemonProcess, repo: Path, model: ModelServer, agent: str, members: dict[str, Any]
) -> None:
    """In the middle of its turn, soon after the request that was one too many."""
    for name, text in PARTS["pi"].files(model).items():
        (daemon.home / name).parent.mkdir(parents=True, exist_ok=True)
        (daemon.home / name).write_text(text)
    budget = {"limits": {"tokens": 2000}, "env": LENT.get(agent, {})}
    prompt = "\n".join(["RUN sleep 0.2"] * 40)
    run = at.start(daemon, repo, prompt, agent=agent, **budget, **members)
    if members:
        with daemon.client() as client:
            while client.run.wait([run], until="attention", timeout_s=180)["met"] == "attention":
                for asked in client.permission.list(run, pending=True)["permissions"]:
                    # The budget may end the turn at any moment, and what it asks with it.
                    with suppress(coachman.CoachmanError):
                        client.permission.answer(asked["request"], run=run, kind="allow")
    result = at.result(daemon, run)
    [told] = live.of_type(daemon, run, "budget.exceeded")

    assert (result["outcome"], result["stop_reason"]) == ("over_budget", "over_budget")
    assert (told["limit"], told["used"] > 2000) == (2000, True)
    assert len(model.requests) <= 6


def test_a_limit_that_an_agent_sits_out_in_silence_ends_with_its_silence(
    daemon: DaemonProcess, repo: Path
) -> None:
    """It asks again for ever and ends no turn: what it told of that anywhere decides."""
    ends = {"opencode": "timed_out", "gemini": "limited"}
    with ModelServer() as first, ModelServer() as second:
        models = dict(zip(ends, (first, second), strict=True))
        # Side by side: each is waited for until it was silent for long.
        runs = {agent: sits_out(daemon, repo, PARTS[agent], models[agent]) for agent in ends}
        for agent, run in runs.items():
            result = at.result(daemon, run, timeout_s=200)
            assert (result["outcome"], result["stop_reason"]) == (ends[agent], "stall")
            assert len(models[agent].requests) > 1
            assert live.of_type(daemon, run, "limit.reached") == []
    assert daemon.keepers() == []


def sits_out(daemon: DaemonProcess, repo: Path, part: Part, model: ModelServer) -> str:
    """A run of an agent whose model has reached its limit."""
    for name, text in part.files(model).items():
        (daemon.home / name).parent.mkdir(parents=True, exist_ok=True)
        (daemon.home / name).write_text(text)
    return at.start(
        daemon, repo, "LIMIT", agent=part.adapter, model=part.model, env=part.env(model),
        timeouts={"stall_s": 30}, on_limit="fail",
    )  # fmt: skip
