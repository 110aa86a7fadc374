"""Directories that turn into links, for a minute against each operation: `scripts/soak race`."""

from pathlib import Path

import pytest

from coachmand.repos.pool import GitWorkers
from races import CONTESTS, Race

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("name", CONTESTS)
async def test_nothing_of_the_host_is_captured_or_deleted(
    tmp_path: Path, minutes: float, name: str
) -> None:
    """However often it is tried; ``--minutes`` is how long for each."""
    async with GitWorkers() as workers:
        race = Race(workers, tmp_path)
        await race.prepare()
        await race.run(CONTESTS[name], minutes * 60)
        print(f"{name}: {race.done} carried out, {race.refused} refused")

    assert race.done > 0
