"""What a run used. Counted from what each result says was used since the one before it.

A result's own ``usage`` leaves out subagents and turns that were cut off, and its
``total_cost_usd`` counts the session in some versions and the process in others. Where the CLI
does not tell what is new, the tokens are those of ``usage`` and the cost is known for new
sessions only.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from coachman_adapters.claude.state import State
from coachman_adapters.conversation import Action, Usage
from coachman_adapters.counting import added, count, dollars, to_digits

NEW = "model_usage_since_last_result"
PROVIDERS = {"firstParty": "anthropic", "bedrock": "aws", "vertex": "google"}
Model = Mapping[str, Any]


def turn(state: State, result: Mapping[str, Any], resumed: bool) -> list[Action]:
    """The run's usage with what ``result`` adds to it; nothing where it adds nothing."""
    models, state.turn_counters = _models(result.get(NEW)), {}
    if models is None:
        used = [_of_usage(result.get("usage"))]
        state.cost_usd = None if resumed else dollars(result.get("total_cost_usd"))
    else:
        used = [_of_model(model) for model in models.values()]
        state.cost_usd = _cost(state.cost_usd, models.values())
    if not any(part["total"] for part in used):
        return []
    state.counters = reduce(added, used, state.counters)
    provider = _provider(models or {}, state.model)
    return [Usage(dict(state.counters), state.cost_usd, state.model, provider)]


def request(state: State, event: Mapping[str, Any]) -> list[Action]:
    """The usage with the request that ``event`` ends; the turn's end tells it once more."""
    if event.get("type") != "message_delta":
        return []
    used = _of_usage(event.get("usage"))
    if not used["total"]:
        return []
    state.turn_counters = added(state.turn_counters, used)
    counters = added(state.counters, state.turn_counters)
    return [Usage(counters, None, state.model)]


def _models(value: Any) -> dict[str, Model] | None:
    if not isinstance(value, dict):
        return None
    return {name: model for name, model in value.items() if isinstance(model, dict)}


def _of_model(model: Model) -> dict[str, int]:
    fresh = count(model.get("inputTokens")) + count(model.get("cacheCreationInputTokens"))
    return _counters(
        fresh,
        count(model.get("cacheReadInputTokens")),
        count(model.get("outputTokens")),
        count(model.get("thinkingTokens")),
    )


def _of_usage(usage: Any) -> dict[str, int]:
    given = usage if isinstance(usage, dict) else {}
    fresh = count(given.get("input_tokens")) + count(given.get("cache_creation_input_tokens"))
    cached = count(given.get("cache_read_input_tokens"))
    return _counters(fresh, cached, count(given.get("output_tokens")), 0)


def _counters(fresh: int, cached: int, output: int, reasoning: int) -> dict[str, int]:
    """Reasoning is a part of the output, so the total does not count it again."""
    parts = {"input": fresh, "cached_input": cached, "output": output}
    return {**parts, "reasoning": reasoning, "total": sum(parts.values())}


def _cost(before: float | None, models: Any) -> float | None:
    """None from the first model on whose price the CLI only guesses."""
    costs = [dollars(model.get("costUSD")) for model in models if not _is_guess(model)]
    known = [cost for cost in costs if cost is not None]
    if before is None or len(known) < len(models):
        return None
    return to_digits(before + sum(known))


def _is_guess(model: Model) -> bool:
    return model.get("costBasis") == "unknown"


def _provider(models: Mapping[str, Model], name: str | None) -> str | None:
    model = models.get(name or "", {})
    return PROVIDERS.get(str(model.get("provider")))
