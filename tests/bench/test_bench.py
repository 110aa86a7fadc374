"""The bench measures what it is asked for and judges nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import sourcetree

RUN = Path(__file__).with_name("run.py")


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join(str(package.parent) for package in sourcetree.PACKAGES.values())
    return subprocess.run(
        [sys.executable, str(RUN), *arguments],
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_row_is_listed_with_what_it_measures() -> None:
    """``--list`` names each row beside one line about it."""
    done = bench("--list")
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())

    assert done.returncode == 0, done.stderr
    assert {"run", "ping", "journal", "fanout", "memory", "restart", "worktree"} <= set(rows)
    assert all(summary.endswith(".") for summary in rows.values())


def test_a_figure_stands_beside_one_of_the_same_run(tmp_path: Path) -> None:
    """A row yields its figures as a table and as JSON, each a ratio; nothing is left behind."""
    found = tmp_path / "found.json"
    place = tmp_path / "place"
    place.mkdir()
    done = bench("journal", "--quick", "--json", str(found), "--dir", str(place))
    figures = json.loads(found.read_bytes())["rows"]["journal"]

    assert done.returncode == 0, done.stderr
    assert "buffered write" in done.stdout
    assert all(f["ratio"] == f["value"] / f["beside_value"] for f in figures)
    assert list(place.iterdir()) == []


def test_an_unknown_row_is_refused_by_name() -> None:
    """A name that no row has is refused with the names there are."""
    done = bench("journals")

    assert done.returncode == 2
    assert "no row is named journals; there are" in done.stderr
