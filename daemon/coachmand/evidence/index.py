"""The SQLite index of ended runs: only what lists and look-ups need.

The files are the truth. Where the index is missing, or of another shape, it is
built again from them. Every call blocks and runs in a worker thread; one
connection, used by one thread at a time.
"""

import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from attrs import frozen

from .ids import handle_of
from .rundir import RunDirectory
from .state import StateDirectory

SCHEMA_VERSION = 6
SCHEMA = """
CREATE TABLE runs (
  run TEXT PRIMARY KEY, handle TEXT NOT NULL, task TEXT NOT NULL, repo TEXT NOT NULL,
  agent TEXT NOT NULL, outcome TEXT NOT NULL, created_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL, log_bytes INTEGER NOT NULL, cleaned INTEGER NOT NULL,
  first_g INTEGER NOT NULL, last_g INTEGER NOT NULL, root TEXT NOT NULL, summary BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_handle ON runs (handle);
CREATE INDEX runs_by_task ON runs (task, created_at);
CREATE INDEX runs_by_repo ON runs (repo, created_at);
CREATE INDEX runs_by_end ON runs (ended_at);
CREATE INDEX runs_in_order ON runs (first_g, run, last_g);
CREATE INDEX runs_by_last ON runs (last_g);
CREATE INDEX runs_by_root ON runs (root, run);
CREATE INDEX runs_to_clean ON runs (repo, task, run, outcome, ended_at, log_bytes)
  WHERE cleaned = 0;
"""
INSERT = "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
# So many are sorted in no time.
FEW_RUNS = 500
Summary = dict[str, Any]
Row = tuple[Any, ...]


@frozen
class Leftover:
    """A run that ended and of which something can go; ``log_bytes`` is what its raw logs take."""

    repo: str
    task: str
    run: str
    outcome: str
    ended_at: int
    log_bytes: int


@frozen
class Rebuilt:
    """How many runs were found, and by name those with something that cannot be read, and why."""

    runs: int
    unreadable: Mapping[str, str]


