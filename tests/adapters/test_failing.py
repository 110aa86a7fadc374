"""Failed turns: which of them is a provider's limit, when it ends, and which only broke."""

from typing import Any

import pytest

from coachman_adapters.conversation import Ending, Reset
from coachman_adapters.endings import exited
from coachman_adapters.failing import failed

CODEX = "You’ve hit your usage limit. Upgrade to Pro (https://x.invalid/pro) or try again at"


@pytest.mark.parametrize(
    ("error", "resets"),
    [
        ({"message": "exceeded retry limit, last status: 429 Too Many Requests"}, None),
        ({"message": '429: {"message":"no","code":"429"}'}, None),
        ({"message": "no", "code": "rate_limit"}, None),
        ({"message": "no", "code": 429}, None),
        ({"message": "no", "data": {"status": 429}}, None),
        ({"message": "no", "data": {"codexErrorInfo": "usageLimitExceeded"}}, None),
        ({"message": "no", "code": 429, "data": {"resets_at": 1700}}, Reset(at_s=1700.0)),
        ({"message": "no", "code": 429, "data": [{"resetsAt": 17.5}]}, Reset(at_s=17.5)),
        ({"message": "no", "code": 429, "data": {"retry_after": 7}}, Reset(in_s=7.0)),
        (
            {"message": "quota", "data": {"details": [{"retryDelay": "40s"}]}},
            Reset(in_s=40.0),
        ),
        ({"message": "Rate limit reached. Please retry in 1.5m."}, Reset(in_s=90.0)),
        ({"message": "Quota exceeded, try again after 30"}, Reset(in_s=30.0)),
        ({"message": f"{CODEX} 6:05 AM."}, Reset(local="06:05")),
        ({"message": f"{CODEX} 12:59 PM."}, Reset(local="12:59")),
        ({"message": f"{CODEX} 12:00 AM."}, Reset(local="00:00")),
        ({"message": f"{CODEX} Dec 3rd, 2026 6:57 PM."}, Reset(local="2026-12-03T18:57")),
        ({"message": "429", "data": {"resets_at": True, "retry_after": "soon"}}, None),
        ({"message": "429", "data": {"resets_at": -1}}, None),
    ],
)
def test_a_limit_is_told_in_many_ways(error: dict[str, Any], resets: Reset | None) -> None:
    """By a code, a status or words; and its end in numbers, spans or a time of day."""
    ended = failed(error)

    assert (ended.stop_reason, ended.resets, ended.error) == ("limited", resets, error)


@pytest.mark.parametrize(
    "message",
    [
        "scripted failure 400",
        "the file has 429000 lines",
        "model gpt-429x is unknown",
        "the model's context limit was reached",
        "",
    ],
)
def test_other_failures_are_errors(message: str) -> None:
    """A number alone means nothing, nor does any other limit."""
    ended = failed({"message": message})

    assert (ended.stop_reason, ended.transient) == ("error", False)


@pytest.mark.parametrize(
    ("message", "broke"),
    [
        ("connect ECONNREFUSED 127.0.0.1:1", True),
        ("TypeError: fetch failed", True),
        ("stream disconnected before completion", True),
        ("error sending request for url", True),
        ("Connection error.", True),
        ("scripted failure 500", False),
    ],
)
def test_a_connection_that_broke_is_worth_another(message: str, broke: bool) -> None:
    """A status that a server gave is its word; a line that broke is nobody's."""
    assert failed({"message": message}).transient is broke


@pytest.mark.parametrize(
    ("ending", "broke"),
    [
        (Ending(None, 9), True),
        (Ending(139, None), True),
        (Ending(1, None), False),
        (Ending(0, None), False),
        (Ending(1, None, b"Error: connect ECONNRESET"), True),
        (Ending(None, None, b"bwrap: execvp x: No such file or directory"), False),
    ],
)
def test_an_agent_that_was_killed_broke(ending: Ending, broke: bool) -> None:
    """One that exits by itself has said what it had to say."""
    assert failed(exited("agent", ending, "before its turn was over")).transient is broke


@pytest.mark.parametrize(
    "error",
    [
        {"message": f"429: retry after {'9' * 400} s"},
        {"message": "429", "resets_at": 10**400},
        {"message": "429", "resets_at": 1e300},
        {"message": "429", "retry_after": 10**400},
        {"message": "429", "retryDelay": f"{'9' * 400}s"},
    ],
)
def test_a_moment_beyond_all_reason_is_none(error: dict[str, Any]) -> None:
    """It is a limit all the same, whose end nobody knows."""
    assert failed(error).stop_reason == "limited"
    assert failed(error).resets is None


def test_a_deep_error_is_looked_through_only_so_far() -> None:
    """What an agent sends may be nested without end."""
    data: Any = {"status": 429}
    for _ in range(200):
        data = {"x": data}

    assert failed({"message": "no", "data": data}).stop_reason == "error"
