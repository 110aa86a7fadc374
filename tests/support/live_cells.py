"""The table of scenarios by part: which there are, which cannot be, and what came of the rest."""

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live_cannot import CANNOT, Cannot
from live_stage import Stage

Scenario = Callable[[Stage], None]
RESULTS = "COACHMAN_LIVE_RESULTS"
PASSES, FAILS = "yes", "no"


@dataclass
class Cells:
    """What is known of each scenario with each part."""

    columns: dict[str, str] = field(default_factory=dict)
    """Names of scenarios and their headings, in order."""
    cannot: Mapping[tuple[str, str], Cannot] = field(default_factory=dict)
    """By part and scenario."""
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By part: its version, seconds, and the outcome of each scenario."""

    def scenario(self, heading: str) -> Callable[[Scenario], Scenario]:
        """Make a test a column; where it is impossible, the proof of that is run instead."""

        def column(play: Scenario) -> Scenario:
            name = play.__name__.removeprefix("test_")
            self.columns[name] = heading

            @functools.wraps(play)
            def cell(stage: Stage) -> None:
                row = self.outcomes.setdefault(stage.part.name, {})
                row[name] = FAILS
                cannot = self.cannot.get((stage.part.name, name))
                (cannot.proof if cannot else play)(stage)
                row[name] = cannot.why if cannot else PASSES

            return cell

        return column

    def write(self) -> None:
        """Leave the outcomes where the environment wants them."""
        path = os.environ.get(RESULTS)
        if path and self.outcomes:
            told = {"columns": self.columns, "parts": self.outcomes}
            Path(path).write_text(json.dumps(told, indent=1) + "\n")


CELLS = Cells(cannot=CANNOT)
