"""What Claude Code says about itself: retries, limits, compaction, modes."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.conversation import Event, Span

# Of these nothing is lost: the tools' own calls, results and the turn's end tell it.
QUIET = frozenset(
    {
        "background_tasks_changed",
        "files_persisted",
        "hook_progress",
        "hook_response",
        "hook_started",
        "task_notification",
        "task_progress",
        "task_started",
        "task_updated",
        "thinking_tokens",
    }
)
Told = tuple[str, dict[str, Any]] | None


def system(frame: Mapping[str, Any], span: Span) -> list[Event]:
    """A system message other than init."""
    subtype = str(frame.get("subtype"))
    if subtype in QUIET:
        return []
    reader = _READERS.get(subtype)
    if reader is None:
        return [unknown(frame, span)]
    told = reader(frame)
    return [Event(told[0], texts.fit(told[1], span.size), span)] if told else []


def unknown(raw: Mapping[str, Any], span: Span) -> Event:
    """Something this version does not know, kept as it came."""
    return Event(events.UNKNOWN, texts.fit({"raw": dict(raw)}, span.size), span)


def limit(info: Mapping[str, Any], span: Span) -> list[Event]:
    """A usage limit that is near or reached; None is told of one that is far."""
    if info.get("status") in (None, "allowed"):
        return []
    kind = str(info.get("rateLimitType") or "usage").replace("_", " ")
    resets = until(info.get("resetsAt"))
    text = f"{kind} limit: {info['status']}" + (f", resets at {resets}" if resets else "")
    return [Event(events.NOTICE, texts.fit({"text": text, "severity": "warning"}, span.size), span)]


def until(seconds: Any) -> str | None:
    """A moment that is told in seconds of the epoch; None for what is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return None


def _status(frame: Mapping[str, Any]) -> Told:
    if isinstance(frame.get("permissionMode"), str):
        return events.NOTICE, {"text": f"mode: {frame['permissionMode']}"}
    if frame.get("status") == "compacting":
        return events.STATUS, {"phase": "working", "label": "compacting the context"}
    # It says before each request that it makes one.
    return None


def _retry(frame: Mapping[str, Any]) -> Told:
    why, status = frame.get("error"), frame.get("error_status")
    reason = f"{why} ({status})" if status else str(why)
    attempt = f"attempt {frame.get('attempt')} of {frame.get('max_retries')}"
    return events.STATUS, {"phase": "waiting", "label": f"{reason}: retrying, {attempt}"}


def _compacted(frame: Mapping[str, Any]) -> Told:
    data = frame.get("compact_metadata")
    data = data if isinstance(data, dict) else {}
    before = f", {data['pre_tokens']} tokens before" if "pre_tokens" in data else ""
    return events.NOTICE, {"text": f"the context was compacted ({data.get('trigger')}{before})"}


def _informational(frame: Mapping[str, Any]) -> Told:
    text, level = frame.get("content"), frame.get("level")
    if not isinstance(text, str) or not text:
        return None
    return events.NOTICE, {"text": text} | ({"severity": level} if isinstance(level, str) else {})


_READERS: dict[str, Callable[[Mapping[str, Any]], Told]] = {
    "status": _status,
    "api_retry": _retry,
    "compact_boundary": _compacted,
    "informational": _informational,
    "model_refusal_fallback": _informational,
    "model_refusal_no_fallback": _informational,
}
