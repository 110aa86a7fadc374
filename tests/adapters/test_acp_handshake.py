"""From the first frame to a session: versions, resuming, options, refusals, silence."""

import pytest

from agents_peer import SESSION, Peer, ready, request
from agents_replay import ended
from coachman_adapters.conversation import CloseStdin, SessionKnown, SetTimer

MODEL = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "p/small",
    "options": [
        {"group": "g", "name": "G", "options": [{"value": "p/small", "name": "Small"}]},
        {"value": "p/large", "name": "Large"},
    ],
}
EFFORT = {
    "id": "reasoning",
    "name": "Effort",
    "category": "thought_level",
    "type": "select",
    "currentValue": "low",
    "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
}


def test_the_first_frame_says_who_we_are_and_what_we_can_do() -> None:
    """We speak version 1 as an integer, and offer neither files nor terminals."""
    params = Peer().sent[0]["params"]

    assert params["protocolVersion"] == 1
    assert params["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert params["clientCapabilities"]["terminal"] is False
    assert set(params["clientCapabilities"]["session"]) == {
        "configOptions",
        "notices",
        "compaction",
    }


def test_a_session_is_opened_and_named() -> None:
    """After initialize comes session/new; session and agent version are told once known."""
    peer = Peer()
    timers = [action for action in peer.initialized() if isinstance(action, SetTimer)]

    actions = peer.result({"sessionId": SESSION})

    assert timers == [SetTimer("initialize", None), SetTimer("session", 120)]
    assert peer.last["params"] == {"cwd": "/workspace", "mcpServers": []}
    assert SessionKnown(SESSION, "9") in actions
    assert SetTimer("session", None) in actions


def test_a_prompt_waits_for_the_session() -> None:
    """A prompt given at once is sent when the session is open, and ids count from 1."""
    peer = Peer()
    assert peer.prompt("do it") == []
    peer.initialized()
    peer.result({"sessionId": SESSION})

    assert [frame["id"] for frame in peer.sent] == [1, 2, 3]
    assert peer.last["method"] == "session/prompt"
    assert peer.last["params"]["prompt"] == [{"type": "text", "text": "do it"}]


@pytest.mark.parametrize("version", [2, 99, "2", None, {}])
def test_another_protocol_version_is_refused(version: object) -> None:
    """An agent that does not speak version 1 ends the turn with an error that says so."""
    peer = Peer()
    peer.prompt()

    actions = peer.result({"protocolVersion": version})

    [over] = ended(actions)
    assert over.stop_reason == "error"
    assert "coachman speaks 1" in over.error["message"]
    assert CloseStdin() in actions


@pytest.mark.parametrize(
    ("able", "method"),
    [
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"loadSession": True, "sessionCapabilities": {"resume": None}}, "session/load"),
        ({"loadSession": True}, "session/load"),
    ],
)
def test_a_session_is_taken_up_again(able: dict[str, object], method: str) -> None:
    """Resuming goes before loading, and the result needs no session id."""
    peer = Peer(request(session="s1"))
    peer.initialized(**able)
    assert peer.last["method"] == method
    assert peer.last["params"]["sessionId"] == "s1"

    assert SessionKnown("s1", "9") in peer.result(None)


def test_a_session_that_cannot_be_resumed_is_no_fresh_start() -> None:
    """Without the capability, or with another session in the answer, the turn fails."""
    unable = Peer(request(session="s1"))
    unable.prompt()
    [first] = ended(unable.initialized())
    other = Peer(request(session="s1"))
    other.prompt()
    other.initialized(loadSession=True)
    [second] = ended(other.result({"sessionId": "s2"}))

    assert first.error["message"].startswith("cannot resume the session")
    assert second.error["message"] == "cannot resume session s1: the agent opened s2 instead"


def test_a_loaded_past_is_not_this_run() -> None:
    """What session/load repeats is not told again; what comes after is."""
    peer = Peer(request(session=SESSION))
    peer.initialized(loadSession=True)
    past = peer.chunk("old") + peer.update("tool_call", toolCallId="t0", title="old")
    news = peer.update("available_commands_update", availableCommands=[])
    peer.result({})

    assert past == []
    assert [event.type for event in news] == ["agent.commands"]
    assert [event.type for event in peer.chunk("new")] == ["agent.message_chunk"]


