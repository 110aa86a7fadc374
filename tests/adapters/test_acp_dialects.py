"""How agents differ behind the same protocol: each quirk, and what it changes."""

from typing import Any

import pytest

from agents_peer import SESSION, Json, Peer, prompted, ready, request
from agents_replay import ended, events_of, text_of
from coachman_adapters.acp.quirks import UUID, Quirks
from coachman_adapters.conversation import Action, SetTimer, TurnEnded, Usage

KEPT = request(keep=True)
MODES = {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}]}
USAGE = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120, "cachedReadTokens": 10}
COUNTED = {"input": 90, "cached_input": 10, "output": 20, "reasoning": 0, "total": 120}
AUTH_REQUIRED = -32000


def usages(actions: list[Action]) -> list[Usage]:
    return [action for action in actions if isinstance(action, Usage)]


# --- opening ---------------------------------------------------------------------


def opened(quirks: Quirks, result: Json, **members: Any) -> Peer:
    """A peer that has answered session/new."""
    peer = Peer(request(**members), quirks)
    peer.initialized()
    peer.result({"sessionId": SESSION, **result})
    return peer


def test_an_agent_that_decides_by_itself_is_set_to_ask() -> None:
    """Before the first prompt it gets the mode; one that is in it already is left alone."""
    other = opened(Quirks(mode="default"), {"modes": MODES})
    same = opened(Quirks(mode="auto"), {"modes": MODES})
    same.prompt()

    assert other.last["method"] == "session/set_mode"
    assert other.last["params"] == {"sessionId": SESSION, "modeId": "default"}
    assert same.last["method"] == "session/prompt"


def test_a_mode_is_an_option_where_the_session_has_that() -> None:
    """Options go before the older modes."""
    values = [{"value": "auto", "name": "Auto"}, {"value": "default", "name": "Default"}]
    option = {"id": "m", "category": "mode", "currentValue": "auto", "options": values}
    peer = opened(Quirks(mode="default"), {"modes": MODES, "configOptions": [option]})

    assert peer.last["method"] == "session/set_config_option"
    assert peer.last["params"]["value"] == "default"


def test_a_mode_that_cannot_be_set_ends_the_run() -> None:
    """What would not ask is not prompted."""
    peer = Peer(request(), Quirks(mode="default"))
    peer.initialized()
    peer.prompt()

    [over] = ended(peer.result({"sessionId": SESSION}))

    assert over.error == {
        "message": "cannot set mode to 'default': the agent does not offer it",
        "code": "not_offered",
    }


@pytest.mark.parametrize(
    ("permissions", "mode"), [("allow", "free"), ("ask", "asking"), ("deny", "asking")]
)
def test_an_agent_with_a_sandbox_of_its_own_is_free_where_all_is_allowed(
    permissions: str, mode: str
) -> None:
    """The mode depends on the run's own rule."""
    quirks = Quirks(mode="asking", free_mode="free")

    assert opened(quirks, {"modes": MODES}, permissions=permissions).last["params"] == {
        "sessionId": SESSION,
        "modeId": mode,
    }


def login(**members: Any) -> Peer:
    """A peer that wants a login before it opens a session."""
    peer = Peer(request(**members), Quirks(logins={"A_KEY": "by-a", "B_KEY": "by-b"}))
    peer.initialized()
    peer.prompt()
    peer.error(AUTH_REQUIRED, "Authentication required")
    return peer


def test_an_agent_that_wants_a_login_is_told_the_way_for_its_key() -> None:
    """The session is opened anew after it."""
    peer = login(env_names=frozenset({"B_KEY"}))
    way = peer.last
    peer.result({})

    assert (way["method"], way["params"]) == ("authenticate", {"methodId": "by-b"})
    assert peer.last["method"] == "session/new"


def test_a_login_is_tried_once() -> None:
    """An agent that is not content with it ends the run with its own words."""
    peer = login(env_names=frozenset({"A_KEY"}))
    peer.result({})

    [over] = ended(peer.error(AUTH_REQUIRED, "Authentication required"))

    assert over.error is not None
    assert "Authentication required" in over.error["message"]


