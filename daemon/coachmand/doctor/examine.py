"""All of it, in the order in which a person would mend it."""

from collections.abc import Callable, Iterable, Mapping

import trio

from coachman.results import Diagnosis

from ..runs.services import Means
from . import agents, caps, moments, places, settings, walls


async def examine(means: Means, agent: str | None, lent: Mapping[str, str]) -> list[Diagnosis]:
    """Every check; of the agents, the one that is named or all. Raises RpcError.

    ``lent`` is what a run would have of its caller's environment.
    """
    # What there is not is said before anything takes its time.
    agents.patients(means, agent, lent)
    # A daemon that saw no walls looks again, as it does for a run.
    await means.outlook.now()
    return [
        *await settings.examined(means),
        *await trio.to_thread.run_sync(_listed, walls.examined, means),
        *await caps.examined(means),
        *await trio.to_thread.run_sync(_listed, places.examined, means),
        *await trio.to_thread.run_sync(_listed, moments.examined, means),
        *await agents.examined(means, agent, lent),
    ]


def _listed(look: Callable[[Means], Iterable[Diagnosis]], means: Means) -> list[Diagnosis]:
    return list(look(means))
