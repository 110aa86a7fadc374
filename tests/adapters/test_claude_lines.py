"""Claude Code's conversation, line by line: what recordings do not show."""

import json
from typing import Any

import pytest

from agents_replay import ended, events_of, stdin_of, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.claude.handshake import is_session
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Ask,
    Cancel,
    CloseStdin,
    Conversation,
    Ending,
    Prompt,
    SetTimer,
    TurnEnded,
    Usage,
    Withdraw,
)

SESSION = "12345678-1234-4123-8123-123456789abc"
INIT = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "claude-x"}
GOOD = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn"}


def request(**members: Any) -> AgentRequest:
    return AgentRequest(cwd="/workspace", home="/home/agent", **members)


def say(conversation: Conversation, *frames: dict[str, Any]) -> list[Action]:
    """What the agent's lines lead to."""
    return [
        action
        for frame in frames
        for action in conversation.receive(json.dumps(frame).encode() + b"\n")
    ]


def answer(**inner: Any) -> dict[str, Any]:
    """The answer to our greeting."""
    response = {"subtype": "success", "request_id": "coachman-1", "response": inner}
    return {"type": "control_response", "response": response}


def begun(**members: Any) -> Conversation:
    """A conversation within its first turn."""
    conversation = ADAPTERS["claude"].converse(request(**members))
    conversation.start()
    conversation.intend(Prompt(1, "go"))
    say(conversation, answer(), INIT)
    return conversation


def asking(number: str = "r1", **members: Any) -> dict[str, Any]:
    """A permission request for a command."""
    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": f"toolu_{number}"}
    asked |= {"input": {"command": "make"}, **members}
    return {"type": "control_request", "request_id": number, "request": asked}


def responses(actions: list[Action]) -> list[Any]:
    """What was answered to the agent's control requests."""
    frames = [json.loads(line) for line in stdin_of(actions).splitlines()]
    return [f["response"].get("response") for f in frames if f["type"] == "control_response"]


def test_a_prompt_waits_for_the_greetings_answer() -> None:
    """Nothing is prompted before the agent is there, and its silence is bounded."""
    conversation = ADAPTERS["claude"].converse(request())
    started = conversation.start()
    early = conversation.intend(Prompt(1, "go"))
    later = say(conversation, answer())

    assert SetTimer("initialize", 60.0) in started
    assert stdin_of(early) == b""
    assert json.loads(stdin_of(later))["message"]["content"][0]["text"] == "go"


@pytest.mark.parametrize("prompted_first", [True, False])
def test_an_agent_that_does_not_answer_is_let_go(prompted_first: bool) -> None:
    """After a minute every prompt ends in an error, whenever it comes."""
    conversation = ADAPTERS["claude"].converse(request())
    conversation.start()
    early = conversation.intend(Prompt(1, "go")) if prompted_first else []
    expired = conversation.expire("initialize")
    late = [] if prompted_first else conversation.intend(Prompt(1, "go"))

    [end] = ended([*early, *expired, *late])
    assert CloseStdin() in expired
    assert end.error == {"message": "the agent did not answer within 60 s", "code": "agent_silent"}


def test_a_greeting_that_is_refused_ends_the_run() -> None:
    """The agent's own reason is told."""
    conversation = ADAPTERS["claude"].converse(request())
    conversation.start()
    conversation.intend(Prompt(1, "go"))
    response = {"subtype": "error", "request_id": "coachman-1", "error": "not today"}

    [end] = ended(say(conversation, {"type": "control_response", "response": response}))

    assert end.error == {"message": "the agent refused to begin: not today", "code": "no_session"}


def test_a_session_is_named_by_its_id_alone() -> None:
    """Other words would be looked up as a title: they are refused, and never given to the CLI."""
    adapter = ADAPTERS["claude"]
    conversation = adapter.converse(request(session="my session"))
    started = conversation.start()

    [end] = ended(conversation.intend(Prompt(1, "go")))

    assert started == [CloseStdin()]
    assert end.error is not None
    assert end.error["code"] == "no_session"
    assert "--resume" not in adapter.plan(request(session="my session")).argv
    assert adapter.plan(request(session=SESSION)).argv[-2:] == ("--resume", SESSION)
    assert not is_session(SESSION + "\n")