@pytest.mark.parametrize("code", [AUTH_REQUIRED, -32603])
def test_a_login_that_fails_ends_the_run(code: int) -> None:
    """Whatever is wrong with the key, the run says that it is the login."""
    peer = login(env_names=frozenset({"A_KEY"}))

    [over] = ended(peer.error(code, "no such key"))

    assert over.error is not None
    assert over.error["message"].startswith("cannot log in: no such key")


def test_without_a_key_nothing_is_tried() -> None:
    """The refusal comes through at once."""
    assert login().last["method"] == "session/new"


@pytest.mark.parametrize("session", ["1", "latest", "0000"])
def test_what_is_no_id_of_the_agents_is_not_resumed(session: str) -> None:
    """An agent that takes a number for an index would open another session."""
    peer = Peer(request(session=session), Quirks(session_form=UUID))
    peer.prompt()

    [over] = ended(peer.initialized(loadSession=True))

    assert over.error is not None
    assert over.error["code"] == "no_session"
    assert [frame["method"] for frame in peer.sent] == ["initialize"]


# --- the past --------------------------------------------------------------------


def loaded(quirks: Quirks) -> Peer:
    """A peer that has answered session/load, with a prompt waiting."""
    peer = Peer(request(session=SESSION, keep=True), quirks)
    peer.initialized(loadSession=True)
    peer.prompt()
    peer.result({})
    return peer


def test_a_past_that_is_told_after_its_load_is_waited_for() -> None:
    """No event tells it, each of its updates prolongs the wait, and silence ends it."""
    peer = loaded(Quirks(replay_s=0.5))
    before = peer.last["method"]
    told = [*peer.chunk("of old"), *peer.update("tool_call", toolCallId="t0", title="old")]
    peer.expire("replay")

    assert before == "session/load"
    assert told == [SetTimer("replay", 0.5), SetTimer("replay", 0.5)]
    assert peer.last["method"] == "session/prompt"
    assert text_of(peer.chunk("new")) == "new"


def test_an_agent_that_never_falls_silent_is_given_up() -> None:
    """The limit of opening a session holds for its past as well."""
    [over] = ended(loaded(Quirks(replay_s=0.5)).expire("session"))

    assert over.error is not None
    assert over.error["code"] == "agent_silent"


def test_a_snapshot_holds_a_wait_for_the_past() -> None:
    """Another conversation goes on where it was taken."""
    quirks = Quirks(replay_s=0.5)
    peer, other = loaded(quirks), Peer(request(session=SESSION, keep=True), quirks)
    other.conversation.restore(peer.conversation.snapshot())
    other.sent.clear()
    other.expire("replay")

    assert [frame["method"] for frame in other.sent] == ["session/prompt"]


# --- tool calls that are only told of when they ask -------------------------------


@pytest.mark.parametrize(
    ("option", "status"), [("once", "in_progress"), ("no", "failed"), (None, "failed")]
)
def test_the_decision_tells_what_becomes_of_a_tool_call(option: str | None, status: str) -> None:
    """An agent that says nothing after its question leaves nothing pending."""
    peer = prompted(KEPT, Quirks(asks_first=True))
    peer.ask()
    [event] = events_of(peer.answer("p1", option))

    assert event.members == {"tool_call_id": "t1", "status": status}


def test_other_agents_tell_it_themselves() -> None:
    """Without the quirk an answer is no event."""
    peer = prompted(KEPT)
    peer.ask()

    assert events_of(peer.answer("p1", "no")) == []


# --- failures that are called an end ---------------------------------------------

TROUBLED = Quirks(trouble=("_meta", "status", "failed"))


def troubled() -> Peer:
    peer = prompted(KEPT, TROUBLED)
    peer.update("session_info_update", _meta={"status": "failed"})
    return peer


