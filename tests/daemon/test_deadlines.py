"""The table of deadlines: what expires next, in which state."""

import pytest

from coachmand.runs.deadlines import Facts, pending

EVERYTHING = {
    "wall_due_s": 100.0,
    "permissions_due_s": {"p2": 30.0, "p1": 20.0},
    "timers_due_s": {"settle": 10.0},
    "ladder_due_s": 5.0,
    "interrupt_due_s": 40.0,
    "parked_due_s": 50.0,
}
IN_EVERY_STATE = ["ladder", "timer settle"]
WHILE_IT_IS_WANTED = ["permission p1", "permission p2", "interrupt", "wall"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("queued", IN_EVERY_STATE + WHILE_IT_IS_WANTED),
        ("preparing", IN_EVERY_STATE + WHILE_IT_IS_WANTED),
        ("active", IN_EVERY_STATE + WHILE_IT_IS_WANTED),
        ("waiting", IN_EVERY_STATE + WHILE_IT_IS_WANTED),
        ("parked", [*IN_EVERY_STATE, *WHILE_IT_IS_WANTED[:-1], "parked", "wall"]),
        ("stopping", IN_EVERY_STATE),
        ("ended", []),
    ],
)
def test_what_expires_in_a_state_and_in_which_order(state: str, expected: list[str]) -> None:
    """Parking ends in parked alone; a stopping run has its ladder and timers, an ended nothing."""
    found = [f"{d.which} {d.key}".strip() for d in pending(Facts(state, **EVERYTHING))]

    assert found == expected


def test_the_wall_is_there_where_nothing_else_is() -> None:
    """Nothing but it has to be given."""
    assert [d.which for d in pending(Facts("active", 7.0))] == ["wall"]
    assert [d.due_s for d in pending(Facts("parked", 7.0, parked_due_s=3.0))] == [3.0, 7.0]
