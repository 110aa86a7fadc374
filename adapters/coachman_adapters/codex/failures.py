"""How codex's errors read: its own words, without the JSON that they may be wrapped in."""

import re
from collections.abc import Mapping
from typing import Any

from coachman_adapters import failing, jsonlines, texts
from coachman_adapters.conversation import Event, Span, TurnEnded
from coachman_adapters.events import NOTICE, STATUS

RECONNECTING = "Reconnecting..."
_INCOMPLETE = re.compile(r"Incomplete response returned, reason: (\w+)")
_STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def words(message: Any) -> str:
    """What a message says; a model's error comes as the whole body of its answer."""
    text = message if isinstance(message, str) and message else "an error without a message"
    body = jsonlines.decode(text.encode("utf-8", "replace"))
    error = body.get("error") if body else None
    inner = error.get("message") if isinstance(error, dict) else None
    return inner if isinstance(inner, str) and inner else text


def turn_failed(error: Any, span: Span) -> tuple[TurnEnded, list[Event]]:
    """The end of a failed turn. An answer that the model cut short has its own stop reason."""
    told = error if isinstance(error, dict) else {}
    message = words(told.get("message"))
    incomplete = _INCOMPLETE.search(message)
    reason = _STOPS.get(incomplete[1]) if incomplete else None
    if reason is not None:
        return TurnEnded(reason), [notice(message, span, "warning")]
    error = texts.fit({"message": message, **_details(told)}, span.size)
    return failing.failed(error), []


def _details(error: Mapping[str, Any]) -> dict[str, Any]:
    """``code``: codex's name of the kind of error; ``data``: what else it says."""
    info, more = error.get("codexErrorInfo"), error.get("additionalDetails")
    data: dict[str, Any] = {}
    code = info
    if isinstance(info, dict) and info:
        code, data = next(iter(info)), {"codexErrorInfo": info}
    if isinstance(more, str) and more:
        data["details"] = more
    named = {"code": code} if isinstance(code, str) else {}
    return named | ({"data": data} if data else {})


def notice(text: str, span: Span, severity: str | None = None) -> Event:
    members = {"text": text, **({"severity": severity} if severity else {})}
    return Event(NOTICE, texts.fit(members, span.size), span)


def retrying(message: str, span: Span) -> Event:
    """A connection that codex itself opens again: no failure."""
    return Event(STATUS, texts.fit({"phase": "working", "label": message}, span.size), span)
