"""Pages of the index of ended runs, whichever of its ways to them it takes."""

from pathlib import Path
from typing import Any

import pytest

from coachmand.evidence.index import FEW_RUNS, Index
from coachmand.runs.facts.clock import Moment
from coachmand.runs.facts.record import Record, Repository
from coachmand.runs.reading.summary import summary_of
from coachmand.runs.reading.view import View

RUNS = FEW_RUNS + 200


def summary(number: int) -> dict[str, Any]:
    """A run that ended at ``number`` ms, of which each tenth failed; ids are in another order."""
    name = f"260101-000000-{(number * 7919) % 100_000:05}"
    record = Record(
        name, number, "demo", "demo", "t1", "/d", "/w", Repository("r", "", "", "", ""),
        Moment("b", 0.0, 0), 1.0, 1.0,
    )  # fmt: skip
    outcome = "failed" if number % 10 == 0 else "succeeded"
    members = {"outcome": outcome, "ended_at": number, "bytes": 0, "log_bytes": 0}
    return {**summary_of(record, View()), **members, "cleaned": False}


@pytest.mark.parametrize("since", [0, 100, RUNS - 50, RUNS])
@pytest.mark.parametrize("outcomes", [(), ("failed",)])
def test_pages_since_a_moment_are_complete(
    tmp_path: Path, since: int, outcomes: tuple[str, ...]
) -> None:
    """Few or many that ended since: newest first, none left out, none twice."""
    rows = [summary(number) for number in range(RUNS)]
    index = Index(tmp_path / "index.db")
    index.put(rows)
    found: list[str] = []
    before = None
    while page := index.page(before=before, ended_since_ms=since, outcomes=outcomes, limit=40):
        found += [row["run"] for row in page]
        before = page[-1]["run"]
    index.close()
    wanted = [
        row["run"]
        for row in rows
        if row["ended_at"] >= since and (not outcomes or row["outcome"] in outcomes)
    ]

    assert found == sorted(wanted, reverse=True)
