"""How the suite is shared out to worker processes: what may share a fixture stays together."""

import re

from xdist.scheduler import LoadScopeScheduling

LIVE = re.compile(r"(tests/agents/live/test_live\.py)::\w+\[([^]]+)\]")


def unit(test: str) -> str:
    """What a test belongs to: its file, or of the live kit the agent's part."""
    live = LIVE.fullmatch(test)
    return "::".join(live.groups()) if live else test.partition("::")[0]


class Units(LoadScopeScheduling):
    """Hands out units whole."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
