"""What a run used, out of counters that mean something else with every agent."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp.quirks import Conversed, Quirks, turn_counters
from coachman_adapters.acp.state import State
from coachman_adapters.conversation import Action, AgentRequest, Usage

COST_DIGITS = 9


class Accounts:
    """Adds up one conversation's tokens and cost in ``state``."""

    def __init__(self, state: State, quirks: Quirks) -> None:
        self._state = state
        self._quirks = quirks

    def turn(self, result: Mapping[str, Any], request: AgentRequest) -> list[Action]:
        """A prompt's result may report the turn's tokens, or the session's."""
        usage = result.get("usage")
        if self._quirks.result_usage == "none" or not isinstance(usage, dict):
            return []
        told = turn_counters(usage, self._quirks)
        if self._quirks.result_usage == "session":
            return self._since(told, request)
        counters = self._state.counters
        for name, tokens in told.items():
            counters[name] = counters.get(name, 0) + tokens
        return [Usage(dict(counters), self._state.cost_usd)]

    def _since(self, told: dict[str, int], request: AgentRequest) -> list[Action]:
        """What came after the session's last run; nothing where that is not known."""
        before = request.session_counters if request.session is not None else {}
        if before is None:
            return []
        state = self._state
        state.counters = {
            name: max(0, tokens - int(before.get(name, 0))) for name, tokens in told.items()
        }
        return [Usage(dict(state.counters), state.cost_usd, session_counters=told)]

    def update(self, update: Mapping[str, Any], resumed: bool) -> list[Action]:
        """A usage update tells the context's size, and maybe the session's cost so far."""
        cost = update.get("cost")
        if self._quirks.cost != "session" or not isinstance(cost, dict):
            return []
        amount, state = cost.get("amount"), self._state
        if cost.get("currency") != "USD" or not isinstance(amount, int | float):
            return []
        if state.prompts_sent == 0:
            state.cost_before = float(amount)
        if resumed and state.cost_before is None:
            return []
        state.cost_usd = round(max(0.0, amount - (state.cost_before or 0.0)), COST_DIGITS)
        return [Usage(dict(state.counters), state.cost_usd)]

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
