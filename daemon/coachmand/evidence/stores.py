"""Reads one session out of the SQLite database in which an agent of the user's keeps all of them.

The agent may be using it: it is read in one transaction, and nothing of it is changed.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from .seeds import MAX_BYTES

BUSY_LIMIT_S = 5.0
Rows = dict[str, list[dict[str, Any]]]


class StoreError(Exception):
    """It cannot be read, or is too long; the text says why."""


def read_rows(path: str, queries: Mapping[str, str], session: str) -> Rows:
    """What each of ``queries`` finds of ``session``; no rows where there is no database. Blocks.

    Raises StoreError.
    """
    if not Path(path).is_file():
        return {name: [] for name in queries}
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_LIMIT_S)) as store:
            store.row_factory = sqlite3.Row
            store.execute("BEGIN")
            left = MAX_BYTES
            found: Rows = {}
            for name, query in queries.items():
                found[name] = []
                for row in store.execute(query, {"session": session}):
                    left -= sum(
                        len(value) for value in tuple(row) if isinstance(value, str | bytes)
                    )
                    if left < 0:
                        raise StoreError(f"the session has more than {MAX_BYTES >> 20} MiB")
                    found[name].append(dict(row))
            return found
    except sqlite3.Error as error:
        raise StoreError(str(error)) from error
