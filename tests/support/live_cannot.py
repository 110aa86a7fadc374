"""What a CLI cannot do, by part and scenario, each with a proof that it is still so."""

from collections.abc import Callable
from dataclasses import dataclass

from coachman_adapters.conversation import AgentRequest
from live_stage import Stage


@dataclass(frozen=True)
class Cannot:
    """Why a scenario is impossible; ``proof`` fails once the CLI can do it."""

    why: str
    proof: Callable[[Stage], None]


def _asks_nothing(stage: Stage) -> None:
    """A write is done without a question; a run that is to ask is not for this way."""
    play = stage.once("WRITE unasked.txt text")

    assert play.result()["outcome"] == "succeeded"
    assert (play.tree / "unasked.txt").exists()
    assert play.events("permission.requested") == []
    assert "exec" not in _argv(stage, permissions="ask")


def _takes_one_prompt(stage: Stage) -> None:
    """It is for runs of one prompt alone."""
    assert "exec" in _argv(stage)
    assert "exec" not in _argv(stage, keep=True)


def _argv(stage: Stage, **members: object) -> tuple[str, ...]:
    request = AgentRequest(cwd="/workspace", home="/home/agent", **members)  # type: ignore[arg-type]
    return stage.part.agent.plan(request).argv


_EXEC_ASKS = Cannot(
    "`codex exec` asks for nothing: where something is to be asked, the app server is used",
    _asks_nothing,
)
_EXEC_ONCE = Cannot(
    "`codex exec` takes one prompt, and no word after it: for more, the app server is used",
    _takes_one_prompt,
)
CANNOT: dict[tuple[str, str], Cannot] = {
    ("codex-exec", "deny"): _EXEC_ASKS,
    ("codex-exec", "allow"): _EXEC_ASKS,
    ("codex-exec", "two_prompts"): _EXEC_ONCE,
    ("codex-exec", "interrupt_tool"): _EXEC_ONCE,
}
