"""Turns: one at a time, ended once, cancelled honestly."""

import pytest

from agents_peer import SESSION, Peer, prompted, ready, request
from agents_replay import ended, events_of, text_of
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import CloseStdin, SetTimer, TurnEnded, Withdraw
from coachman_adapters.events import OWN_STOP_REASONS, STOP_REASONS

KEPT = request(keep=True)


@pytest.mark.parametrize("reason", sorted(set(STOP_REASONS) - OWN_STOP_REASONS))
def test_stop_reasons_come_through(reason: str) -> None:
    """The agent's stop reason is the turn's."""
    assert ended(prompted().result({"stopReason": reason})) == [TurnEnded(reason)]


@pytest.mark.parametrize("reason", ["because", "error"])
def test_an_unknown_stop_reason_is_an_end_with_a_notice(reason: str) -> None:
    """A stop reason of a later version still ends the turn, and is told."""
    actions = prompted().result({"stopReason": reason})

    assert ended(actions) == [TurnEnded("end_turn")]
    assert events_of(actions, "agent.notice")[0].members["text"].startswith("unknown stop reason")


@pytest.mark.parametrize("result", [None, {}, [], "done", {"stopReason": 7}])
def test_a_result_without_a_stop_reason_is_an_error(result: object) -> None:
    """What is no terminal record never passes for success."""
    [over] = ended(prompted().result(result))

    assert over.stop_reason == "error"
    assert over.error["code"] == "no_stop_reason"


def test_an_error_comes_through_untouched() -> None:
    """Code, message and data of the agent's error are the turn's."""
    [over] = ended(prompted().error(-32603, "Internal error: overloaded", data={"status": 529}))

    assert over == TurnEnded(
        "error",
        {"code": -32603, "message": "Internal error: overloaded", "data": {"status": 529}},
    )


def test_a_bounded_run_settles_then_closes() -> None:
    """After its turn a bounded run waits for the tail, then lets the agent go, once."""
    peer = prompted(quirks=Quirks(settle_s=0.5))

    over = peer.result({"stopReason": "end_turn"})
    late = peer.chunk("tail")

    assert over[-1] == SetTimer("settle", 0.5)
    assert text_of(late) == "tail"
    assert peer.expire("settle") == [CloseStdin()]
    assert peer.expire("settle") == []


def test_settling_for_no_time_closes_at_once() -> None:
    """Zero settle seconds close stdin with the turn's end."""
    over = prompted(quirks=Quirks(settle_s=0)).result({"stopReason": "end_turn"})

    assert over[-2:] == [TurnEnded("end_turn"), CloseStdin()]


def test_prompts_are_sent_one_at_a_time() -> None:
    """A second prompt waits for the first one's answer; a kept run never closes by itself."""
    peer = prompted(KEPT)
    assert peer.prompt("second") == []

    actions = peer.result({"stopReason": "end_turn"})

    assert ended(actions) == [TurnEnded("end_turn")]
    assert CloseStdin() not in actions
    assert peer.last["params"]["prompt"][0]["text"] == "second"


def test_a_bounded_run_takes_no_second_prompt() -> None:
    """A prompt after the end is answered with an error instead of being lost."""
    peer = prompted()
    peer.result({"stopReason": "end_turn"})

    [over] = ended(peer.prompt("again"))

    assert over.error["code"] == "closed"


def test_duplicate_and_unknown_answers_settle_nothing() -> None:
    """Only the first answer to an id we sent counts."""
    peer = prompted(KEPT)
    first = peer.result({"stopReason": "end_turn"})
    again = peer.result({"stopReason": "refusal"})
    never = peer.say({"id": 99, "result": {"stopReason": "refusal"}})

    assert ended(first) == [TurnEnded("end_turn")]
    assert again == never == []


def test_ids_echoed_as_strings_match() -> None:
    """An agent that answers "3" to 3 is understood."""
    peer = prompted()

    over = ended(peer.say({"id": str(peer.last_id), "result": {"stopReason": "end_turn"}}))

    assert over == [TurnEnded("end_turn")]


def test_updates_and_the_answer_in_one_read_keep_their_order() -> None:
    """The turn ends after the chunks that came before its answer."""
    peer = prompted()
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    update = {"method": "session/update", "params": {"sessionId": SESSION, "update": chunk}}

    actions = peer.say(update, {"id": peer.last_id, "result": {"stopReason": "end_turn"}}, update)

    kinds = [type(action).__name__ for action in actions]
    assert kinds == ["Event", "TurnEnded", "SetTimer", "Event"]


