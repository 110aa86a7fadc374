"""Answers of a daemon, as samples that tests vary."""

from typing import Any

from client_daemon import HANDLE, RUN

NOW_MS = 1_795_990_000_000
MINUTE_MS = 60_000

OPTIONS = [
    {"id": "once", "kind": "allow_once", "name": "Allow once"},
    {"id": "ever", "kind": "allow_always", "name": "Allow always"},
    {"id": "nope", "kind": "reject_once", "name": "Reject"},
]
AGENTS = {
    "agents": [
        {
            "name": "demo",
            "title": "Demo",
            "installed": True,
            "path": None,
            "version": "0.1.0",
            "environment": ["DEMO_KEY"],
            "credentials": [],
            "efforts": [],
            "resumes": False,
            "takes_model": False,
        }
    ]
}


def started(permissions: str = "allow", **more: Any) -> dict[str, Any]:
    """What `run.start` returns."""
    return {
        "run": RUN,
        "handle": HANDLE,
        "task": "parser",
        "state": "preparing",
        "worktree": "/state/worktrees/parser",
        "evidence_dir": "/state/runs/" + RUN,
        "effective": {
            "agent": "demo",
            "model": None,
            "effort": None,
            "profile": "edit",
            "permissions": permissions,
            "network": "host",
        },
        "deadlines": {"wall": NOW_MS},
        "base": "0" * 40,
        "continuing": 0,
        "uncommitted_left_out": 0,
        "warnings": [],
        **more,
    }


def summary(**more: Any) -> dict[str, Any]:
    """A row of `run.list`."""
    return {
        "run": RUN,
        "handle": HANDLE,
        "task": "parser",
        "agent": "claude",
        "state": "active",
        "reason": None,
        "outcome": None,
        "stop_reason": None,
        "created_at": NOW_MS,
        "started_at": NOW_MS,
        "ended_at": None,
        "now": "cargo test",
        "tokens": 81_000,
        "cost_usd": 0.42,
        "changes": {"files": 2, "added": 120, "removed": 14},
        "attention": None,
        "labels": {},
        "repo": "app-0",
        "dir": "/src/app",
        "profile": "edit",
        "permissions": "ask",
        "network": "host",
        "model": None,
        "effort": None,
        "last_seq": 3,
        "last_event_at": NOW_MS,
        **more,
    }


def result(**more: Any) -> dict[str, Any]:
    """What `run.result` returns."""
    return {
        "run": RUN,
        "handle": HANDLE,
        "task": "parser",
        "agent": "claude",
        "outcome": "succeeded",
        "stop_reason": "end_turn",
        "started_at": NOW_MS,
        "ended_at": NOW_MS + 252_000,
        "usage": {"total": 81_000},
        "cost": {"usd": 0.42},
        "final_message": "All done.",
        "changed_files": [{"path": "a.py", "status": "modified", "added": 3, "removed": 1}],
        "artifacts": [],
        "worktree": "/state/worktrees/parser",
        "evidence_dir": "/state/runs/" + RUN,
        "warnings": [],
        **more,
    }


def permission(**more: Any) -> dict[str, Any]:
    """A row of `permission.list`."""
    return {
        "run": RUN,
        "handle": HANDLE,
        "task": "parser",
        "agent": "claude",
        "request": "p1",
        "state": "pending",
        "question": "npm i left-pad",
        "tool": {"name": "Bash"},
        "options": OPTIONS,
        "requested_at": NOW_MS,
        "deadline": None,
        **more,
    }
