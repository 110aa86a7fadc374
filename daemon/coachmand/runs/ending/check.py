"""The check of a run: a command in its boundary once its agent is through, and what came of it.

It has a keeper of its own, so that it outlives the daemon: the next one finds it again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ..attempts import beside
from ..control import inbox
from ..facts.clock import boottime_s
from ..facts.deadlines import KEEPER_MARGIN_S
from ..keepers.starting import KeeperError, end_keeper
from ..preparing.prepare import Launch

if TYPE_CHECKING:
    from ..run import Run

# The run was brought to its end by nobody but itself.
BY_ITSELF = frozenset({"turn_ended", "agent_exited", "closed"})


class Check:
    """Runs the command of ``run``'s record after a turn that ended well; `advance` goes on."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._watching = False
        self._ending = False
        self._done: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<Check of {self._run.fixed.handle}: {self._run.view.check}>"

    @property
    def to_come(self) -> bool:
        """Whether it is still to be run, or runs."""
        view = self._run.view
        if view.check is not None:
            return "exit" not in view.check
        well = view.turn_over and view.turn_stop_reason == "end_turn"
        by_itself = view.state != "stopping" or view.reason in BY_ITSELF
        return self._run.fixed.check is not None and well and by_itself

    def note(self, message: inbox.CheckDone) -> None:
        """It is over."""
        self._done = message.record

    async def advance(self) -> bool:
        """Do what is next of it; whether the run has to wait for that."""
        run, view = self._run, self._run.view
        if not self.to_come:
            return False
        if view.turn_recorded < view.turn:
            # What the check leaves behind is not the agent's work.
            run.turns.record_tree(view.turn)
            return True
        if view.check is None:
            began = Entry(v.CHECK_STARTED, {"command": run.fixed.check})
            await run.enter("checking", told=[began])
        if self._done is None:
            self._watch()
            return True
        ended = Entry(v.CHECK_ENDED, self._done)
        if view.state == "checking":
            await run.enter("stopping", "checked", told=[ended])
        else:
            await run.record([ended])
        return False

    def _watch(self) -> None:
        path = self._path
        if not self._watching:
            self._watching = True
            self._run.spawn(self._carry_out, path)
        if self._run.view.state == "stopping" and not self._ending:
            self._ending = True
            self._run.spawn(self._end, path)

    @property
    def _path(self) -> Path:
        return self._run.directory.attempt(self._run.view.attempt) / "check"

    async def _carry_out(self, path: Path) -> None:
        error = None
        try:
            wanted = self._run.view.state != "stopping"
            if wanted and not await trio.Path(path).exists():
                await self._start(path)
            await beside.until_over(self._run, path)
        except (KeeperError, OSError) as failure:
            error = f"cannot run the check: {failure}"
        record = await trio.to_thread.run_sync(beside.record_of, path, "check", error)
        self._run.post(inbox.CheckDone(record))

    async def _end(self, path: Path) -> None:
        """Kill it, whatever it is at."""
        try:
            await trio.to_thread.run_sync(end_keeper, path)
        except KeeperError as error:
            self._run.post(inbox.LivesOn(path, error))

    async def _start(self, path: Path) -> None:
        planned = self._run.launch
        if planned is None:
            raise KeeperError("its sandbox cannot be made again", "launch")
        await beside.start(self._run.services, self._planned(planned), path, self._due_s())

    def _planned(self, planned: Launch) -> Launch:
        return evolve(planned, command=beside.shell("check", self._run.fixed.check or ""))

    def _due_s(self) -> float:
        run = self._run
        wall_s = run.fixed.wall.due_boottime_s(run.boot) + KEEPER_MARGIN_S
        return min(wall_s, boottime_s() + run.fixed.check_s)
