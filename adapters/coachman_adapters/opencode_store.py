"""Sessions in opencode's database, as the document that ``opencode import`` takes in."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coachman_adapters.conversation import Row, SessionStore, UserFiles

# What the user allowed or shared by hand is not the run's.
_COPIED = ("id", "slug", "directory", "path", "title", "version", "agent", "cost")
_STRUCTURED = ("model", "revert")
_TOKENS = ("input", "output", "reasoning")
PLACE = "opencode/adopted/{session}.json"
# It is taken in once: what the run adds is in the private home's own database.
TAKE_IN = """\
f="$HOME/.local/share/opencode/adopted/$1.json"
if [ -f "$f" ] && [ ! -e "$f.in" ]; then "$0" import "$f" >&2 && : >"$f.in"; fi
exec "$0" acp"""


def document(rows: Mapping[str, Sequence[Row]]) -> bytes:
    """The session with its messages and their parts, in their order."""
    [session] = rows["session"]
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows["part"]:
        part = _data(row) | {"messageID": row["message_id"], "sessionID": session["id"]}
        parts.setdefault(row["message_id"], []).append(part)
    messages = [
        {
            "info": _data(row) | {"sessionID": session["id"]},
            "parts": parts.get(row["id"], []),
        }
        for row in rows["message"]
    ]
    return json.dumps({"info": _info(session), "messages": messages}).encode()


def _info(row: Row) -> dict[str, Any]:
    copied: dict[str, Any] = {name: row[name] for name in _COPIED if row.get(name) is not None}
    decoded = {name: json.loads(row[name]) for name in _STRUCTURED if row.get(name)}
    tokens: dict[str, Any] = {name: row.get(f"tokens_{name}") or 0 for name in _TOKENS}
    cache = {name: row.get(f"tokens_cache_{name}") or 0 for name in ("read", "write")}
    time = {name: row[f"time_{name}"] for name in ("created", "updated")}
    counted = {"tokens": {**tokens, "cache": cache}, "time": time}
    return {**copied, **decoded, "projectID": row["project_id"], **counted}


def _data(row: Row) -> dict[str, Any]:
    found = json.loads(row["data"])
    if not isinstance(found, dict):
        raise ValueError(f"{row['id']} is no object")
    return {**found, "id": row["id"]}


def sessions(below: UserFiles) -> SessionStore:
    """Where the user's own are."""
    return SessionStore(
        below,
        "opencode/opencode.db",
        {
            "session": "SELECT * FROM session WHERE id = :session",
            "message": "SELECT * FROM message WHERE session_id = :session"
            " ORDER BY time_created, id",
            "part": "SELECT * FROM part WHERE session_id = :session ORDER BY id",
        },
        document,
        PLACE,
    )
