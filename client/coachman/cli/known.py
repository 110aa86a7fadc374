"""Runs, tasks, agents and profiles to be named: the running daemon's, else the files'.

Nothing here starts a daemon, waits for one, or fails.
"""

from ..errors import CoachmanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Row = Mapping[str, Any]

ANSWER_S = 0.25
ROWS = 200
# Without a daemon each row is two files.
ROWS_OF_FILES = 50
NOWHERE = "/nonexistent"


class Known:
    """What one daemon, or its state directory, knows."""

    def __init__(self, env: "Mapping[str, str]", socket: str | None = None) -> None:
        self._env = env
        self._socket = socket

    def values(self, kind: str, fits: "Callable[[Row], Any]") -> dict[str, str]:
        """The names of one kind with a word about each, newest first; runs that ``fits``."""
        return {
            "runs": lambda: self._runs(fits),
            "tasks": lambda: _tasks(self._rows()),
            "agents": self._agents,
            "profiles": self._profiles,
            "efforts": self._efforts,
        }[kind]()

    def _ask(self, method: str, params: "dict[str, Any]") -> "Any":
        """The daemon's answer; None where none answers at once."""
        from ..client import connect

        try:
            with connect(self._socket, timeout=ANSWER_S) as client:
                return client.call(method, params)
        except (CoachmanError, OSError):
            return None

    def _rows(self) -> "list[Row]":
        page = self._ask("run.list", {"all": True, "limit": ROWS})
        if page is None:
            from .offline import read_page

            page = read_page(self._env, {"all": True, "limit": ROWS_OF_FILES})
        rows: list[Row] = page["runs"]
        return rows

    def _runs(self, fits: "Callable[[Row], Any]") -> dict[str, str]:
        rows = [row for row in self._rows() if fits(row)]
        handles = {str(row["handle"]): _about(row) for row in rows}
        return handles | _tasks(rows) | {"@": "the newest run here"}

    def _agents(self) -> dict[str, str]:
        # Where no program is found none has to be looked at.
        page = self._ask("agent.list", {"path": NOWHERE})
        if page is None:
            return {str(row["agent"]): "" for row in self._rows() if row.get("agent")}
        return {agent["name"]: agent.get("title") or "" for agent in page["agents"]}

    def _efforts(self) -> dict[str, str]:
        page = self._ask("agent.list", {"path": NOWHERE}) or {"agents": []}
        return {effort: "" for agent in page["agents"] for effort in agent.get("efforts") or ()}

    def _profiles(self) -> dict[str, str]:
        page = self._ask("profile.list", {})
        if page is None:
            return {str(row["profile"]): "" for row in self._rows() if row.get("profile")}
        return {profile["name"]: "" for profile in page["profiles"]}


def _tasks(rows: "list[Row]") -> dict[str, str]:
    return {str(row["task"]): "task" for row in rows if row.get("task")}


def _about(row: "Row") -> str:
    facts = (row.get("task"), row.get("agent"), row.get("outcome") or row.get("state"))
    return ", ".join(str(fact) for fact in facts if fact)
