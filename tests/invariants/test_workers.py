"""The suite can be shared out: what may share a fixture is never torn apart."""

import sourcetree
import workers
from agents_parts import PARTS

LIVE = "tests/agents/live/test_live.py"


def test_a_file_is_one_unit_whatever_its_parameters_hold() -> None:
    """Colons and brackets of a parameter do not split it."""
    names = ("test_a", "test_a[b::c]", "test_a[d[e]]", "TestF::test_g")

    assert {workers.unit(f"tests/x/test_y.py::{name}") for name in names} == {"tests/x/test_y.py"}


def test_the_live_kit_is_a_unit_for_each_part() -> None:
    """Each real agent has a stage of its own, and plays all of its scenarios on it."""
    units = {
        part: {workers.unit(f"{LIVE}::test_{scenario}[{part}]") for scenario in ("say", "resume")}
        for part in PARTS
    }

    assert (sourcetree.ROOT / LIVE).is_file()
    assert units == {part: {f"{LIVE}::{part}"} for part in PARTS}