@pytest.mark.parametrize("wanted", ["p/large", "large", "Large"])
def test_the_model_is_set_by_value_name_or_last_part(wanted: str) -> None:
    """A model is found in the session's options, before the first prompt is sent."""
    peer = Peer(request(model=wanted))
    peer.prompt()
    peer.initialized()
    peer.result({"sessionId": SESSION, "configOptions": [MODEL]})

    assert peer.last["method"] == "session/set_config_option"
    assert peer.last["params"] == {"sessionId": SESSION, "configId": "model", "value": "p/large"}
    peer.result({"configOptions": [MODEL | {"currentValue": "p/large"}]})
    assert peer.last["method"] == "session/prompt"


def test_effort_is_looked_up_after_the_model_was_set() -> None:
    """Setting a model may bring the option for its effort; each is set once, in order."""
    peer = Peer(request(model="p/large", effort="high"))
    peer.prompt()
    peer.initialized()
    peer.result({"sessionId": SESSION, "configOptions": [MODEL]})
    peer.result({"configOptions": [MODEL | {"currentValue": "p/large"}, EFFORT]})

    assert peer.last["params"]["configId"] == "reasoning"
    assert peer.last["params"]["value"] == "high"


def test_options_that_are_told_anew_meanwhile_can_still_be_set() -> None:
    """An agent may tell its options by an update, and leave them out of its answer."""
    peer = Peer(request(model="large", effort="high"))
    peer.initialized()
    peer.result({"sessionId": SESSION, "configOptions": [MODEL, EFFORT]})
    peer.update("config_option_update", configOptions=[MODEL | {"currentValue": "p/large"}, EFFORT])

    peer.result({})

    assert peer.last["params"]["configId"] == "reasoning"
    assert peer.last["params"]["value"] == "high"


def test_what_is_set_already_is_not_set_again() -> None:
    """An option at its wanted value costs no request."""
    peer = Peer(request(model="p/small", effort="low"))
    peer.prompt()
    peer.initialized()
    peer.result({"sessionId": SESSION, "configOptions": [MODEL, EFFORT]})

    assert peer.last["method"] == "session/prompt"


def test_agents_without_options_get_set_model() -> None:
    """Agents from before configuration options are asked by session/set_model."""
    peer = Peer(request(model="m"))
    peer.initialized()
    peer.result({"sessionId": SESSION})

    assert peer.last["method"] == "session/set_model"
    assert peer.last["params"] == {"sessionId": SESSION, "modelId": "m"}


def test_an_effort_that_is_not_offered_fails() -> None:
    """Nothing that was asked for is dropped in silence."""
    peer = Peer(request(effort="high"))
    peer.prompt()
    peer.initialized()

    [over] = ended(peer.result({"sessionId": SESSION, "configOptions": [MODEL]}))

    assert over.error["message"] == "cannot set effort to 'high': the agent does not offer it"


def test_a_refused_option_names_it_and_keeps_the_agents_words() -> None:
    """The agent's code and data come through untouched."""
    peer = Peer(request(model="nope"))
    peer.prompt()
    peer.initialized()
    peer.result({"sessionId": SESSION, "configOptions": [MODEL]})

    [over] = ended(peer.error(-32602, "model not found", data={"known": 2}))

    assert over.error == {
        "code": -32602,
        "message": "cannot set model to 'nope': model not found",
        "data": {"known": 2},
    }


def test_a_missing_login_says_what_to_do() -> None:
    """Authentication required becomes advice that names the agent's ways to log in."""
    peer = Peer()
    peer.prompt()
    methods = [{"id": "x", "name": "Log in with X"}]
    peer.result({"protocolVersion": 1, "authMethods": methods})

    [over] = ended(peer.error(-32000, "Authentication required"))

    assert "log in with the agent's own CLI (Log in with X)" in over.error["message"]
    assert over.error["code"] == -32000


@pytest.mark.parametrize("timer", ["initialize", "session"])
def test_silence_is_limited(timer: str) -> None:
    """An agent that never answers the handshake ends the turn; the hint it gave is kept."""
    peer = Peer()
    peer.prompt()
    if timer == "session":
        peer.initialized()
    peer.say({"id": None, "error": {"code": -32700, "message": "Parse error"}})

    actions = peer.expire(timer)

    [over] = ended(actions)
    assert "did not answer" in over.error["message"]
    assert "Parse error" in over.error["message"]
    assert CloseStdin() in actions
    assert ended(peer.prompt("again"))[0].stop_reason == "error"


def test_a_timer_that_lost_its_race_does_nothing() -> None:
    """An expiry that arrives after the answer is ignored."""
    peer = ready()

    assert peer.expire("initialize") == peer.expire("session") == peer.expire("other") == []