class Index:
    """Summaries of ended runs, newest first."""

    def __init__(self, path: Path) -> None:
        """Open the index, or begin an empty one where it is missing, old or damaged."""
        self._path = path
        self._lock = threading.Lock()
        self._total: int | None = None
        self._db = self._connect()
        try:
            self.is_new = self._prepare()
        except sqlite3.DatabaseError:
            self._begin_anew()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)

    def _prepare(self) -> bool:
        """Make the database ready; whether it holds nothing yet. Raises `sqlite3.DatabaseError`."""
        self._path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        if self._db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
            found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            return False
        self._db.execute("DROP TABLE IF EXISTS runs")
        self._db.executescript(SCHEMA)
        self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        return True

    def _begin_anew(self) -> None:
        """Nothing in it is lost that the runs' directories do not tell."""
        self._db.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._db = self._connect()
        self.is_new = self._prepare()

    def close(self) -> None:
        self._db.close()

    def put(self, summaries: Iterable[Summary]) -> None:
        """Insert or replace what is known of ended runs."""
        rows = [_row(summary) for summary in summaries]
        with self._lock:
            self._insert(rows)

    def _insert(self, rows: Sequence[Row]) -> None:
        self._total = None
        # The connection's own block commits, or rolls back where the disk refuses.
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(INSERT, rows)

    def leftovers(self, ended_before_ms: int | None = None) -> list[Leftover]:
        """The runs of which something can go, by repository and task, oldest first."""
        query = (
            "SELECT repo, task, run, outcome, ended_at, log_bytes FROM runs"
            " WHERE cleaned = 0 AND ended_at < ? ORDER BY repo, task, run"
        )
        with self._lock:
            rows = self._db.execute(query, [ended_before_ms or 1 << 62]).fetchall()
        return [Leftover(*row) for row in rows]

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
        source = "runs"
        if not equal and ended_since_ms is not None and self._are_few(ended_since_ms, limit):
            # Newest first, all others would be looked at behind the last of these.
            source = "runs INDEXED BY runs_by_end"
        chosen = " AND ".join(where)
        query = f"SELECT summary FROM {source} WHERE {chosen} ORDER BY run DESC LIMIT ?"  # noqa: S608
        return self._summaries(query, [*values, limit])

    def _are_few(self, ended_since_ms: int, limit: int) -> bool:
        query = "SELECT count(*) FROM (SELECT 1 FROM runs WHERE ended_at >= ? LIMIT ?)"
        most = max(limit, FEW_RUNS)
        with self._lock:
            return self._number(query, ended_since_ms, most) < most

    def in_order(
        self,
        behind: tuple[int, str],
        last_behind: int,
        equal: Mapping[str, str],
        runs: Sequence[str],
        limit: int,
    ) -> list[tuple[int, Summary]]:
        """Runs in the order of their first events, with the places of these (0: it has none).

        Only those ``behind`` a place and a run whose last event is ``last_behind`` or later.
        """
        where = ["(first_g, run) > (?, ?)", "last_g > ?"]
        values: list[Any] = [*behind, last_behind]
        where += [f"{column} = ?" for column in equal]
        values += equal.values()
        if runs:
            where.append(f"run IN ({','.join('?' * len(runs))})")
            values += runs
        query = (
            f"SELECT first_g, summary FROM runs WHERE {' AND '.join(where)}"  # noqa: S608
            " ORDER BY first_g, run LIMIT ?"
        )
        with self._lock:
            rows = self._db.execute(query, [*values, limit]).fetchall()
        return [(first_g, msgspec.json.decode(summary)) for first_g, summary in rows]

    def last_g(self) -> int:
        """The greatest place that an event of an ended run has."""
        with self._lock:
            return self._number("SELECT coalesce(max(last_g), 0) FROM runs")

    def count(self, ended_before_ms: int) -> int:
        """How many runs ended before that moment."""
        with self._lock:
            if self._total is None:
                self._total = self._number("SELECT count(*) FROM runs")
            # Those of late are few, and all of them are counted once after each change.
            recent = self._number("SELECT count(*) FROM runs WHERE ended_at >= ?", ended_before_ms)
            return self._total - recent

    def _number(self, query: str, *values: int) -> int:
        return int(self._db.execute(query, values).fetchone()[0])

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

    def family(self, root: str) -> list[Summary]:
        """The ended runs that came from ``root``, itself included, newest first."""
        query = "SELECT summary FROM runs WHERE root = ? ORDER BY run DESC"
        return self._summaries(query, [root])

    def get(self, run: str) -> Summary | None:
        """One run's summary."""
        found = self._summaries("SELECT summary FROM runs WHERE run = ?", [run])
        return found[0] if found else None

    def _summaries(self, query: str, values: list[Any]) -> list[Summary]:
        with self._lock:
            rows = self._db.execute(query, values).fetchall()
        return [msgspec.json.decode(row[0]) for row in rows]

    def rebuild(self, state: StateDirectory) -> Rebuilt:
        """Make the index anew from the results on disk; lists wait for the moment of the change.

        A run without a result that is marked as living has no place here.
        """
        rows, unreadable = _read_all(state, _names(state.runs))
        with self._lock:
            self._begin_anew()
            self._insert(rows)
        # Those that ended since they were listed.
        known = {row[0] for row in rows} | set(unreadable)
        more, _ = _read_all(state, _names(state.runs) - known)
        with self._lock:
            self._insert(more)
        return Rebuilt(len(rows) + len(more), unreadable)


def _row(summary: Summary) -> Row:
    return (
        summary["run"],
        handle_of(summary["run"]),
        summary["task"],
        summary["repo"],
        summary["agent"],
        summary["outcome"],
        summary["created_at"],
        summary["ended_at"],
        summary.get("log_bytes") or 0,
        bool(summary.get("cleaned")),
        summary.get("first_g") or 0,
        summary.get("last_g") or 0,
        next(iter(summary.get("ancestors") or ()), summary["run"]),
        msgspec.json.encode(summary),
    )


def _names(runs: Path) -> set[str]:
    return {name for name in os.listdir(runs) if not name.startswith(".")}


def _read_all(state: StateDirectory, names: Iterable[str]) -> tuple[list[Row], dict[str, str]]:
    rows: list[Row] = []
    unreadable: dict[str, str] = {}
    for name in sorted(names):
        directory = RunDirectory(state.run(name))
        try:
            result = directory.read_result()
            if result is not None:
                rows.append(_row(result["summary"]))
            elif not (state.live / name).exists():
                unreadable[name] = "it has no result, and no mark that it lives"
        except KeyError as error:
            unreadable[name] = f"its result lacks {error.args[0]}"
        except (OSError, ValueError, TypeError, AttributeError, msgspec.DecodeError) as error:
            unreadable[name] = f"its result cannot be read: {error}"
        else:
            if not directory.journal.is_file():
                unreadable.setdefault(name, "its journal is missing")
    return rows, unreadable
