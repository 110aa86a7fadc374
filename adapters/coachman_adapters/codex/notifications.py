"""What the app server tells of its own accord, as events."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.acp.tools import MAX_KNOWN
from coachman_adapters.codex import failures, messages, tokens
from coachman_adapters.codex.items import Items
from coachman_adapters.codex.state import State
from coachman_adapters.codex.tools import described
from coachman_adapters.conversation import Action, AgentRequest, Event, Span, Usage

Params = Mapping[str, Any]

_PLAN_STATUSES = {"inProgress": "in_progress", "completed": "completed"}
# Agents that codex starts itself have threads of their own, which only their tools tell of.
_FOREIGN = ("item/started", "item/completed")
_TALK = ("agentMessage", "reasoning", "plan")


class Notifications:
    """Reads notifications; those that begin or end a turn are the conversation's own."""

    def __init__(self, state: State, request: AgentRequest, items: Items) -> None:
        self._state = state
        self._request = request
        self._items = items

    def tell(self, method: str, params: Params, span: Span) -> list[Action]:
        """The actions of one notification; one that is not known is kept as it came."""
        if method in messages.UNTOLD:
            return []
        thread = params.get("threadId")
        foreign = thread is not None and thread != self._state.session
        read = _READERS.get(method)
        if read is None:
            raw = {"method": method, "params": dict(params)}
            return [Event(events.UNKNOWN, texts.fit({"raw": raw}, span.size), span)]
        if foreign and (method not in _FOREIGN or _member(params, "item").get("type") in _TALK):
            return []
        return [*read(self, params, span)]

    def _started(self, params: Params, span: Span) -> Iterator[Action]:
        item = _member(params, "item")
        call = described(item, False) if item.get("type") == "fileChange" else None
        known = len(self._state.patches) < MAX_KNOWN
        if call is not None and texts.is_id(item.get("id")) and known:
            self._state.patches[item["id"]] = call
        yield from self._items.tell(item, False, span)

    def _completed(self, params: Params, span: Span) -> Iterator[Action]:
        item = _member(params, "item")
        self._state.patches.pop(str(item.get("id")), None)
        yield from self._items.tell(item, True, span)

    def _message(self, params: Params, span: Span) -> Iterator[Action]:
        yield from self._items.grow(events.MESSAGE_CHUNK, params, span)

    def _thought(self, params: Params, span: Span) -> Iterator[Action]:
        yield from self._items.grow(events.THOUGHT_CHUNK, params, span)

    def _part(self, params: Params, span: Span) -> Iterator[Action]:
        if params.get("summaryIndex"):
            yield from self._thought({**params, "delta": "\n\n"}, span)

    def _plan(self, params: Params, span: Span) -> Iterator[Action]:
        given = params.get("plan")
        entries = [
            {
                "content": step["step"],
                "status": _PLAN_STATUSES.get(str(step.get("status")), "pending"),
            }
            for step in (given if isinstance(given, list) else ())
            if isinstance(step, dict) and isinstance(step.get("step"), str)
        ]
        yield Event(events.PLAN, texts.fit({"entries": entries}, span.size), span)

    def _usage(self, params: Params, span: Span) -> Iterator[Action]:
        """codex tells a thread's totals; of a resumed one also those that it begins with."""
        state, total = self._state, _member(_member(params, "tokenUsage"), "total")
        if not total:
            return
        counted = tokens.session_counters(total)
        if params.get("turnId") not in state.turns:
            if not state.turns and self._request.session is not None:
                state.before = counted
        elif state.before is not None:
            counters = tokens.since(state.before, counted)
            yield Usage(counters, None, state.model, state.provider, counted)

    def _error(self, params: Params, span: Span) -> Iterator[Action]:
        error = _member(params, "error")
        message = failures.words(error.get("message"))
        if params.get("willRetry") is True:
            yield failures.retrying(message, span)
        self._state.hint = message[: texts.SMALL_STRING_CHARS]

    def _warning(self, params: Params, span: Span) -> Iterator[Action]:
        parts = [params.get(name) for name in ("message", "summary", "details")]
        text = ": ".join(part for part in parts if isinstance(part, str) and part)
        yield failures.notice(text, span, "warning")

    def _rerouted(self, params: Params, span: Span) -> Iterator[Action]:
        model = params.get("toModel")
        if texts.is_id(model):
            self._state.model = model
            yield failures.notice(f"model: {model} ({params.get('reason')})", span, "warning")

    def _server(self, params: Params, span: Span) -> Iterator[Action]:
        if params.get("status") == "failed":
            text = f"MCP server {params.get('name')} did not start: {params.get('error')}"
            yield failures.notice(text, span, "warning")


def _member(params: Params, name: str) -> dict[str, Any]:
    value = params.get(name)
    return value if isinstance(value, dict) else {}


_READERS: Mapping[str, Callable[[Notifications, Params, Span], Iterator[Action]]] = {
    "item/started": Notifications._started,
    "item/completed": Notifications._completed,
    "item/agentMessage/delta": Notifications._message,
    "item/reasoning/summaryTextDelta": Notifications._thought,
    "item/reasoning/textDelta": Notifications._thought,
    "item/reasoning/summaryPartAdded": Notifications._part,
    "turn/plan/updated": Notifications._plan,
    "thread/tokenUsage/updated": Notifications._usage,
    "error": Notifications._error,
    "warning": Notifications._warning,
    "guardianWarning": Notifications._warning,
    "configWarning": Notifications._warning,
    "deprecationNotice": Notifications._warning,
    "model/rerouted": Notifications._rerouted,
    "mcpServer/startupStatus/updated": Notifications._server,
}
