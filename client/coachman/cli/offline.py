"""Runs as the state directory's files tell them, for when no daemon answers."""

import json
import os
import sys
import time

from ..paths import state_dir
from ..wire import LIST_ROWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RECENT_S = 12 * 3600
_HANDLE_CHARACTERS = 5
# The members of a summary: what only a daemon knows stays None.
_MEMBERS = (
    "task",
    "agent",
    "reason",
    "outcome",
    "stop_reason",
    "error",
    "created_at",
    "started_at",
    "ended_at",
    "now",
    "tokens",
    "cost_usd",
    "changes",
    "attention",
    "labels",
    "title",
    "dir",
    "profile",
    "permissions",
    "network",
    "model",
    "effort",
)


def read_page(env: "Mapping[str, str]", filters: "Mapping[str, Any]") -> "dict[str, Any]":
    """A page like `run.list` gives; filters other than attention apply."""
    state = state_dir(env)
    living = set(_names(state, "live"))
    limit = filters.get("limit") or (sys.maxsize if filters.get("all") else LIST_ROWS)
    rows: list[dict[str, Any]] = []
    older = 0
    for run in sorted(_names(state, "runs"), reverse=True):
        recent = run in living or filters.get("all") or _is_recent(state, run)
        if not recent or len(rows) >= limit:
            older += 1
        elif (row := _row(state, run, run in living)) is not None and _passes(row, filters):
            rows.append(row)
    return {"runs": rows, "older": older}


def result_of(env: "Mapping[str, str]", run: str) -> "dict[str, Any] | None":
    """How a run ended; None as long as nothing is written of that."""
    return _read(os.path.join(state_dir(env), "runs", run), "result.json")


def chosen_runs(env: "Mapping[str, str]", facts: "Mapping[str, Any]") -> list[str]:
    """The runs, oldest first, that have these facts: labels, task, agent, here (a directory)."""
    rows = read_page(env, {**facts, "all": True})["runs"]
    labels, here = facts.get("labels") or {}, facts.get("here")
    found = [
        str(row["run"])
        for row in rows
        if all((row.get("labels") or {}).get(key) == value for key, value in labels.items())
        and (here is None or is_near(row.get("dir"), here))
    ]
    return found[::-1]


def is_near(path: object, directory: "str | None") -> bool:
    """Without git, a repository is where a run began, or what lies around or within that."""
    there = os.path.realpath(str(path or "/nowhere"))
    here = os.path.realpath(directory or ".")
    return os.path.commonpath([there, here]) in (there, here)


def _names(state: str, kind: str) -> list[str]:
    try:
        return [name for name in os.listdir(os.path.join(state, kind)) if name[0] != "."]
    except OSError:
        return []


def _is_recent(state: str, run: str) -> bool:
    try:
        touched = os.stat(os.path.join(state, "runs", run)).st_mtime
    except OSError:
        return False
    return time.time() - touched < RECENT_S


def _row(state: str, run: str, living: bool) -> "dict[str, Any] | None":
    directory = os.path.join(state, "runs", run)
    request = _read(directory, "request.json")
    if request is None:
        return None
    result = _read(directory, "result.json") or {}
    summary = result.get("summary")
    known = {
        "created_at": request.get("created_ms"),
        **request,
        **result,
        **(summary if isinstance(summary, dict) else {}),
    }
    return {
        "run": run,
        "handle": run[-_HANDLE_CHARACTERS:],
        "state": "ended" if result else "unknown" if living else "lost",
        **{name: known.get(name) for name in _MEMBERS},
    }


def _read(directory: str, name: str) -> "dict[str, Any] | None":
    try:
        with open(os.path.join(directory, name), "rb") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _passes(row: "Mapping[str, Any]", filters: "Mapping[str, Any]") -> bool:
    equal = all(
        filters.get(name) is None or row.get(name) == filters[name] for name in ("task", "agent")
    )
    among = all(
        filters.get(name) is None or row.get(name) in filters[name] for name in ("state", "outcome")
    )
    labels, since = filters.get("labels") or {}, filters.get("since")
    labelled = all((row.get("labels") or {}).get(key) == value for key, value in labels.items())
    return equal and among and labelled and (since is None or (row.get("created_at") or 0) >= since)
