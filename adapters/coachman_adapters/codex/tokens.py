"""codex counts tokens per thread, over all its turns and processes; a run is a part of that."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.conversation import AgentRequest
from coachman_adapters.counting import count

INPUT = "input_tokens"
CACHED = "cached_input_tokens"
OUTPUT = "output_tokens"
REASONING = "reasoning_output_tokens"
# The app server spells them in its own way.
_SPELLINGS = {
    INPUT: "inputTokens",
    CACHED: "cachedInputTokens",
    OUTPUT: "outputTokens",
    REASONING: "reasoningOutputTokens",
}


def session_counters(usage: Mapping[str, Any]) -> dict[str, int]:
    """A thread's totals as codex told them, in one spelling."""
    return {name: count(usage.get(name, usage.get(other))) for name, other in _SPELLINGS.items()}


def baseline(request: AgentRequest) -> dict[str, int] | None:
    """What the thread had counted before this run; None where nobody knows."""
    if request.session is None:
        return dict.fromkeys(_SPELLINGS, 0)
    before = request.session_counters
    return None if before is None else session_counters(before)


def since(before: Mapping[str, int], total: Mapping[str, int]) -> dict[str, int]:
    """The counters of `Usage`: codex's input holds what was cached, its output the reasoning."""
    spent = {name: max(0, total[name] - before.get(name, 0)) for name in _SPELLINGS}
    return {
        "input": max(0, spent[INPUT] - spent[CACHED]),
        "cached_input": spent[CACHED],
        "output": max(0, spent[OUTPUT] - spent[REASONING]),
        "reasoning": spent[REASONING],
        "total": spent[INPUT] + spent[OUTPUT],
    }
