"""Fixtures of the keeper's and the link's tests; a test module imports the ones it names."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keeper_attempts import Attempt


@pytest.fixture
def attempts(state_dir: Path) -> Iterator[Callable[..., Attempt]]:
    """A factory of attempts, each in a directory of its own; what still runs at the end dies."""
    made: list[Attempt] = []

    def make(below: str = "run") -> Attempt:
        made.append(Attempt(state_dir / below / str(len(made) + 1)))
        return made[-1]

    yield make
    for attempt in made:
        attempt.kill_leftover()


@pytest.fixture
def attempt(attempts: Callable[..., Attempt]) -> Attempt:
    """One attempt whose keeper is not started yet."""
    return attempts()
