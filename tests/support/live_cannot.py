"""What a CLI cannot do, by part and scenario, each with a proof that it is still so."""

import json
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


def _commands_fail(stage: Stage) -> None:
    """The command fails as no second sandbox can be built; the model hears of it."""
    play = stage.session()
    turn = play.prompt("RUN sh note.sh\nSAY noted")
    play.allow_all(turn)

    assert "it ran" not in json.dumps(play.events("tool.call_update"))
    assert play.events("tool.call_update")[-1]["status"] == "failed"


def _tells_no_output(stage: Stage) -> None:
    """The command runs and the model hears what it printed; nobody else does."""
    play = stage.session()
    turn = play.prompt("RUN sh note.sh\nSAY noted")
    play.allow_all(turn)

    assert play.said(turn).strip() == "noted"
    assert play.events("tool.call_update")[-1]["status"] == "completed"
    assert "it ran" not in json.dumps(play.events("tool.call_update"))


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
    ("codex-exec", "always"): _EXEC_ASKS,
    ("codex-exec", "timeout"): _EXEC_ASKS,
    ("codex-exec", "allow_command"): _EXEC_ASKS,
    ("codex-exec", "two_prompts"): _EXEC_ONCE,
    ("codex-exec", "interrupt_tool"): _EXEC_ONCE,
    ("gemini", "allow_command"): Cannot(
        "it runs the command, and tells nothing of what that printed", _tells_no_output
    ),
    ("codex-acp", "allow_command"): Cannot(
        "its mode that asks has a sandbox of its own, which cannot be built inside of ours",
        _commands_fail,
    ),
}