def test_cancel_is_sent_once_and_questions_get_their_form_of_it() -> None:
    """One session/cancel per prompt; pending questions are answered "cancelled" at once."""
    peer = prompted()
    peer.ask(number=7)
    peer.cancel()
    peer.cancel()

    assert peer.sent[-2:] == [
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}},
        {"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "cancelled"}}},
    ]


def test_questions_after_a_cancel_are_refused_unasked() -> None:
    """A cancelled turn asks nobody anything any more."""
    peer = prompted()
    peer.cancel()

    actions = peer.ask(number=8)

    assert [type(action).__name__ for action in actions] == ["Event", "Write"]
    assert peer.last["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"result": {"stopReason": "cancelled"}}, "cancelled"),
        ({"result": {"stopReason": "end_turn"}}, "cancelled"),
        ({"error": {"code": -32603, "message": "aborted"}}, "cancelled"),
        ({"result": {"stopReason": "refusal"}}, "refusal"),
        ({"result": {"stopReason": "max_tokens"}}, "max_tokens"),
    ],
)
def test_any_answer_confirms_our_cancel(answer: dict[str, object], reason: str) -> None:
    """Agents answer a cancel with end_turn or errors too; what says more is kept."""
    peer = prompted()
    peer.cancel()

    [over] = ended(peer.say({"id": peer.last_id, **answer}))

    assert (over.stop_reason, over.error) == (reason, None)


def test_a_cancel_counts_for_one_prompt() -> None:
    """The next prompt's end is its own, and it can be cancelled again."""
    peer = prompted(KEPT)
    peer.cancel()
    peer.result({"stopReason": "cancelled"})
    peer.prompt("next")

    assert ended(peer.result({"stopReason": "end_turn"})) == [TurnEnded("end_turn")]


def test_cancel_before_the_prompt_was_sent_ends_the_turn_here() -> None:
    """An agent that never heard of the turn has nothing to confirm."""
    peer = Peer()
    peer.prompt()

    actions = peer.cancel()

    assert ended(actions) == [TurnEnded("cancelled")]
    peer.initialized()
    peer.result({"sessionId": SESSION})
    assert peer.last["method"] == "session/new"


def test_unfinished_tools_of_a_cancelled_turn_are_closed() -> None:
    """Tool calls left open by a cancel are told as cancelled, finished ones are not."""
    peer = prompted()
    peer.update("tool_call", toolCallId="open", title="x", status="in_progress")
    peer.update("tool_call", toolCallId="done", title="y", status="completed")
    peer.cancel()

    actions = peer.result({"stopReason": "cancelled"})

    told = [event.members for event in events_of(actions, "tool.call_update")]
    assert told == [{"tool_call_id": "open", "status": "cancelled"}]


def test_a_tool_is_cancelled_once() -> None:
    """What one turn left open is not told again by the next that is cancelled."""
    peer = prompted(KEPT)
    peer.update("tool_call", toolCallId="open", title="x", status="in_progress")
    peer.cancel()
    peer.result({"stopReason": "cancelled"})
    peer.prompt("next")
    peer.cancel()

    again = events_of(peer.result({"stopReason": "cancelled"}), "tool.call_update")
    late = events_of(peer.update("tool_call_update", toolCallId="open", status="completed"))

    assert again == []
    assert late[0].members == {"tool_call_id": "open", "status": "completed"}


def test_an_agent_that_dies_fails_its_turn() -> None:
    """A death mid-turn is an error with exit status, stderr and hint, and withdraws questions."""
    peer = prompted()
    peer.ask()
    peer.say({"id": None, "error": {"code": -32700, "message": "bad line"}})

    actions = peer.gone(code=None, signal=9, stderr_tail=b"warming up\nout of memory\n")

    assert Withdraw("p1") in actions
    [over] = ended(actions)
    assert over.error["message"] == (
        "the agent was killed by signal 9 before its turn was over: out of memory: bad line"
    )
    assert over.error["data"]["signal"] == 9


def test_an_agent_that_leaves_after_its_turn_adds_nothing() -> None:
    """The exit after a finished turn is no second end."""
    peer = prompted()
    peer.result({"stopReason": "end_turn"})

    assert ended(peer.gone()) == []
    assert ended(ready().gone(1)) == []