def test_whole_messages_are_told_where_nothing_was_streamed() -> None:
    """A block that came in pieces is not told again; one that did not is told whole."""
    conversation = begun()
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "in pieces"}}
    start = {"type": "message_start", "message": {"id": "msg_1"}}

    def whole(message: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"type": "assistant", "message": {"id": message, "content": content}}

    actions = say(
        conversation,
        {"type": "stream_event", "event": start},
        {"type": "stream_event", "event": delta},
        whole("msg_1", "in pieces"),
        whole("msg_2", " and whole"),
    )

    assert text_of(actions) == "in pieces and whole"
    assert [e.members["message_id"] for e in events_of(actions)] == ["msg_1", "msg_2"]


def test_an_answer_that_was_written_in_reaches_every_question() -> None:
    """Where several things are asked at once, one's own words are the answer to each."""
    conversation = begun()
    questions = [{"question": "First?", "options": [{"label": "A"}]}, {"question": "Second?"}]
    asked = asking(tool_name="AskUserQuestion", input={"questions": questions})
    [ask] = [action for action in say(conversation, asked) if isinstance(action, Ask)]

    told = conversation.intend(Answer(ask.request, "write_in", "both"))

    assert ask.question == "First? / Second?"
    assert [option.id for option in ask.options] == ["write_in", "deny"]
    [response] = responses(told)
    assert response["updatedInput"]["answers"] == {"First?": "both", "Second?": "both"}


@pytest.mark.parametrize("option", ["nonsense", "always", None])
def test_what_was_not_offered_is_a_denial(option: str | None) -> None:
    """Nothing is allowed that nobody chose."""
    conversation = begun()
    say(conversation, asking())

    [response] = responses(conversation.intend(Answer("p1", option)))

    assert response["behavior"] == "deny"
    assert response["message"]


def test_rules_are_allowed_for_the_session_only() -> None:
    """A suggestion for a file of the worktree, or of the user's, becomes one for the session."""
    conversation = begun()
    rules = [{"toolName": "Bash", "ruleContent": "make:*"}, {"toolName": "Edit"}]
    suggestion = {"type": "addRules", "rules": rules, "destination": "localSettings"}
    directories = {"type": "addDirectories", "directories": ["/data"], "destination": "session"}
    asked = asking(permission_suggestions=[suggestion, directories])
    [ask] = [action for action in say(conversation, asked) if isinstance(action, Ask)]

    [response] = responses(conversation.intend(Answer("p1", "always")))

    assert ask.options[1].name == "Allow in this session: Bash(make:*), Edit, /data"
    assert [each["destination"] for each in response["updatedPermissions"]] == ["session"] * 2


@pytest.mark.parametrize("option", ["allow", "always"])
def test_a_tool_does_what_the_agent_said_however_long_that_is(option: str) -> None:
    """Of a long request only a part is kept; allowing it leaves the CLI its own input."""
    conversation = begun()
    content = {"file_path": "/workspace/a", "content": "x" * 2_000_000}
    rules = [{"type": "setMode", "mode": "acceptEdits"}]
    asked = asking(tool_name="Write", input=content, permission_suggestions=rules)

    [ask] = [action for action in say(conversation, asked) if isinstance(action, Ask)]
    [decision] = responses(conversation.intend(Answer(ask.request, option)))

    assert (decision["behavior"], decision["updatedInput"]) == ("allow", {})


def test_a_question_that_the_agent_takes_back_is_withdrawn() -> None:
    """Nobody needs to answer it any more, and an answer that comes is not passed on."""
    conversation = begun()
    say(conversation, asking("r1"), asking("r2"))

    taken = say(conversation, {"type": "control_cancel_request", "request_id": "r1"})

    assert taken == [Withdraw("p1")]
    assert conversation.intend(Answer("p1", "allow")) == []
    assert conversation.intend(Answer("p2", "allow"))


def test_a_question_after_the_cancel_is_denied_at_once() -> None:
    """Nobody is asked on behalf of a turn that is to end."""
    conversation = begun()
    conversation.intend(Cancel())

    actions = say(conversation, asking())

    assert not [action for action in actions if isinstance(action, Ask)]
    assert responses(actions)[0]["behavior"] == "deny"


def test_a_cancel_is_told_once_and_any_end_confirms_it() -> None:
    """A turn that was done just then is cancelled all the same."""
    conversation = begun()
    first, second = conversation.intend(Cancel()), conversation.intend(Cancel())

    assert json.loads(stdin_of(first))["request"] == {"subtype": "interrupt"}
    assert second == []
    assert ended(say(conversation, GOOD)) == [TurnEnded("cancelled")]


def test_a_prompt_that_was_never_sent_is_cancelled_by_itself() -> None:
    """The agent never hears of it."""
    conversation = ADAPTERS["claude"].converse(request())
    conversation.start()
    conversation.intend(Prompt(1, "go"))

    cancelled = conversation.intend(Cancel())

    assert ended(cancelled) == [TurnEnded("cancelled")]
    assert stdin_of(say(conversation, answer())) == b""


