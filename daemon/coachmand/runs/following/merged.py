"""What many runs say as one stream: chosen by facts that were fixed at their start.

A reader stands behind one place in the order of all events. Runs that begin later are in it
because their events are behind it, so nothing is kept for a reader, however long it is away.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import trio
from attrs import field, frozen

from ...evidence.rundir import RunDirectory
from ...journal.history import History, Past, Unplaced
from ...journal.lines import ts_of
from ...journal.order import Place, Placed, Source
from ..supervisor import Supervisor

BATCH_LINES = 512
# The index is asked for so many runs at a time.
FETCH_ROWS = 200
FIRST_PLACE = 1
NO_PLACE = -1
MAX_REMEMBERED = 4096


@frozen
class Chosen:
    """Which runs: those that have all of these facts; ``runs`` are ids.

    ``within`` is a run that sees itself and what came from it, ``root`` where its family begins.
    """

    runs: tuple[str, ...] = ()
    task: str | None = None
    agent: str | None = None
    repo: str | None = None
    labels: Mapping[str, str] = field(factory=dict)
    parent: str | None = None
    within: str | None = None
    root: str | None = None

    def wants(self, source: Source) -> bool:
        """Whether a run is one of them."""
        return (
            (not self.runs or source.run in self.runs)
            and self.task in (None, source.task)
            and self.agent in (None, source.agent)
            and self.repo in (None, source.repo)
            and self.parent in (None, source.parent)
            and (self.within in (None, source.run) or self.within in source.ancestors)
            and all(source.labels.get(key) == value for key, value in self.labels.items())
        )

    @property
    def key(self) -> tuple[object, ...]:
        """The same for all who choose the same."""
        labels = tuple(sorted(self.labels.items()))
        return (self.runs, self.task, self.agent, self.repo, labels, self.parent, self.within)

    @property
    def columns(self) -> dict[str, str]:
        """What the index can compare by itself."""
        facts = {"task": self.task, "agent": self.agent, "repo": self.repo, "root": self.root}
        return {name: value for name, value in facts.items() if value is not None}


def _source(summary: Mapping[str, Any]) -> Source:
    facts = ("run", "task", "agent", "repo", "labels")
    ancestors = tuple(summary.get("ancestors") or ())
    found = {name: summary[name] for name in facts}
    return Source(**found, parent=summary.get("parent"), ancestors=ancestors)


class Merged:
    """Reads what the chosen runs say from behind ``place``, in order, each line once.

    ``since_ms`` leaves out what is older of the lines that have no place. With ``follow`` False
    it ends at what there is by now.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        chosen: Chosen,
        place: Place,
        *,
        since_ms: int = 0,
        follow: bool = True,
    ) -> None:
        self._supervisor = supervisor
        self._order = supervisor.services.order
        self._chosen = chosen
        self._since_ms = since_ms
        self._until = None if follow else self._order.head
        self._ended_at: int | None = None
        self._unplaced: Unplaced | None = None
        self._history: tuple[History, int] | None = None
        # What is asked of each line is answered once for its run.
        self._wanted: dict[str, bool] = {}
        self.place = place

    def __repr__(self) -> str:
        return f"<Merged {self._chosen} behind {self.place}>"

    @property
    def is_live(self) -> bool:
        """Whether it reads what is shown just now, not the files."""
        return self.place.g > 0 and self._history is None

    def end(self) -> str | None:
        """Why nothing more comes: ``caught_up`` or ``run_ended``; None while something may."""
        if not self.is_live:
            return None
        if self._until is not None and self.place.g >= self._until:
            return "caught_up"
        if self._chosen.runs and self._ended_at is None and not self._lives():
            self._ended_at = self._order.last
        return (
            "run_ended" if self._ended_at is not None and self.place.g >= self._ended_at else None
        )

    def _lives(self) -> bool:
        return any(map(self._supervisor.lives, self._chosen.runs))

    async def next(self) -> list[Placed]:
        """The next lines; none where others' were passed over, or something has changed."""
        if not self.place.g:
            return await self._next_unplaced()
        if self._history is None:
            recent = self._order.recent(self.place.g, BATCH_LINES)
            if recent is not None:
                return await self._live(recent)
            self._history = self._begin()
        history, until = self._history
        found = await trio.to_thread.run_sync(history.read)
        if not found:
            self._history = None
        self.place = found[-1].place if found else Place(until)
        return found

    async def _live(self, recent: list[Placed]) -> list[Placed]:
        if not recent:
            await self._order.changed(self.place.g)
            return []
        self.place = recent[-1].place
        return [placed for placed in recent if self._wants(placed.source)]

    def _wants(self, source: Source) -> bool:
        wanted = self._wanted.get(source.run)
        if wanted is None:
            if len(self._wanted) >= MAX_REMEMBERED:
                self._wanted.clear()
            wanted = self._wanted[source.run] = self._chosen.wants(source)
        return wanted

    async def _next_unplaced(self) -> list[Placed]:
        if self._unplaced is None:
            # Which runs live is known here only: the thread that reads must not look.
            living = [past for past in self._living() if not past.first_g]
            self._unplaced = Unplaced(self._old_pasts(living), self.place)
        found = await trio.to_thread.run_sync(self._unplaced.read)
        if not found:
            first = self._since_ms * 1000 - 1
            self.place = Place(max(FIRST_PLACE, min(first, self._order.head)))
            return []
        self.place = found[-1].place
        return [placed for placed in found if ts_of(placed.line.data) >= self._since_ms]

    # --- which files ---

    def _begin(self) -> tuple[History, int]:
        """Of a run that begins from now on every event is behind the head."""
        until, living = self._order.head, self._living()
        names = {past.source.run for past in living}
        ended = (past for past in self._ended(self.place.g) if past.source.run not in names)
        both = heapq.merge(living, ended, key=lambda past: (past.first_g, past.source.run))
        return History(both, self.place.g, until), until

    def _living(self) -> list[Past]:
        found = [
            Past(run.journal.source, run.journal.path, run.view.first_g)
            for run in self._supervisor.runs.values()
            if self._chosen.wants(run.journal.source)
        ]
        return sorted(found, key=lambda past: (past.first_g, past.source.run))

    def _ended(self, behind_g: int) -> Iterator[Past]:
        """Those that said something behind a place, in the order of their first events. Blocks."""
        services = self._supervisor.services
        at = (NO_PLACE, "")
        while True:
            rows = services.index.in_order(
                at, behind_g, self._chosen.columns, self._chosen.runs, FETCH_ROWS
            )
            for first_g, summary in rows:
                at = (first_g, summary["run"])
                source = _source(summary)
                if self._chosen.wants(source) and summary["ended_at"] >= self._since_ms:
                    yield Past(
                        source, RunDirectory(services.state.run(source.run)).journal, first_g
                    )
            if len(rows) < FETCH_ROWS:
                return

    def _old_pasts(self, living: Sequence[Past]) -> Iterator[Past]:
        names = {past.source.run for past in living}
        ended = (past for past in self._ended(NO_PLACE) if past.source.run not in names)
        for past in heapq.merge(living, ended, key=lambda past: (past.first_g, past.source.run)):
            if past.first_g:
                return
            yield past
