"""Usage: this run's tokens, whatever the agent's own counters mean."""

import json
from typing import Any

import pytest

from agents_peer import SESSION, Peer, prompted, request
from agents_replay import load
from coachman_adapters.acp.quirks import Conversed, Quirks
from coachman_adapters.conversation import Usage
from coachman_adapters.opencode import read_export

KEPT = request(keep=True)
USAGE = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 130, "cachedReadTokens": 10}


def usages(actions: list[Any]) -> list[Usage]:
    return [action for action in actions if isinstance(action, Usage)]


def test_turns_add_up() -> None:
    """Results that report a turn each are summed over the run."""
    peer = prompted(KEPT)
    peer.result({"stopReason": "end_turn", "usage": USAGE})
    peer.prompt("more")

    [usage] = usages(peer.result({"stopReason": "end_turn", "usage": USAGE}))

    assert usage.counters == {
        "input": 200,
        "cached_input": 20,
        "output": 40,
        "reasoning": 0,
        "total": 260,
    }


def test_cached_input_is_taken_out_where_it_was_counted_in() -> None:
    """Input never includes what came from the cache."""
    quirks = Quirks(input_includes_cached=True)

    [usage] = usages(prompted(KEPT, quirks).result({"stopReason": "end_turn", "usage": USAGE}))

    assert (usage.counters["input"], usage.counters["cached_input"]) == (90, 10)


@pytest.mark.parametrize(
    "usage",
    [
        {"inputTokens": -5, "outputTokens": "many", "totalTokens": None},
        {"inputTokens": 1e300, "outputTokens": True},
        {"inputTokens": float("inf")},
    ],
)
def test_nonsense_counts_nothing(usage: dict[str, Any]) -> None:
    """A malformed count is zero, never an error."""
    peer = prompted(KEPT)
    line = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": peer.last_id,
            "result": {"stopReason": "end_turn", "usage": usage},
        }
    ).replace("Infinity", "1e999")

    for found in usages(peer.raw(line.encode() + b"\n")):
        assert set(found.counters.values()) == {0}


def cost(peer: Peer, amount: float, currency: str = "USD") -> list[Usage]:
    return usages(
        peer.update("usage_update", used=1, size=2, cost={"amount": amount, "currency": currency})
    )


def test_a_sessions_cost_is_this_runs_only_from_its_start() -> None:
    """In a resumed session the cost before the first prompt is taken off; unknown, it is none."""
    quirks = Quirks(cost="session")
    fresh = prompted(KEPT, quirks)
    again = Peer(request(keep=True, session=SESSION), quirks)
    again.initialized(loadSession=True)
    blind = Peer(request(keep=True, session=SESSION), quirks)
    blind.initialized(loadSession=True)
    blind.result({})
    blind.prompt()
    cost(again, 1.5)
    again.result({})
    again.prompt()

    assert cost(fresh, 0.25)[0].cost_usd == 0.25
    assert cost(again, 1.75)[0].cost_usd == 0.25
    assert cost(blind, 1.75) == []
    assert cost(fresh, 9, "EUR") == cost(prompted(), 9) == []


@pytest.mark.parametrize("amount", [10**400, -1, True, "0.5", None])
def test_what_is_no_amount_is_no_cost(amount: Any) -> None:
    """Nor is it an error, however large a number it is."""
    assert cost(prompted(KEPT, Quirks(cost="session")), amount) == []


EXPORT = next(
    step["finish"]["epilogue"] for step in load("opencode", "resume")["steps"] if "finish" in step
)
THIS_RUN = {"input": 1900, "cached_input": 200, "output": 18, "reasoning": 0, "total": 2118}
WHOLE = {"input": 2820, "cached_input": 300, "output": 25, "reasoning": 0, "total": 3145}
IDS = [message["info"]["id"] for message in json.loads(EXPORT)["messages"]]


@pytest.mark.parametrize(
    ("part", "counters"),
    [
        (Conversed(2, None, None, resumed=False), WHOLE),
        (Conversed(1, IDS[-1], None, resumed=True), THIS_RUN),
        (Conversed(1, None, "call_0001", resumed=True), THIS_RUN),
        (Conversed(1, "msg_unknown", None, resumed=True), THIS_RUN),
        (Conversed(1, None, None, resumed=True), THIS_RUN),
    ],
)
def test_an_export_is_cut_where_this_conversation_begins(
    part: Conversed, counters: dict[str, int]
) -> None:
    """A resumed session's export holds its past; only what came since the first prompt counts."""
    usage = read_export(EXPORT.encode(), part)

    assert usage is not None
    assert usage.counters == counters


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"Session not found",
        b"[]",
        b"{}",
        b'{"messages": 5}',
        b'{"messages": [5]}',
        b'{"messages": [{"info": null}]}',
        b'{"messages": [{"info": {"role": "assistant", "tokens": 5, "cost": "x"}}]}',
        b'{"messages": [{"info": {"role": "assistant", "tokens": {"cache": 7}}, "parts": 3}]}',
        b'{"messages": []}',
        b"\xff",
    ],
)
def test_an_unreadable_export_is_no_usage(output: bytes) -> None:
    """What an agent prints is never trusted to have a shape."""
    assert read_export(output, Conversed(1, "m", "c", resumed=True)) is None
    assert read_export(output, Conversed(1, None, None, resumed=False)) is None