def test_a_turn_that_no_prompt_began_ends_none() -> None:
    """The CLI may tell its model by itself of a task that ended; only the usage counts."""
    conversation = begun(keep=True)
    used = {"claude-x": {"inputTokens": 5, "costUSD": 0.5}}
    own = {"origin": {"kind": "task-notification"}, "model_usage_since_last_result": used}

    told = say(conversation, {**GOOD, **own})

    assert [type(action) for action in told] == [Usage]
    assert ended(say(conversation, GOOD)) == [TurnEnded("end_turn")]


def test_a_result_that_is_repeated_ends_no_other_turn() -> None:
    """The next prompt runs when the last one's result comes again."""
    conversation = begun(keep=True)
    result = {**GOOD, "uuid": "1"}
    say(conversation, result)
    conversation.intend(Prompt(2, "more"))

    assert say(conversation, result) == []
    assert ended(say(conversation, {**GOOD, "uuid": "2"})) == [TurnEnded("end_turn")]


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, "end_turn"),
        ({"is_error": True}, "error"),
        ({"is_error": None}, "error"),
        ({"subtype": "error_during_execution", "is_error": True}, "error"),
        ({"subtype": "error_max_budget_usd", "is_error": True}, "error"),
        ({"subtype": "error_max_turns", "is_error": True}, "max_turn_requests"),
        ({"is_error": True, "api_error": "max_output_tokens"}, "max_tokens"),
        ({"stop_reason": "max_tokens"}, "max_tokens"),
        ({"is_error": True, "stop_reason": "refusal"}, "refusal"),
        ({"stop_reason": ["end_turn"], "origin": {"kind": []}}, "end_turn"),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, "cancelled"),
    ],
)
def test_an_end_is_what_all_its_members_say(told: dict[str, Any], reason: str) -> None:
    """A subtype of success alone is no success."""
    [end] = ended(say(begun(), {**GOOD, **told}))

    assert end.stop_reason == reason


def test_an_error_of_the_api_without_a_name_has_the_results_code() -> None:
    """The message that stands in for the model's answer need not say what kind of error it is."""
    stands_in = {"type": "assistant", "is_api_error_message": True, "message": {"content": []}}
    failed = {**GOOD, "is_error": True, "result": "sorry", "api_error_type": "overloaded"}

    [end] = ended(say(begun(), stands_in, failed))

    assert end.error == {"message": "sorry", "code": "overloaded", "data": {"type": "overloaded"}}


def test_an_older_cli_is_counted_by_its_turns() -> None:
    """Without what is new since the last result: usage per turn, and the process's cost."""
    conversation = begun(keep=True)
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 3}
    told: list[Action] = []
    for number, cost in enumerate((0.25, 0.75)):
        told += say(conversation, {**GOOD, "usage": usage, "total_cost_usd": cost})
        conversation.intend(Prompt(number + 2, "more"))

    usages = [action for action in told if isinstance(action, Usage)]
    assert [used.cost_usd for used in usages] == [0.25, 0.75]
    assert usages[-1].counters == {
        "input": 14,
        "cached_input": 0,
        "output": 6,
        "reasoning": 0,
        "total": 20,
    }


def test_an_older_clis_cost_of_a_resumed_session_is_unknown() -> None:
    """Whether it counts the session or the process depends on the version."""
    used = {"usage": {"input_tokens": 5}, "total_cost_usd": 0.25}

    [usage, *_] = say(begun(session=SESSION), {**GOOD, **used})

    assert isinstance(usage, Usage)
    assert usage.cost_usd is None


