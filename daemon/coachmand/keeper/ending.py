"""How a run of the sandbox ended: the content of exit.json."""

from __future__ import annotations

import os
import signal

from . import PROTOCOL_VERSION
from .system import boottime_s, epoch_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .keeper import Keeper

DEADLY_SIGNALS = frozenset({signal.SIGTERM, signal.SIGKILL})


def not_started(text: str) -> dict[str, Any]:
    """The record of a sandbox that could not even be spawned."""
    return {
        "version": PROTOCOL_VERSION,
        "exit_code": None,
        "signal": None,
        "ended_by": "keeper",
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "stdin_bytes": 0,
        "ended_at_ms": epoch_ms(),
        "tree_empty": True,
        "error": text,
    }


def exit_record(keeper: Keeper) -> dict[str, Any]:
    """The record of a sandbox that is empty now."""
    code, number = keeper.sandbox.exit_code, signal_number(keeper)
    record = {
        "version": PROTOCOL_VERSION,
        "exit_code": code,
        "signal": number,
        "ended_by": ended_by(keeper, number),
        "stdout_bytes": keeper.outputs.stdout.size,
        "stderr_bytes": keeper.outputs.stderr.size,
        "stdin_bytes": keeper.stdin.taken,
        "started_boottime_s": keeper.started_s,
        "ended_boottime_s": boottime_s(),
        "ended_at_ms": epoch_ms(),
        "tree_empty": True,
    }
    if keeper.sync_error is not None:
        record["storage_error"] = keeper.sync_error
    if code is None and number is None:
        record["error"] = _spawn_error(keeper)
    return record


def signal_number(keeper: Keeper) -> int | None:
    """The signal that the agent died of, or else bubblewrap itself."""
    code, status = keeper.sandbox.exit_code, keeper.sandbox.wait_status
    if code is not None:
        return code - 128 if 128 < code < 128 + signal.NSIG else None
    return os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None


def ended_by(keeper: Keeper, number: int | None) -> str:
    if keeper.cause is not None:
        return keeper.cause
    if keeper.signals_sent & DEADLY_SIGNALS or number in keeper.signals_sent:
        return "signal"
    return "agent"


def _spawn_error(keeper: Keeper) -> str:
    text = keeper.outputs.stderr.tail().decode("utf-8", "replace").strip()
    for secret in filter(None, keeper.mask):
        text = text.replace(secret, "***")
    return f"cannot start the sandbox: {text or 'bwrap gave no reason'}"
