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


def _asks_no_words(call: str | None) -> Callable[[Stage], None]:
    """Its model has no such tool; where it asks for permission, words are refused, not lost."""

    def proof(stage: Stage) -> None:
        play = stage.session()
        if call is not None:
            turn = play.prompt(f"CALL {call}\nSAY went on")
            assert play.turn(turn)["stop_reason"] == "end_turn"
            asked = [event["turn"] for event in play.events("permission.requested")]
            assert turn not in asked
        turn = play.prompt("WRITE worded.txt text")
        question = play.question(turn)
        refused = play.refused(question, kind="allow_once", message="mind the third line")
        play.settle(question, kind="allow_once")
        play.turn(turn)
        assert refused.name == "InvalidParams"
        assert "takes no message" in refused.message
        assert (play.tree / "worded.txt").read_text() == "text\n"

    return proof


def _asks_without_words(stage: Stage) -> None:
    """Its question comes as one whether it may ask: there is no place for an answer in words."""
    play = stage.session()
    call = '{"questions": [{"question": "Which one?", "header": "One", "options": [%s]}]}'
    options = ", ".join(f'{{"label": "{n}", "description": "{n}"}}' for n in ("Left", "Right"))
    turn = play.prompt(f"CALL ask_user_question {call % options}\nSAY went on")
    asked = play.question(turn)
    refused = [play.refused(asked, option=o["id"], message="third") for o in asked["options"]]
    play.settle(asked, kind="reject_once")
    play.turn(turn)

    assert all("takes no message" in each.message for each in refused)
    assert [option["requires_message"] for option in asked["options"]] == [False, False]


def _takes_one_prompt(stage: Stage) -> None:
    """It is for runs of one prompt alone."""
    assert "exec" in _argv(stage)
    assert "exec" not in _argv(stage, keep=True)


def _argv(stage: Stage, **members: object) -> tuple[str, ...]:
    request = AgentRequest(cwd="/workspace", home="/home/agent", **members)  # type: ignore[arg-type]
    return stage.part.agent.plan(request).argv


_QUESTION = (
    '{"question": "Which one?", "header": "One", "type": "choice", "options":'
    ' [{"label": "Left", "description": "left"}, {"label": "Right", "description": "right"}]}'
)
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
    ("codex-exec", "write_in"): _EXEC_ASKS,
    ("codex-exec", "timeout"): _EXEC_ASKS,
    ("codex-exec", "allow_command"): _EXEC_ASKS,
    ("codex-exec", "two_prompts"): _EXEC_ONCE,
    ("codex-exec", "interrupt_tool"): _EXEC_ONCE,
    ("gemini", "write_in"): Cannot(
        "its tool that asks is there on a terminal only; words with an answer are refused",
        _asks_no_words(f'ask_user {{"questions": [{_QUESTION}]}}'),
    ),
    ("opencode", "write_in"): Cannot(
        "its tool that asks is not there over ACP; words with an answer are refused",
        _asks_no_words(f'question {{"questions": [{_QUESTION}]}}'),
    ),
    ("pi", "write_in"): Cannot(
        "its model has no tool that asks; words come with a denial only, and else are refused",
        _asks_no_words(None),
    ),
    ("qwen", "write_in"): Cannot(
        "it asks over ACP whether it may ask, and takes no answer; words are refused",
        _asks_without_words,
    ),
    ("gemini", "allow_command"): Cannot(
        "it runs the command, and tells nothing of what that printed", _tells_no_output
    ),
    ("codex-acp", "allow_command"): Cannot(
        "its mode that asks has a sandbox of its own, which cannot be built inside of ours",
        _commands_fail,
    ),
}