def test_a_failed_turn_that_is_called_an_end_is_an_error() -> None:
    """What is said of the failure is its message, not the model's."""
    peer = troubled()
    said = peer.chunk("the model is ") + peer.chunk("gone\n")
    over = peer.result({"stopReason": "end_turn"})

    assert text_of(said) == ""
    assert ended(over) == [
        TurnEnded("error", {"message": "the model is gone", "code": "agent_failed"})
    ]


def test_trouble_is_over_with_its_turn() -> None:
    """The next turn may end well."""
    peer = troubled()
    peer.result({"stopReason": "end_turn"})
    peer.prompt("again")

    assert text_of(peer.chunk("fine")) == "fine"
    assert ended(peer.result({"stopReason": "end_turn"})) == [TurnEnded("end_turn")]


def test_what_the_model_says_has_an_id() -> None:
    """In trouble too it is told, and a cancel stays a cancel."""
    peer = troubled()
    chunk = {"type": "text", "text": "half"}
    said = peer.update("agent_message_chunk", content=chunk, messageId="m1")
    peer.cancel()

    assert text_of(said) == "half"
    assert ended(peer.result({"stopReason": "cancelled"})) == [TurnEnded("cancelled")]


def test_an_agents_own_fault_is_told_by_its_details() -> None:
    """Where the message says nothing, the data may."""
    details = {"details": "no such file"}
    [over] = ended(prompted().error(-32603, "Internal error", data=details))

    assert over.error == {"code": -32603, "message": "no such file", "data": details}


# --- usage -----------------------------------------------------------------------


def step(peer: Peer, usage: Any) -> list[Usage]:
    content = {"type": "text", "text": ""}
    return usages(peer.update("agent_message_chunk", content=content, _meta={"usage": usage}))


def test_requests_that_are_told_one_by_one_add_up() -> None:
    """A chunk may count what one request used; those of other agents count nothing."""
    peer = prompted(KEPT, Quirks(usage="steps"))
    step(peer, USAGE)
    [usage] = step(peer, USAGE)

    assert usage.counters == {name: 2 * count for name, count in COUNTED.items()}
    assert step(peer, "many") == step(prompted(KEPT), USAGE) == []


def again(counters: dict[str, float] | None) -> list[Usage]:
    """What a resumed session's first turn counts."""
    asked = request(session=SESSION, keep=True, session_counters=counters)
    peer = Peer(asked, Quirks(usage="session"))
    peer.initialized(loadSession=True)
    peer.result({})
    peer.prompt()
    return usages(peer.result({"stopReason": "end_turn", "usage": USAGE}))


def test_counters_of_a_session_are_told_from_this_run_on() -> None:
    """They are kept for whoever resumes it; where nobody knows them there is no number."""
    fresh = prompted(KEPT, Quirks(usage="session"))
    fresh.result({"stopReason": "end_turn", "usage": {**USAGE, "totalTokens": 60}})
    fresh.prompt()
    [first] = usages(fresh.result({"stopReason": "end_turn", "usage": USAGE}))
    [second] = again({"input": 50, "cached_input": 10, "output": 5, "total": 65})

    assert first.counters == COUNTED
    assert first.session_counters == COUNTED
    assert second.counters == {
        "input": 40,
        "cached_input": 0,
        "output": 15,
        "reasoning": 0,
        "total": 55,
    }
    assert again(None) == []


@pytest.mark.parametrize(
    ("total", "fresh"), [(120, 90), (127, 90), (130, 100), (137, 100), (None, 100)]
)
def test_the_total_tells_whether_the_cache_is_in_the_input(total: int | None, fresh: int) -> None:
    """Agents differ, and their own sum says how."""
    usage = {**USAGE, "thoughtTokens": 7, "totalTokens": total}
    [told] = usages(prompted(KEPT).result({"stopReason": "end_turn", "usage": usage}))

    assert told.counters["input"] == fresh
    assert told.counters["cached_input"] == 10


def test_a_turn_of_zeros_is_unknown() -> None:
    """What was cut off reports nothing, which is no number."""
    usage = dict.fromkeys(USAGE, 0)

    assert usages(ready(KEPT).prompt()) == []
    assert usages(prompted(KEPT).result({"stopReason": "cancelled", "usage": usage})) == []
