"""What codex writes down of a thread, read after it left: the model, and every token.

``codex exec`` names no model, counts nothing of a turn that failed or was cut off, and its
record of a resumed thread counts the past as well.
"""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import jsonlines, texts
from coachman_adapters.codex import tokens
from coachman_adapters.conversation import Usage

# "$1" is the thread. The last line of each kind, whichever of them there are.
SCRIPT = (
    'set -- "${CODEX_HOME:-$HOME/.codex}"/sessions/*/*/*/rollout-*"$1".jsonl; '
    "for kind in thread_settings_applied token_count; do "
    'grep -h "\\"payload\\":{\\"type\\":\\"$kind\\"" "$@" | tail -n 1; done'
)
EPILOGUE = ("/bin/sh", "-c", SCRIPT, "codex-rollout", "{session}")


def usage(output: bytes | None, before: Mapping[str, int] | None) -> Usage | None:
    """The run's usage out of the epilogue's output; None where that tells nothing.

    ``before`` is what the thread had counted when the run began.
    """
    told = _payloads(output or b"")
    total = _member(_member(told.get("token_count"), "info"), "total_token_usage")
    if total is None or before is None:
        return None
    settings = _member(told.get("thread_settings_applied"), "thread_settings") or {}
    counted = tokens.session_counters(total)
    return Usage(
        tokens.since(before, counted),
        model=_name(settings.get("model")),
        provider=_name(settings.get("model_provider_id")),
        session_counters=counted,
    )


def _payloads(output: bytes) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line in output.splitlines():
        payload = _member(jsonlines.decode(line), "payload")
        if payload is not None:
            found[str(payload.get("type"))] = payload
    return found


def _member(value: Any, name: str) -> dict[str, Any] | None:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else None


def _name(value: Any) -> str | None:
    return value if texts.is_id(value) and value else None
