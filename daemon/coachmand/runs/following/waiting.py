"""Waiting for runs: until they have ended, need someone, or are through with a turn."""

from typing import Any

import trio

from coachman.wire import EXIT_LOST, exit_of_result

from ...evidence.rundir import RunDirectory
from ..facts.clock import epoch_ms
from ..reading.attention import attention_of, next_of
from ..reading.summary import summary_of
from ..reading.view import View
from ..supervisor import Supervisor

Row = dict[str, Any]
_SUMMARY = ("run", "handle", "task", "state", "outcome", "stop_reason", "error", "now", "changes")


async def wait(
    supervisor: Supervisor,
    runs: list[str],
    until: str,
    *,
    any_of: bool,
    timeout_s: float | None,
    idle: bool = False,
) -> tuple[str, list[Row]]:
    """What was met (ended, attention, turn, idle, timeout), and a row for each of ``runs``.

    ``until`` attention and turn are met by the end as well. Without ``any_of`` all must meet it.
    A turn is one that ends from now on, unless the run is through with all that it was asked.
    ``idle`` is met when nothing will happen by itself in what has not ended.
    """
    ended = {name: run.view.turn_ended for name, run in supervisor.runs.items() if name in runs}
    deadline = float("inf") if timeout_s is None else trio.current_time() + timeout_s
    enough = any if any_of else all
    while True:
        seen = supervisor.changes
        rows = [await _row(supervisor, run, until, ended.get(run, 0)) for run in runs]
        if enough(row["met"] for row in rows):
            met = {row["met"] for row in rows if row["met"]}
            return "attention" if "attention" in met else next(iter(met), "ended"), rows
        if idle and all(row["met"] or _is_idle(supervisor, row["run"]) for row in rows):
            return "idle", rows
        with trio.move_on_at(deadline) as scope:
            await supervisor.wait_for_change(seen)
        if scope.cancelled_caught:
            return "timeout", rows


async def _row(supervisor: Supervisor, run: str, until: str, turn_before: int) -> Row:
    living = supervisor.runs.get(run)
    if living is None:
        directory = RunDirectory(supervisor.services.state.run(run))
        result = await trio.to_thread.run_sync(directory.read_result)
        return _ended(result) if result is not None else _unknown(run)
    summary, view = summary_of(living.fixed, living.view), living.view
    attention = attention_of(view)
    met = None
    if until == "attention" and attention is not None:
        met = "attention"
    elif until == "turn" and _is_through(living.fixed.keep, view, turn_before):
        met = "turn"
    return {
        **{key: summary[key] for key in _SUMMARY},
        "met": met,
        "turn": view.turn,
        # Of the turn that was waited for, though the next one may have begun.
        "turn_stop_reason": view.turn_stop_reason if view.turn_over or met == "turn" else None,
        "attention": attention,
        "seconds_since_event": max(0, epoch_ms() - view.last_ms) / 1000,
        "usage": view.usage,
        "next": _next_of(living.fixed.handle, attention, view),
    }


def _ended(result: Row) -> Row:
    keys = ("run", "handle", "task", "outcome", "stop_reason", "error", "usage", "changes")
    handle = result["handle"]
    return {
        **{key: result.get(key) for key in keys},
        "state": "ended",
        "met": "ended",
        "attention": None,
        "now": None,
        "seconds_since_event": None,
        "exit_code": exit_of_result(result["outcome"], result["stop_reason"]),
        "next": [["coachman", "result", handle], ["coachman", "diff", handle]],
    }


def _unknown(run: str) -> Row:
    """A run whose files cannot be read: waiting for it is over, and nobody can say how it ended."""
    found = {"state": "unknown", "met": "ended", "outcome": "lost", "stop_reason": "unreadable"}
    error = {"message": "this run's files cannot be read; the daemon's log says why"}
    names = (*_SUMMARY, "attention", "seconds_since_event", "usage")
    known = {"run": run, "handle": run[-5:], **found, "error": error, "exit_code": EXIT_LOST}
    return {**dict.fromkeys(names), **known, "next": [["coachman", "daemon", "logs"]]}


def _is_through(keep: bool, view: View, turn_before: int) -> bool:
    """Whether a turn ended since ``turn_before`` did, or nothing is left to wait for."""
    if view.again is not None:
        return False
    if not keep:
        return view.turn_over
    return view.turn_ended > turn_before or (view.state == "parked" and not view.queue)


def _is_idle(supervisor: Supervisor, run: str) -> bool:
    """Whether a run is parked and has nothing to do."""
    living = supervisor.runs.get(run)
    return living is not None and living.view.state == "parked" and not living.view.queue


def _next_of(handle: str, attention: Row | None, view: View) -> list[list[str]]:
    if attention is None:
        return [["coachman", "close", handle]] if view.state == "parked" else []
    return next_of(handle, attention)
