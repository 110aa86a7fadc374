"""What a run hands down: a child asks for as much as its parent has, or for less.

What a child leaves out it gets from its parent. What it asks for beyond is refused by name,
never cut down: an agent that believes it has more would plan for it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import trio
from attrs import asdict, evolve, fields

from coachman_sandbox.authority import exceeding

from ...permissions.dead import living
from ...permissions.handlers import NONE as NO_HANDLER
from ...repos.errors import RepoError
from ...rpc.errors import RpcError
from ..facts.clock import boottime_s
from ..facts.grants import NOTHING, Delegate, Limits
from ..facts.record import NO_REPOSITORY, Repository
from ..families import Families
from ..preparing.policy import policy_as
from ..tasks import TaskStore
from .bases import base_below
from .planning import Planned
from .profile import delegating, walls_of
from .request import StartRequest, Timeouts

if TYPE_CHECKING:
    from ..run import Run

# By how much they let an agent do.
PERMISSIONS = ("deny", "ask", "allow")
# Facts that are said with an option of their own name.
OPTIONS = frozenset({"agent", "base", "network", "permissions", "priority", "profile", "task"})


class Heritage:
    """What ``parent`` can give to a child."""

    def __init__(self, parent: "Run", families: Families, tasks: TaskStore) -> None:
        self.parent = parent
        self._families = families
        self._tasks = tasks
        self._services = parent.services
        self._granted = parent.fixed.delegate or NOTHING

    def __repr__(self) -> str:
        return f"<Heritage of {self.parent.fixed.handle}, {self._granted}>"

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Those of a child."""
        return (*self.parent.fixed.ancestors, self.parent.fixed.run)

    async def bounded(self, request: StartRequest, *, clamp: bool = False) -> StartRequest:
        """The request with what the parent gives. Raises RpcError Denied naming what exceeds it.

        With ``clamp`` limits are cut down to the parent's: they are not this request's own.
        """
        if self._granted.depth < 1:
            raise beyond("depth", "another level", "none is left below the run that asks")
        fixed = self.parent.fixed
        there = await trio.Path(fixed.dir).is_dir()
        request = evolve(
            request,
            dir=fixed.dir if there else fixed.repository.toplevel,
            env=self.parent.lent,
            agent=self._agent(request.agent),
            profile=self._profile(request.profile),
            network=request.network or tuple(fixed.network.split(",")),
            permissions=self._permissions(request.permissions),
            rules=living(tuple(dict.fromkeys(rule.requested for rule in fixed.rules))),
            permission_handler=next((each.text for each in fixed.handlers), NO_HANDLER),
            timeouts=self._timeouts(request.timeouts, clamp),
            limits=self._limits(request.limits, clamp),
            output_limit=self._output_limit(request.output_limit, clamp),
            priority=self._priority(request.priority),
            delegate=self._delegate(request.delegate),
        )
        return await self._placed(request)

    # --- whom, and how freely ---

    def _agent(self, wanted: str | None) -> str:
        own, usable = self.parent.fixed.agent, self._usable_agents()
        if wanted is None:
            wanted = own if own in usable else next(iter(self._granted.agents), None)
        if wanted is None or not (wanted in usable or self._lends_nothing(wanted)):
            raise beyond("agent", wanted or "an agent", _words(usable))
        return wanted

    def _usable_agents(self) -> list[str]:
        """Those that the parent's user let it have: what they cost and reach is known then."""
        own = self.parent.fixed.agent
        takes_argv = self._services.adapters[self.parent.fixed.adapter].spec.takes_argv
        return [*([] if takes_argv else [own]), *self._granted.agents]

    def _lends_nothing(self, agent: str) -> bool:
        """Coachman's own guest programs: no account, no file of the user's, no program of a host's.

        An agent that takes a program is none of these: its program is a command.
        """
        adapter = self._services.adapters.get(agent)
        if adapter is None or agent in self._services.config.agents:
            return False
        spec = adapter.spec
        borrows = spec.environment or spec.user_files or spec.executables or spec.takes_argv
        return not borrows

    def _profile(self, wanted: str | None) -> str:
        """Every child has a socket, to ask its parent over if for nothing else."""
        name = wanted or self.parent.fixed.profile
        profile = walls_of(name, self._services)
        if profile is None or profile.delegates:
            return name
        if profile.native:
            raise beyond("profile", name, self.parent.fixed.profile)
        raise RpcError(
            "Denied",
            f"cannot start: profile: no run that another one starts is {name}: "
            f"{profile.no_delegate}",
            hint=f"give it another profile: {delegating(self._services)}",
            detail={"fact": "profile"},
        )

    def _permissions(self, wanted: Any) -> Any:
        has = self.parent.fixed.permissions
        if wanted is None:
            return has
        if PERMISSIONS.index(wanted) > PERMISSIONS.index(has):
            raise beyond("permissions", wanted, has)
        return wanted

    # --- how long, and how much ---

    def _timeouts(self, wanted: Timeouts, clamp: bool) -> Timeouts:
        fixed, config = self.parent.fixed, asdict(self._services.config.timeouts)
        has = {each.name: getattr(fixed, each.name) for each in fields(Timeouts)}
        has["wall_s"] = fixed.wall.due_boottime_s(self.parent.boot) - boottime_s()
        given = asdict(wanted)
        for name, limit in has.items():
            if given[name] is None or clamp:
                given[name] = least(given[name] or config[name], limit)
            elif limit is not None and given[name] > limit:
                raise beyond(f"timeouts.{name}", given[name], f"{max(0.0, limit):.0f} s")
        if given["wall_s"] <= 0:
            raise beyond("timeouts.wall_s", "more time", "none is left")
        return Timeouts(**given)

    def _limits(self, wanted: Limits, clamp: bool) -> Limits:
        given = asdict(wanted)
        for name, limit in self._left().items():
            if limit <= 0:
                raise beyond(f"limits.{name}", "any more", "the tree's budget is used up")
            if given[name] is None or clamp:
                given[name] = least(given[name], limit)
            elif given[name] > limit:
                raise beyond(f"limits.{name}", given[name], f"{limit:g} left of the tree's budget")
        return Limits(**given)

    def _left(self) -> dict[str, Any]:
        """The least that is left of the budgets that a child would draw on."""
        left: dict[str, Any] = {}
        for run in self._families.above(self.ancestors):
            below, all_of_it = self._families.spent_below(run.fixed.run), self._families.spent(run)
            for budget, spent in ((run.fixed.delegate, below), (run.fixed.limits, all_of_it)):
                if budget is None:
                    continue
                if budget.tokens is not None:
                    left["tokens"] = least(left.get("tokens"), budget.tokens - spent.tokens)
                if budget.cost_usd is not None:
                    left["cost_usd"] = least(left.get("cost_usd"), budget.cost_usd - spent.usd)
        return left

    def _output_limit(self, wanted: int | None, clamp: bool) -> int:
        has = self.parent.fixed.output_limit
        if wanted is None or clamp:
            return min(wanted or self._services.config.storage.output_limit, has)
        if wanted > has:
            raise beyond("output_limit", wanted, f"{has} bytes")
        return wanted

    def _priority(self, wanted: int) -> int:
        if wanted > max(0, self.parent.fixed.priority):
            raise beyond("priority", wanted, self.parent.fixed.priority)
        return wanted

    def _delegate(self, wanted: Delegate | None) -> Delegate:
        has = self._granted
        if wanted is None:
            return NOTHING
        if wanted.depth > has.depth - 1:
            raise beyond("delegate.depth", wanted.depth, has.depth - 1)
        if wanted.children > has.children:
            raise beyond("delegate.children", wanted.children, has.children)
        for name in ("tokens", "cost_usd"):
            limit, asked = getattr(has, name), getattr(wanted, name)
            if limit is not None and asked is not None and asked > limit:
                raise beyond(f"delegate.{name}", asked, limit)
        for agent in wanted.agents:
            if agent not in self._usable_agents():
                raise beyond("delegate.agents", agent, _words(self._usable_agents()))
        return wanted

    # --- where ---

    async def _placed(self, request: StartRequest) -> StartRequest:
        rows = await self._families.seen_by(self.parent.fixed.run)
        mine = frozenset(row["run"] for row in rows)
        profile = walls_of(request.profile or "", self._services)
        sealed = profile is not None and not profile.repository
        repository = NO_REPOSITORY if sealed else self.parent.fixed.repository
        if await self._continues(repository, request.task, mine) or sealed:
            return request
        try:
            base = await base_below(self.parent, request.base, sorted(mine))
        except RepoError as error:
            raise RpcError("AgentFailed", f"cannot start: {error.message}", error.hint) from error
        if base is None:
            raise beyond("base", request.base, "commits that its own task or a child's leads to")
        return evolve(request, base=base)

    async def _continues(
        self, repository: Repository, name: str | None, mine: frozenset[str]
    ) -> bool:
        """Whether the task is there already. One in which others worked is refused."""
        fixed = self.parent.fixed
        if name is None:
            return False
        task = await trio.to_thread.run_sync(self._tasks.get, repository.key, name)
        if task is None:
            return False
        own = (repository.key, name) == (fixed.repository.key, fixed.task)
        if not own and not mine.issuperset(task.runs):
            raise beyond("task", name, "its own, and those that it made")
        return True

    # --- the whole of it ---

    async def check(self, planned: Planned) -> Planned:
        """Compare the boundary as it was compiled with the parent's. Raises RpcError Denied.

        Returns it with an end that is the parent's at the latest: planning took its time.
        """
        child, parent = planned.record, self.parent.fixed
        # Which agent and which task it has was decided above: what that takes is not the question.
        as_child = evolve(
            parent,
            agent=child.agent,
            adapter=child.adapter,
            task=child.task,
            reaches=child.reaches,
        )
        try:
            own = await policy_as(child, self._services, planned.environment)
            has = await policy_as(as_child, self._services, self.parent.environment)
        except (OSError, ValueError, RuntimeError) as error:
            raise RpcError("AgentFailed", f"cannot start: {error}") from error
        if (more := own.network.beyond(has.network)) is not None:
            raise beyond("network", more, self.parent.fixed.network)
        if more := exceeding(own, has):
            raise beyond("profile", child.profile, f"a boundary without {more}")
        self._check_lent(self._services.adapters[child.adapter].spec.credentials)
        boot = self.parent.boot
        wall = min(child.wall, parent.wall, key=lambda moment: moment.due_boottime_s(boot))
        return evolve(planned, record=evolve(child, wall=wall))

    def _check_lent(self, credentials: tuple[str, ...]) -> None:
        """What a person lent is in memory only, and a daemon that came later does not know it."""
        lent = self.parent.fixed.lent
        gone = [name for name in credentials if name in lent and name not in self.parent.lent]
        if gone:
            raise RpcError(
                "Conflict",
                f"cannot start: {', '.join(gone)} was lent to the run that asks in memory only,"
                " and the daemon was restarted since",
                hint="the user has to start it again",
                detail={"lent": gone},
            )


def least(limit: Any, other: Any) -> Any:
    """The smaller of two limits; None is none at all."""
    given = [each for each in (limit, other) if each is not None]
    return min(given, default=None)


def beyond(fact: str, wanted: object, has: object) -> RpcError:
    """A refusal that names the fact in which a child would exceed its parent."""
    return RpcError(
        "Denied",
        f"cannot start: {fact}: {wanted} is more than the run that asks can give ({has})",
        hint=f"leave {f'--{fact}' if fact in OPTIONS else 'it'} out to have what it has",
        detail={"fact": fact},
    )


def _words(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
