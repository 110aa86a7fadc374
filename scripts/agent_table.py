"""Writes what came of each scenario with each real agent into docs/agents.md.

agent_table.py RESULTS [--check]: RESULTS is what the tests left where COACHMAN_LIVE_RESULTS
said. With --check nothing is written; exit 1 where the table is another one.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[1] / "docs" / "agents.md"
BEGIN, END = "<!-- table of agents: begin -->\n", "<!-- table of agents: end -->\n"


def main(argv: list[str]) -> int:
    """Write the table, or tell whether it is up to date."""
    path, *options = argv
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = before + BEGIN + table(json.loads(Path(path).read_text())) + END + after
    if "--check" not in options:
        DOCUMENT.write_text(made)
        return 0
    if made != text:
        print(table(json.loads(Path(path).read_text())))
        print("cannot vouch for docs/agents.md: above is what came of this run", file=sys.stderr)
    return int(made != text)


def table(results: Mapping[str, Any]) -> str:
    """The table, and below it why some cells are empty."""
    parts = sorted(results["parts"].items())
    notes: list[str] = []
    lines = [_line("", *(f"`{name}` {part['version'] or ''}".rstrip() for name, part in parts))]
    lines.append(_line(*["---"] * (len(parts) + 1)))
    for scenario, heading in results["scenarios"].items():
        cells = [_cell(part["cells"].get(scenario, "–"), notes) for _, part in parts]
        lines.append(_line(heading, *cells))
    told = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([*lines, "", *told]) + "\n"


def _cell(outcome: str, notes: list[str]) -> str:
    """A word, or the number of the note that says why it cannot be."""
    if " " not in outcome:
        return outcome
    if outcome not in notes:
        notes.append(outcome)
    return f"[{notes.index(outcome) + 1}]"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