def test_a_guessed_price_is_no_cost() -> None:
    """From the first model on that the CLI does not know, the run's cost is unknown."""
    conversation = begun(keep=True)
    known = {"claude-x": {"inputTokens": 5, "costUSD": 0.5, "costBasis": "list"}}
    guess = {"other": {"inputTokens": 5, "costUSD": 0.5, "costBasis": "unknown"}}
    costs = []
    for number, models in enumerate((known, guess, known)):
        result = {**GOOD, "model_usage_since_last_result": models}
        costs += [a.cost_usd for a in say(conversation, result) if isinstance(a, Usage)]
        conversation.intend(Prompt(number + 2, "more"))

    assert costs == [0.5, None, None]


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (
            {"subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}},
            ("agent.notice", {"text": "the context was compacted (auto)"}),
        ),
        (
            {"subtype": "status", "status": "compacting"},
            ("agent.status", {"phase": "working", "label": "compacting the context"}),
        ),
        (
            {"subtype": "status", "status": None, "permissionMode": "plan"},
            ("agent.notice", {"text": "mode: plan"}),
        ),
        ({"subtype": "status", "status": "requesting"}, None),
        ({"subtype": "thinking_tokens", "estimated_tokens": 2}, None),
        (
            {"subtype": "api_retry", "attempt": 2, "max_retries": 10, "error": "overloaded"},
            (
                "agent.status",
                {"phase": "waiting", "label": "overloaded: retrying, attempt 2 of 10"},
            ),
        ),
    ],
)
def test_what_it_says_of_itself_is_told_in_words(
    frame: dict[str, Any], told: tuple[str, Any] | None
) -> None:
    """Compaction, modes and retries; what repeats others is left out."""
    events = events_of(say(begun(), {"type": "system", **frame}))

    assert [(event.type, dict(event.members)) for event in events] == ([told] if told else [])


@pytest.mark.parametrize(
    "frame", [{"type": "novelty", "x": 1}, {"type": "system", "subtype": "novelty", "x": 1}]
)
def test_what_is_new_is_kept_as_it_came(frame: dict[str, Any]) -> None:
    """A later version's messages are on record and change nothing."""
    [event] = events_of(say(begun(), frame))

    assert (event.type, event.members) == ("agent.unknown", {"raw": frame})


def test_a_tool_that_goes_on_is_in_progress() -> None:
    """One that nobody was asked about shows that it runs by its progress."""
    conversation = begun()
    block = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/x"}}
    say(conversation, {"type": "assistant", "message": {"id": "msg_1", "content": [block]}})

    progress = {"type": "tool_progress", "tool_use_id": "toolu_1"}
    events = events_of(say(conversation, progress, progress))

    assert [event.members["status"] for event in events] == ["in_progress"]


def test_what_else_it_asks_is_refused() -> None:
    """A control request that coachman does not serve gets an error, and is on record."""
    asked = {"type": "control_request", "request_id": "e1", "request": {"subtype": "elicitation"}}

    actions = say(begun(), asked)

    [frame] = [json.loads(line) for line in stdin_of(actions).splitlines()]
    assert frame["response"]["subtype"] == "error"
    assert [event.type for event in events_of(actions)] == ["agent.unknown"]


def test_an_end_without_a_result_is_an_error() -> None:
    """A process that dies in its turn is told by how it died; its questions are withdrawn."""
    conversation = begun()
    say(conversation, asking())

    actions = conversation.finish(Ending(None, 9))

    assert Withdraw("p1") in actions
    [end] = ended(actions)
    assert end.error is not None
    assert "killed by signal 9 before its turn was over" in end.error["message"]


def test_a_bounded_run_takes_no_second_prompt() -> None:
    """Its stdin is closed with the first turn's end."""
    conversation = begun()
    over = say(conversation, GOOD)

    [end] = ended(conversation.intend(Prompt(2, "more")))

    assert CloseStdin() in over
    assert end.error == {"message": "the run takes no more prompts", "code": "closed"}


def argument(flag: str, **members: Any) -> str:
    """What the launch plan gives with ``flag``."""
    argv = ADAPTERS["claude"].plan(request(**members)).argv
    return argv[argv.index(flag) + 1]


@pytest.mark.parametrize("mode", ["allow", "ask", "deny"])
def test_the_plan_asks_about_everything_that_a_run_decides(mode: str) -> None:
    """Each edit and command asks, by a rule before the user's own; a person has the CLI's."""
    permissions = json.loads(argument("--settings", permissions=mode))["permissions"]
    without = argument("--disallowedTools", permissions=mode).split(",")

    assert permissions["defaultMode"] == "default"
    assert ("Bash" in permissions.get("ask", [])) == (mode != "ask")
    assert ("AskUserQuestion" in without) == (mode != "ask")
    assert {"ScheduleWakeup", "EnterWorktree"} <= set(without)


def test_the_plan_has_what_was_asked_for() -> None:
    """Model, effort and agent are flags; its home and its switches are in the environment."""
    plan = ADAPTERS["claude"].plan(request(model="opus", effort="high", as_agent="reviewer"))

    assert plan.argv[-6:] == ("--model", "opus", "--effort", "high", "--agent", "reviewer")
    assert plan.env["CLAUDE_CONFIG_DIR"] == "/home/agent/.claude"
    assert plan.env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    assert not set(plan.env) & set(ADAPTERS["claude"].spec.environment)
