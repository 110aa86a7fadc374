"""Runs that runs started: what is below one, what it has used, and its end together with it.

Whose child a run is stands in its record and never changes. So nothing has to be written when
a parent ends: whoever finds a run whose parent is gone ends it as well.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import structlog
import trio
from attrs import define

from ..failpoints import reach
from ..rpc.errors import RpcError
from .control import inbox
from .facts.record import Record
from .reading.summary import summary_of
from .services import Services

if TYPE_CHECKING:
    from .run import Run

log = structlog.get_logger("families")
Summary = dict[str, Any]
BUSY_RETRY_S = 5.0


class House(Protocol):
    """What families need to know of the runs that live."""

    services: Services
    runs: "dict[str, Run]"
    changes: int

    async def record_of(self, run: str) -> Record: ...
    async def wait_for_change(self, seen: int) -> None: ...


@define
class Spent:
    """Tokens and dollars; of dollars, those that are known."""

    tokens: int = 0
    usd: float = 0.0

    def add(self, tokens: int | None, usd: float | None) -> None:
        """Count a run's as well."""
        self.tokens += tokens or 0
        self.usd += usd or 0.0


class Families:
    """Who is below whom among the runs of a daemon."""

    def __init__(self, house: House) -> None:
        self._house = house
        # Accepted and not carried yet.
        self._coming: dict[str, tuple[str, ...]] = {}
        # What the ended ones below each living run used.
        self._before: dict[str, Spent] = {}

    def __repr__(self) -> str:
        return f"<Families, {len(self._coming)} coming>"

    def below(self, run: str) -> "list[Run]":
        """The living runs that came from ``run``, at any depth."""
        return [each for each in self._house.runs.values() if run in each.fixed.ancestors]

    def above(self, ancestors: tuple[str, ...]) -> "list[Run]":
        """The living runs among ``ancestors``."""
        return [self._house.runs[name] for name in ancestors if name in self._house.runs]

    def lives_below(self, run: str) -> bool:
        """Whether any run that came from ``run`` has not ended."""
        return any(each.view.state != "ended" for each in self.below(run))

    # --- places in a tree ---

    @contextmanager
    def place(self, record: Record) -> Iterator[None]:
        """A place below each of the ancestors while the run is put on record. Raises RpcError."""
        if record.ancestors:
            self._check_places(record.ancestors)
            self._coming[record.run] = record.ancestors
        try:
            yield
        finally:
            self._coming.pop(record.run, None)

    def _check_places(self, ancestors: tuple[str, ...]) -> None:
        for name in ancestors:
            parent = self._house.runs.get(name)
            if parent is None or parent.is_leaving:
                raise RpcError("Conflict", "cannot start: the run that asks is about to end")
            limit = parent.fixed.delegate.children if parent.fixed.delegate else 0
            active = self._active_below(name)
            if active >= limit:
                raise _crowded(active, limit)

    def _active_below(self, run: str) -> int:
        living = sum(each.view.state != "ended" for each in self.below(run))
        return living + sum(run in ancestors for ancestors in self._coming.values())

    # --- what a tree uses ---

    def spent_below(self, run: str) -> Spent:
        """What all runs below ``run`` have used so far."""
        before = self._before.get(run, Spent())
        spent = Spent(before.tokens, before.usd)
        for each in self.below(run):
            spent.add(*_used(each))
        return spent

    def spent(self, run: "Run") -> Spent:
        """What ``run`` and all below it have used so far."""
        spent = self.spent_below(run.fixed.run)
        spent.add(*_used(run))
        return spent

    def told(self, run: "Run") -> None:
        """``run`` used something: let those look who count it as theirs."""
        for name in run.fixed.ancestors:
            parent = self._house.runs.get(name)
            if parent is not None:
                parent.post(inbox.FamilyChanged())
                for each in self.below(name) if _is_passed(self, parent) else ():
                    each.post(inbox.FamilyChanged())

    def over(self, run: "Run") -> None:
        """``run`` lives no more; what it used stays in its ancestors' accounts."""
        self._before.pop(run.fixed.run, None)
        for name in run.fixed.ancestors:
            if name in self._house.runs:
                self._before.setdefault(name, Spent()).add(*_used(run))

    # --- ending together ---

    def joined(self, run: "Run") -> None:
        """``run`` lives from now on. Its parent may have come to its end meanwhile."""
        if run.fixed.parent is None:
            return
        parent = self._house.runs.get(run.fixed.parent)
        if parent is None or parent.is_leaving:
            self._end(run, run.fixed.parent)

    def take_along(self, run: str) -> None:
        """End whatever ``run`` started, because it comes to its own end."""
        below = self.below(run)
        if below:
            reach("family.ending")
        for each in below:
            self._end(each, run)
            reach("family.told")

    def _end(self, run: "Run", because: str) -> None:
        by = {"resolver": "family", "run": because, "user": f"run {because[-5:]}, which ended"}
        run.post(inbox.CancelAsked(by, inbox.Reply()))

    async def gone(self, run: str) -> None:
        """Wait until nothing below ``run`` lives any more."""
        while True:
            seen = self._house.changes
            if not self.lives_below(run):
                return
            await self._house.wait_for_change(seen)

    # --- after a restart ---

    async def recovered(self) -> None:
        """Count what was used before, and end whose parent did not come back."""
        runs = list(self._house.runs.values())
        for root in {run.fixed.root for run in runs if run.fixed.delegate is not None}:
            rows = await trio.to_thread.run_sync(self._house.services.index.family, root)
            for row in rows:
                self._count(row)
        for run in runs:
            self.joined(run)

    def _count(self, row: Mapping[str, Any]) -> None:
        if row["run"] in self._house.runs:
            return
        for name in row.get("ancestors") or ():
            if name in self._house.runs:
                self._before.setdefault(name, Spent()).add(row["tokens"], row["cost_usd"])

    # --- what one of them sees ---

    async def seen_by(self, run: str) -> list[Summary]:
        """The summaries of ``run`` and of all that came from it, ended ones too, newest first."""
        house = self._house
        root = (await house.record_of(run)).root
        ended = await trio.to_thread.run_sync(house.services.index.family, root)
        living = [summary_of(each.fixed, each.view) for each in house.runs.values()]
        names = {summary["run"] for summary in living}
        rows = [*living, *(row for row in ended if row["run"] not in names)]
        mine = [row for row in rows if is_below(row, run)]
        return sorted(mine, key=lambda row: (row["created_at"], row["run"]), reverse=True)


def is_below(summary: Mapping[str, Any], run: str) -> bool:
    """Whether a summary is that of ``run`` or of one that came from it."""
    return summary["run"] == run or run in (summary.get("ancestors") or ())


def _is_passed(families: Families, parent: "Run") -> bool:
    """Whether those below a run used more than it may hand out."""
    granted = parent.fixed.delegate
    if granted is None or (granted.tokens is None and granted.cost_usd is None):
        return False
    spent = families.spent_below(parent.fixed.run)
    tokens, usd = granted.tokens, granted.cost_usd
    return (tokens is not None and spent.tokens > tokens) or (usd is not None and spent.usd > usd)


def _used(run: "Run") -> tuple[int | None, float | None]:
    cost = run.view.cost
    return (run.view.usage or {}).get("total"), cost["usd"] if cost else run.budget.usd


def _crowded(active: int, limit: int) -> RpcError:
    return RpcError(
        "Busy",
        f"cannot start: {active} runs live below the one that asks, of {limit} at most",
        hint="wait for one of them, or cancel it" if limit else "it may start none",
        retryable=bool(limit),
        retry_after_s=BUSY_RETRY_S if limit else None,
        detail={"source": "tree", "limit": limit, "active": active},
    )
