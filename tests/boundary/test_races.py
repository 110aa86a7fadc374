"""A tree that turns into links while it is read or deleted; minutes of it: `scripts/soak race`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coachmand.repos.pool import GitWorkers
from races import CONTESTS, Race, naive, swapping

LASTS_S = 1.5
NOTICED_S = 30.0


@pytest.fixture
async def race(tmp_path: Path) -> AsyncIterator[Race]:
    async with GitWorkers() as workers:
        race = Race(workers, tmp_path)
        await race.prepare()
        yield race


@pytest.mark.parametrize("name", CONTESTS)
async def test_what_becomes_a_link_meanwhile_leads_nowhere(race: Race, name: str) -> None:
    """No byte of the host's is captured and nothing of it is deleted; at worst one step fails."""
    await race.run(CONTESTS[name], LASTS_S)

    assert race.done > 0


async def test_one_who_looks_by_path_would_be_led_outside(race: Race) -> None:
    """The swaps are quick enough to be met: somebody who walks the same tree reads the host's."""
    with swapping(race.tree):
        assert naive(race.tree, NOTICED_S)
