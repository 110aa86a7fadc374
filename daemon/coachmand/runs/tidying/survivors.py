"""Processes of runs that were to be ended and live on: named for as long as they do."""

from attrs import define, field

from ...keeper.system import start_ticks
from ..keepers.starting import KeeperError, SurvivorError
from .findings import Finding


@define
class Survivors:
    """What this daemon could not end, by number and start time of the process."""

    _found: dict[tuple[int, int], Finding] = field(factory=dict)

    def note(self, path: str, error: KeeperError) -> None:
        """Something of what ran at ``path`` could not be ended."""
        if isinstance(error, SurvivorError):
            remedy = f"look into it; its files may change until it is gone: kill -9 {error.pid}"
            finding = Finding("process", path, f"{error}", remedy)
            self._found[error.pid, error.ticks] = finding

    def findings(self) -> list[Finding]:
        """Those that live still."""
        self._found = {mark: each for mark, each in self._found.items() if _lives(*mark)}
        return list(self._found.values())


def _lives(pid: int, ticks: int) -> bool:
    try:
        return start_ticks(pid) == ticks
    except OSError:
        return False
