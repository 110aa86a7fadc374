"""What an agent says of a turn that is over: kept like everything else, and marked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from ...journal import vocabulary as v
from ...journal.lines import Entry

if TYPE_CHECKING:
    from .view import View

# What a turn is made of; usage, sessions and notices are about more than one.
OF_A_TURN = frozenset({v.MESSAGE_CHUNK, v.THOUGHT_CHUNK, v.TOOL_CALL, v.TOOL_UPDATE, v.PLAN})


def marked(view: "View", entries: Sequence[Entry]) -> list[Entry]:
    """The entries, those with ``late`` that came behind the end of the turn that they are of.

    Between two turns that is all that belongs to one; within the next turn it is the word of a
    tool that was begun before.
    """
    over, left = view.turn_over, view.left_tools
    told = []
    for entry in entries:
        if entry.type == v.TURN_STARTED:
            over = False
        elif entry.type == v.TURN_ENDED:
            over, left = True, left | view.open_tools
        elif entry.n is not None and entry.type in OF_A_TURN:
            call = entry.members.get("tool_call_id")
            if over or (entry.type == v.TOOL_UPDATE and call in left):
                entry = evolve(entry, members={**entry.members, "late": True})  # noqa: PLW2901
        told.append(entry)
    return told
