"""The drawings in ARCHITECTURE.md are the tables of the code."""

import re
from pathlib import Path

from coachmand.runs.facts.transitions import TRANSITIONS

ROOT = Path(__file__).parents[2]


def test_the_run_diagram_is_the_transition_table() -> None:
    """Every arrow of the first diagram is a transition, and every transition has its arrow."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    diagram = text.split("```mermaid")[1].split("```")[0]
    drawn = set(re.findall(r"(\w+) --> (\w+)", diagram))

    assert drawn == {(state, to) for state, allowed in TRANSITIONS.items() for to in allowed}


def test_every_folder_of_the_table_exists() -> None:
    """The table of folders names what is there."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text.split("| folder | what |")[1].split("\n\n")[0]
    named = re.findall(r"^\| `([^`{]+)` ", table, re.MULTILINE)

    assert named
    assert [path for path in named if not (ROOT / path).is_dir()] == []
