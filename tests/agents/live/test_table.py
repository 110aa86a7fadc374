"""The table in docs/agents.md has the rows, columns and reasons that the kit has."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents_parts import PARTS
from live_cannot import CANNOT
from live_cells import PASSES, RESULTS, SCENARIOS, Cells
from sourcetree import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import agent_table


def rows(text: str) -> list[list[str]]:
    """The cells of each line of the table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def committed() -> str:
    """What stands between the markers."""
    _, _, rest = agent_table.DOCUMENT.read_text().partition(agent_table.BEGIN)
    return rest.partition(agent_table.END)[0]


def test_the_committed_table_is_about_every_part_and_scenario() -> None:
    """No part and no scenario is missing, and no cell failed."""
    heads, _, *lines = rows(committed())
    cells = {line[0]: dict(zip(heads[1:], line[1:], strict=True)) for line in lines}

    assert [head.split("`")[1] for head in heads[1:]] == sorted(PARTS)
    assert list(cells) == list(SCENARIOS.values())
    told = {cell for line in cells.values() for cell in line.values()}
    assert all(cell == PASSES or cell.startswith("[") for cell in told)


def test_a_cell_without_a_yes_names_its_reason() -> None:
    """What stands there instead is the number of the reason that the kit has for it."""
    heads, _, *lines = rows(committed())
    notes = dict(line.split(". ", 1) for line in committed().splitlines() if line[:1].isdigit())
    scenarios = {heading: name for name, heading in SCENARIOS.items()}
    reasons = {
        (head.split("`")[1], scenarios[line[0]]): notes[cell.strip("[]")]
        for line in lines
        for head, cell in zip(heads[1:], line[1:], strict=True)
        if cell != PASSES
    }

    assert reasons == {key: cannot.why for key, cannot in CANNOT.items()}


def test_what_several_workers_played_is_left_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each adds its parts to those that are there."""
    monkeypatch.setenv(RESULTS, str(tmp_path / "results"))
    for name in ("pi", "qwen"):
        stage: Any = SimpleNamespace(part=SimpleNamespace(name=name), version="1.0")
        worker = Cells()
        worker.note(stage, "say", PASSES)
        worker.played(stage, 2.4)
    left = json.loads((tmp_path / "results").read_text())

    part = {"cells": {"say": PASSES}, "version": "1.0", "seconds": 2}
    assert left == {"scenarios": SCENARIOS, "parts": {"pi": part, "qwen": part}}


def test_the_table_is_written_from_results() -> None:
    """A word stands in its cell, a sentence below; what was not played is a dash."""
    cells = {"say": "yes", "deny": "it asks for nothing"}
    results = {
        "scenarios": {"say": "speaks", "deny": "is denied", "allow": "is allowed"},
        "parts": {"one": {"version": "1.2", "cells": cells}},
    }

    assert agent_table.table(results) == (
        "|  | `one` 1.2 |\n"
        "| --- | --- |\n"
        "| speaks | yes |\n"
        "| is denied | [1] |\n"
        "| is allowed | – |\n"
        "\n"
        "1. it asks for nothing\n"
    )
