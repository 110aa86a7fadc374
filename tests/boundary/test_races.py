"""A tree that turns into links while it is read or deleted; minutes of it: `scripts/soak race`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coachmand.repos.pool import GitWorkers
from races import CONTESTS, FILES, Race, naive, swapping

pytestmark = pytest.mark.long
LASTS_S = 1.0
NOTICED_S = 30.0
CUT_STEPS = 3


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


@pytest.mark.parametrize("name", [name for name in CONTESTS if name != "view"])
async def test_a_file_that_is_cut_while_it_is_read_harms_one_step_at_most(
    race: Race, name: str
) -> None:
    """Whether it is read, hashed, stored or moved: the worker that it happened to goes on."""
    await race.workers.hash_tree(str(race.tree))
    before = workers_of(race)
    await race.cut(CONTESTS[name], CUT_STEPS)
    found = await race.workers.hash_tree(str(race.outside))

    assert race.done + race.refused == CUT_STEPS
    assert len(found) == len(FILES)
    assert before <= workers_of(race)


def workers_of(race: Race) -> set[int | None]:
    """The processes that operations are carried out below."""
    return {worker.pid for worker in race.workers._workers.values()}


async def test_one_who_looks_by_path_would_be_led_outside(race: Race) -> None:
    """The swaps are quick enough to be met: somebody who walks the same tree reads the host's."""
    with swapping(race.tree):
        assert naive(race.tree, NOTICED_S)
