"""How a run is brought to its end: which steps are taken, and how soon the next one follows."""

import signal
from typing import Any

import pytest
import trio

from coachmand.journal.lines import Entry
from coachmand.runs.ending import ladder
from coachmand.runs.ending.ladder import Ladder
from coachmand.runs.facts.clock import boottime_s
from coachmand.runs.reading.view import View


class Agent:
    """An attempt that only notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def tell(self, what: str, _members: dict[str, Any]) -> None:
        self.done.append(what)

    async def close_stdin(self) -> None:
        self.done.append("close_stdin")

    async def signal(self, whom: str, number: int) -> None:
        self.done.append(f"{signal.Signals(number).name} {whom}")

    async def note(self, entries: list[Entry]) -> None:
        self.done += [entry.type for entry in entries]

    def look_again(self) -> None:
        self.done.append("look_again")


def steps(view: View, count: int) -> tuple[list[str], list[bool]]:
    """What ``count`` climbs did, and after which of them the next one follows at once."""
    agent, climbed, at_once = Agent(), Ladder(), []

    async def climb() -> None:
        for _ in range(count):
            await climbed.climb(agent, view)  # type: ignore[arg-type]
            at_once.append(climbed.due_s is not None and climbed.due_s <= boottime_s())

    trio.run(climb)
    return agent.done, at_once


def view(*, over: bool = False, started: bool = True, deaf: bool = False) -> View:
    """A run in its first turn."""
    return View(turn=1, turn_over=over, told_start=started, stdin_closed=deaf)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (
            {},
            ["cancel", "close_stdin", "SIGTERM agent", "SIGKILL tree", "error", "look_again"],
        ),
        ({"over": True}, ["close_stdin", "SIGTERM agent", "SIGKILL tree"]),
        ({"started": False}, ["close_stdin", "SIGTERM agent", "SIGKILL tree"]),
        ({"deaf": True}, ["cancel", "SIGTERM agent", "SIGKILL tree"]),
        ({"deaf": True, "over": True}, ["close_stdin", "SIGTERM agent", "SIGKILL tree"]),
    ],
)
def test_each_step_is_taken_that_can_be_heard(
    members: dict[str, bool], expected: list[str]
) -> None:
    """Politely first; what an agent cannot hear any more is not waited for."""
    assert steps(view(**members), 5)[0][: len(expected)] == expected


def test_only_a_deaf_agent_is_not_waited_for() -> None:
    """Every other step has its time to work."""
    assert steps(view(), 3)[1] == [False, False, False]
    assert steps(view(deaf=True), 2)[1] == [True, False]
    assert ladder.after(None) is ladder.CANCEL
