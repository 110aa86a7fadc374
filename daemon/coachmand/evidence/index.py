"""The SQLite index of ended runs: only what lists and look-ups need.

The files are the truth. Where the index is missing, or of another shape, it is
built again from them. Every call blocks and runs in a worker thread; one
connection, used by one thread at a time.
"""

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from .ids import handle_of
from .rundir import RunDirectory

SCHEMA_VERSION = 2
SCHEMA = """
CREATE TABLE runs (
  run TEXT PRIMARY KEY, handle TEXT NOT NULL, task TEXT NOT NULL, repo TEXT NOT NULL,
  agent TEXT NOT NULL, outcome TEXT NOT NULL, created_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  summary BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_handle ON runs (handle);
CREATE INDEX runs_by_task ON runs (task, created_at);
CREATE INDEX runs_by_repo ON runs (repo, created_at);
CREATE INDEX runs_by_end ON runs (ended_at);
"""
Summary = dict[str, Any]


class Index:
    """Summaries of ended runs, newest first."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        self.is_new = version != SCHEMA_VERSION
        if self.is_new:
            self._create()

    def _create(self) -> None:
        self._db.execute("DROP TABLE IF EXISTS runs")
        self._db.executescript(SCHEMA)
        self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def close(self) -> None:
        self._db.close()

    def put(self, summaries: Iterable[Summary]) -> None:
        """Insert or replace what is known of ended runs."""
        rows = [
            (
                s["run"],
                handle_of(s["run"]),
                s["task"],
                s["repo"],
                s["agent"],
                s["outcome"],
                s["created_at"],
                s["ended_at"],
                msgspec.json.encode(s),
            )
            for s in summaries
        ]
        # The connection's own block commits, or rolls back where the disk refuses.
        with self._lock, self._db:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?)", rows)

    def page(
        self,
        *,
        before: str | None = None,
        ended_since_ms: int | None = None,
        equal: dict[str, str] | None = None,
        outcomes: Iterable[str] = (),
        limit: int = 100,
    ) -> list[Summary]:
        """Summaries by run id, newest first, older than ``before``."""
        where, values = ["1"], list[Any]()
        for column, value in (equal or {}).items():
            where.append(f"{column} = ?")
            values.append(value)
        if before is not None:
            where.append("run < ?")
            values.append(before)
        if ended_since_ms is not None:
            where.append("ended_at >= ?")
            values.append(ended_since_ms)
        if wanted := list(outcomes):
            where.append(f"outcome IN ({','.join('?' * len(wanted))})")
            values += wanted
        query = f"SELECT summary FROM runs WHERE {' AND '.join(where)} ORDER BY run DESC LIMIT ?"  # noqa: S608
        return self._summaries(query, [*values, limit])

    def count(self, ended_before_ms: int) -> int:
        """How many runs ended before that moment."""
        query = "SELECT count(*) FROM runs WHERE ended_at < ?"
        with self._lock:
            return int(self._db.execute(query, [ended_before_ms]).fetchone()[0])

    def newest(self, column: str, value: str) -> list[Summary]:
        """The newest run of a task or repository (``column``), if it has any.

        Ids of one second are in no order: only the time of creation tells.
        """
        query = f"SELECT summary FROM runs WHERE {column} = ? ORDER BY created_at DESC LIMIT 8"  # noqa: S608
        return self._summaries(query, [value])

    def find(self, reference: str) -> list[Summary]:
        """Runs whose id or handle begins with ``reference``."""
        end = reference + "\U0010ffff"
        query = (
            "SELECT summary FROM runs WHERE (run >= ? AND run < ?) OR (handle >= ? AND handle < ?)"
            " ORDER BY run DESC LIMIT 20"
        )
        return self._summaries(query, [reference, end, reference, end])

    def get(self, run: str) -> Summary | None:
        """One run's summary."""
        found = self._summaries("SELECT summary FROM runs WHERE run = ?", [run])
        return found[0] if found else None

    def _summaries(self, query: str, values: list[Any]) -> list[Summary]:
        with self._lock:
            rows = self._db.execute(query, values).fetchall()
        return [msgspec.json.decode(row[0]) for row in rows]

    def rebuild(self, runs: Path) -> int:
        """Fill the index from the results on disk; returns how many there were."""
        found = [
            result["summary"]
            for path in runs.iterdir()
            if not path.name.startswith(".")
            and (result := _result_of(path)) is not None
            and "summary" in result
        ]
        self.put(found)
        return len(found)


def _result_of(path: Path) -> dict[str, Any] | None:
    try:
        return RunDirectory(path).read_result()
    except (OSError, ValueError, msgspec.DecodeError):
        return None
