"""What a run used, out of counters that mean something else with every agent."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp.quirks import Conversed, Quirks, counters_of
from coachman_adapters.acp.state import State
from coachman_adapters.conversation import Action, AgentRequest, Usage
from coachman_adapters.counting import added, dollars, to_digits

COST = "cost_usd"


class Accounts:
    """Adds up one conversation's tokens and cost in ``state``."""

    def __init__(self, state: State, quirks: Quirks) -> None:
        self._state = state
        self._quirks = quirks

    def turn(self, result: Mapping[str, Any], request: AgentRequest) -> list[Action]:
        """A prompt's result may report the turn's tokens, or the session's."""
        usage, form = result.get("usage"), self._quirks.usage
        self._state.model = _model(result) or self._state.model
        if form not in ("turn", "session") or not isinstance(usage, dict):
            return []
        told = counters_of(usage, self._quirks)
        return self._since(told, request) if form == "session" else self._add(told)

    def step(self, update: Mapping[str, Any]) -> list[Action]:
        """A message chunk may report one request to the model."""
        meta = update.get("_meta")
        usage = meta.get("usage") if isinstance(meta, dict) else None
        if self._quirks.usage != "steps" or not isinstance(usage, dict):
            return []
        return self._add(counters_of(usage, self._quirks))

    def update(self, update: Mapping[str, Any], request: AgentRequest) -> list[Action]:
        """A usage update tells the context's size, and maybe the session's cost so far."""
        cost = update.get("cost")
        if self._quirks.cost != "session" or not isinstance(cost, dict):
            return []
        amount, state = dollars(cost.get("amount")), self._state
        if cost.get("currency") != "USD" or amount is None:
            return []
        if state.prompts_sent == 0:
            state.cost_before = amount
        elif state.cost_before is None:
            state.cost_before = _baseline(request).get(COST)
        state.session_counters = {**(state.session_counters or {}), COST: amount}
        if state.cost_before is None:
            # A resumed session whose past is not known has no cost of this run.
            return []
        state.cost_usd = to_digits(max(0.0, amount - state.cost_before))
        return [self._usage()]

    def _add(self, told: Mapping[str, int]) -> list[Action]:
        # What was cancelled or failed reports zeros: that is unknown, not nothing.
        if not any(told.values()):
            return []
        self._state.counters = added(self._state.counters, told)
        return [self._usage()]

    def _since(self, told: dict[str, int], request: AgentRequest) -> list[Action]:
        """What came after the session's last run; nothing where that is not known."""
        before, state = _baseline(request), self._state
        state.session_counters = {**(state.session_counters or {}), **told}
        if request.session is not None and "total" not in before:
            return []
        state.counters = {
            name: max(0, tokens - int(before.get(name, 0))) for name, tokens in told.items()
        }
        return [self._usage()]

    def _usage(self) -> Usage:
        state = self._state
        known = dict(state.session_counters) if state.session_counters else None
        return Usage(dict(state.counters), state.cost_usd, state.model, session_counters=known)

    def note(self, update: Mapping[str, Any]) -> None:
        """Remember the first ids seen: they mark where this conversation begins."""
        state = self._state
        message, tool = update.get("messageId"), update.get("toolCallId")
        said = update.get("sessionUpdate") == "agent_message_chunk"
        if said and state.first_message is None and texts.is_id(message):
            state.first_message = message
        if state.first_tool_call is None and texts.is_id(tool):
            state.first_tool_call = tool

    def epilogue(self, output: bytes | None, request: AgentRequest) -> list[Action]:
        """The final usage, where the agent has a better account after the fact."""
        read, state = self._quirks.epilogue, self._state
        if output is None or read is None or state.prompts_sent == 0:
            return []
        resumed = request.session is not None
        part = Conversed(state.prompts_sent, state.first_message, state.first_tool_call, resumed)
        usage = read(output, part)
        return [usage] if usage else []


def _baseline(request: AgentRequest) -> Mapping[str, float]:
    """What the session's last run left in its counters."""
    if request.session is None:
        return {COST: 0.0}
    return request.session_counters or {}


def _model(result: Mapping[str, Any]) -> str | None:
    """The model that did a turn, where its result says so."""
    found: Any = result
    for name in ("_meta", "quota", "model_usage"):
        found = found.get(name) if isinstance(found, dict) else None
    first = found[0] if isinstance(found, list) and found else None
    model = first.get("model") if isinstance(first, dict) else None
    return model if isinstance(model, str) else None
