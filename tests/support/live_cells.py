"""The table of scenarios by part: which there are, and what came of each."""

import fcntl
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from live_cannot import CANNOT
from live_stage import Stage

Scenario = Callable[[Stage], None]
RESULTS = "COACHMAN_LIVE_RESULTS"
# What the table calls them.
SCENARIOS = {
    "say": "answers a prompt",
    "write": "writes into the worktree; tokens are the model's",
    "deny": "hears of a denied write",
    "allow": "waits for an answer, then writes",
    "always": "is allowed for always, and asks no second time",
    "write_in": "asks in words, and hears the answer in words",
    "timeout": "is denied by the deadline, and goes on",
    "allow_command": "runs a command that was allowed",
    "two_prompts": "takes two prompts, one after the other",
    "cancel_stream": "is cancelled while it speaks",
    "model_error": "tells the model's error, and does not succeed",
    "interrupt_tool": "is interrupted in a tool: no process left, the session goes on",
    "cancel_tool": "is cancelled in a tool: no process left",
    "resume": "resumes the very session",
    "usage": "tokens and cost of three turns over a resume are the model's",
    "wrong_session": "fails where the session is gone, and begins no other",
    "review": "runs a command in a tree that it cannot write",
    "sealed": "runs a command with no tree, no repository and no settings of the user's",
    "host": "runs a command on the host, at home",
    "daemon_killed": "goes on in a tool when the daemon is killed; no event lost",
}
PASSES, FAILS = "yes", "no"


class Cells:
    """What came of each scenario with each part, as far as they were played."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"<Cells {sorted(self.parts)}>"

    def played(self, stage: Stage, seconds: float) -> None:
        """A part is through: keep what is known of it, and leave it where that is wanted."""
        row = self.parts.setdefault(stage.part.name, {"cells": {}})
        row |= {"version": stage.version, "seconds": round(seconds)}
        path = os.environ.get(RESULTS)
        if path:
            self._add_to(Path(path))

    def _add_to(self, path: Path) -> None:
        """Put it beside what other workers leave in the file."""
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            found = json.loads(file.read() or "{}")
            told = {"scenarios": SCENARIOS, "parts": found.get("parts", {}) | self.parts}
            file.truncate(0)
            file.write(json.dumps(told, indent=1) + "\n")

    def note(self, stage: Stage, name: str, outcome: str) -> None:
        """Remember one cell."""
        self.parts.setdefault(stage.part.name, {"cells": {}})["cells"][name] = outcome


CELLS = Cells()


def scenario(play: Scenario) -> Scenario:
    """Make a test a row of the table; where it is impossible, the proof of that is run instead."""
    name = play.__name__.removeprefix("test_")
    assert name in SCENARIOS

    @functools.wraps(play)
    def cell(stage: Stage) -> None:
        CELLS.note(stage, name, FAILS)
        cannot = CANNOT.get((stage.part.name, name))
        (cannot.proof if cannot else play)(stage)
        CELLS.note(stage, name, cannot.why if cannot else PASSES)

    return cell
