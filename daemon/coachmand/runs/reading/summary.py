"""A run in one row: what lists show and what the index keeps."""

from typing import Any

from ..facts.record import Record
from .attention import attention_of
from .view import View

HELD = "held: the disk is full"


def summary_of(record: Record, view: View, held_until_ms: int | None = None) -> dict[str, Any]:
    """The summary of a run as the wire carries it.

    ``held_until_ms``: its provider's limit, which another run met, keeps it in the queue.
    """
    return {
        "run": record.run,
        "handle": record.handle,
        "task": record.task,
        "repo": record.repository.key,
        "agent": record.agent,
        "parent": record.parent,
        "ancestors": list(record.ancestors),
        "state": view.state if view.outcome is None else "ended",
        "reason": view.reason,
        "outcome": view.outcome,
        "stop_reason": view.stop_reason,
        "error": view.error,
        "created_at": record.created_ms,
        "started_at": view.started_ms,
        "ended_at": view.ended_ms,
        "now": HELD if view.reason == "storage" else view.now,
        "tokens": (view.usage or {}).get("total"),
        "cost_usd": view.cost["usd"] if view.cost else view.cost_usd,
        "changes": view.changes,
        "attention": attention_of(view),
        "resumes_at": view.again["epoch_ms"] if view.goes_on and view.again else None,
        "held_until": held_until_ms,
        "keep": record.keep,
        "turn": view.turn,
        "turn_stop_reason": view.turn_stop_reason if view.turn_over else None,
        # The first one is no more than the run itself.
        "queued_prompts": sum(queued.number > 1 for queued in view.queue),
        "labels": dict(record.labels),
        "title": record.title,
        "dir": record.dir,
        "profile": record.profile,
        "permissions": record.permissions,
        "network": record.network,
        "model": record.model,
        "effort": record.effort,
        "last_seq": view.seq,
        "first_g": view.first_g,
        "last_g": view.last_g,
        "last_event_at": view.last_ms,
    }
