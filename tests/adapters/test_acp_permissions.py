"""Questions: asked once, answered in the agent's terms, never by accident."""

import pytest

from agents_peer import OPTIONS, Peer, prompted
from agents_replay import events_of
from coachman_adapters.conversation import Action, Ask, Option, Withdraw

CANCELLED = {"outcome": {"outcome": "cancelled"}}


def asked(actions: list[Action]) -> list[Ask]:
    return [action for action in actions if isinstance(action, Ask)]


def test_a_question_carries_tool_and_options() -> None:
    """The question names what is to be done; options keep the agent's ids and kinds."""
    tool = {"toolCallId": "t1", "title": "rm -rf build", "kind": "execute", "rawInput": {"a": 1}}

    [ask] = asked(prompted().ask(tool=tool))

    assert ask.request == "p1"
    assert ask.question == "Run rm -rf build?"
    assert ask.tool["input"] == {"a": 1}
    assert ask.options == (
        Option("once", "allow_once", "Allow once"),
        Option("no", "reject_once", "Reject"),
    )


def test_a_tool_known_only_from_its_question_is_told_first() -> None:
    """A question about a tool call nobody announced announces it, as pending."""
    first, second = prompted().ask(tool={"toolCallId": "new", "title": "x", "kind": "edit"})

    assert first.type == "tool.call"
    assert first.members["status"] == "pending"
    assert isinstance(second, Ask)


def test_a_question_that_only_names_the_tool_call_is_joined_with_it() -> None:
    """Agents that send nothing but an id still get a readable question."""
    peer = prompted()
    peer.update("tool_call", toolCallId="t1", title="notes.md", kind="edit", status="in_progress")

    actions = peer.ask(tool={"toolCallId": "t1"})

    assert events_of(actions) == []
    [ask] = asked(actions)
    assert ask.question == "Edit notes.md?"
    assert ask.tool["status"] == "in_progress"


@pytest.mark.parametrize("number", [0, 12, "req-1"])
def test_the_answer_goes_to_the_agents_own_id(number: object) -> None:
    """The agent's ids are its own counter, integers from 0 or strings alike."""
    peer = prompted()
    peer.ask(number=number)

    peer.answer("p1", "once")

    outcome = {"outcome": "selected", "optionId": "once"}
    assert peer.last == {"jsonrpc": "2.0", "id": number, "result": {"outcome": outcome}}


@pytest.mark.parametrize("option", [None, "", "allow", "always"])
def test_no_choice_or_a_foreign_one_decides_nothing(option: str | None) -> None:
    """Only an option that was offered is ever selected."""
    peer = prompted()
    peer.ask()

    peer.answer("p1", option)

    assert peer.last["result"] == CANCELLED


def test_an_answer_counts_once() -> None:
    """A second answer, or one to a question never asked, writes nothing."""
    peer = prompted()
    peer.ask()
    peer.answer("p1", "no")

    assert peer.answer("p1", "once") == peer.answer("p9", "once") == []


def test_questions_are_told_apart() -> None:
    """Several questions at once, of one tool call or the same rpc id, have names of their own."""
    peer = prompted()
    keys = [ask.request for n in (1, 2, 1) for ask in asked(peer.ask(number=n))]

    assert keys == ["p1", "p2", "p3"]
    peer.answer("p2", "no")
    assert peer.last["id"] == 2


def test_the_agent_takes_a_question_back() -> None:
    """$/cancel_request withdraws the question and is still answered; of another type it is not."""
    peer = prompted()
    peer.ask(number=5)
    cancel = {"method": "$/cancel_request", "params": {"requestId": 5}}

    assert peer.say(cancel | {"params": {"requestId": "5"}}) == []
    actions = peer.say(cancel)

    assert actions[0] == Withdraw("p1")
    assert peer.last == {"jsonrpc": "2.0", "id": 5, "result": CANCELLED}
    assert peer.say(cancel) == peer.answer("p1", "once") == []


def test_a_turn_that_ends_over_a_question_withdraws_it() -> None:
    """Nobody is left with a question of a turn that is over."""
    peer = prompted()
    peer.ask(number=3)

    actions = peer.result({"stopReason": "end_turn"})

    assert Withdraw("p1") in actions
    assert peer.last == {"jsonrpc": "2.0", "id": 3, "result": CANCELLED}


def test_a_question_after_a_bounded_turn_is_refused() -> None:
    """Background work of an agent that is on its way out gets no permission."""
    peer = prompted()
    peer.result({"stopReason": "end_turn"})

    assert asked(peer.ask(number=4)) == []
    assert peer.last["result"] == CANCELLED


@pytest.mark.parametrize(
    "options",
    [
        None,
        "once",
        [None, {}, {"optionId": 1, "kind": "allow_once"}],
        [{"optionId": "x", "kind": "allow_everything", "name": "x"}],
    ],
)
def test_malformed_options_cannot_be_chosen(options: object) -> None:
    """An option of unknown kind, or without an id, is not offered."""
    [ask] = asked(prompted().ask(options=options))

    assert ask.options == ()


@pytest.mark.parametrize("tool", [{"title": "no id"}, {"toolCallId": 5}])
def test_a_question_without_a_tool_call_is_still_asked(tool: dict[str, object]) -> None:
    """A malformed tool call does not swallow the question."""
    assert len(asked(prompted().ask(tool=tool))) == 1


@pytest.mark.parametrize(
    "method",
    [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "elicitation/create",
        "_vendor/anything",
    ],
)
def test_what_we_never_offered_is_answered_not_found(method: str) -> None:
    """Requests outside our capabilities get -32601, and nothing else happens."""
    peer = prompted()

    actions = peer.say({"id": 1, "method": method, "params": {"path": "/etc/passwd"}})

    assert len(actions) == 1
    assert peer.last["error"]["code"] == -32601


def test_a_long_title_is_cut_in_the_question_only() -> None:
    """The question stays one readable line; the tool keeps its whole title."""
    title = "echo\n" + "x" * 5000

    [ask] = asked(Peer.ask(prompted(), tool={"toolCallId": "t", "title": title, "kind": "execute"}))

    assert len(ask.question) < 400
    assert "\n" not in ask.question
    assert ask.tool["title"] == title
    assert OPTIONS[0]["optionId"] == ask.options[0].id
