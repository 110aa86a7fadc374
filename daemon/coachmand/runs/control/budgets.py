"""What a run may use up: tokens and dollars, looked at whenever its agent tells of any."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ..facts.deadlines import LIVING
from ..facts.grants import Delegate, Limits
from . import inbox
from .costs import cost_of

if TYPE_CHECKING:
    from ..run import Run


HANDED_OUT = "delegate."


@frozen
class Exceeded:
    """The limit that was passed.

    ``which`` is a member of `Limits`, or after ``delegate.`` one of what its ancestor hands out.
    """

    which: str
    limit: float
    used: float

    def words(self) -> str:
        """The same for people."""
        who = "the runs below its parent" if self.which.startswith(HANDED_OUT) else "it"
        if self.which.endswith("tokens"):
            return f"{who} used {self.used:,.0f} tokens of {self.limit:,.0f}"
        return f"{who} cost ${self.used:.4f} of ${self.limit:.4f}"


def exceeded(limits: Limits | Delegate, tokens: int | None, usd: float | None) -> Exceeded | None:
    """The first limit that was passed."""
    if limits.tokens is not None and tokens is not None and tokens > limits.tokens:
        return Exceeded("tokens", limits.tokens, tokens)
    if limits.cost_usd is not None and usd is not None and usd > limits.cost_usd:
        return Exceeded("cost_usd", limits.cost_usd, usd)
    return None


class Budget:
    """Ends ``run`` once it has used more than it may."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._usd: float | None = None
        self._priced: Mapping[str, int] | None = None
        self._pricing = False

    def __repr__(self) -> str:
        return f"<Budget of {self._run.fixed.handle}: {self._run.fixed.limits}>"

    async def check(self) -> None:
        """Compare what was used with what may be."""
        run, view = self._run, self._run.view
        if view.exceeded is not None:
            return
        found = exceeded(run.fixed.limits, *all_of_it(run, self.usd)) or self._handed_out()
        if found is None:
            self._price()
            return
        members = {"which": found.which, "limit": found.limit, "used": found.used}
        told = [Entry(v.BUDGET_EXCEEDED, members)]
        if view.state in LIVING:
            await run.stop("over_budget", told=told)
        else:
            await run.record(told)

    @property
    def usd(self) -> float | None:
        """What the run cost so far, as far as that is known."""
        view = self._run.view
        return self._usd if view.cost_usd is None else view.cost_usd

    def _handed_out(self) -> Exceeded | None:
        """What an ancestor may hand out, once all those below it together used more."""
        families = self._run.services.families
        for ancestor in families.above(self._run.fixed.ancestors):
            if (granted := ancestor.fixed.delegate) is not None:
                spent = families.spent_below(ancestor.fixed.run)
                found = exceeded(granted, spent.tokens, spent.usd)
                if found is not None:
                    return evolve(found, which=f"{HANDED_OUT}{found.which}")
        return None

    def priced(self, told: inbox.Priced) -> None:
        """What the tokens of before cost."""
        self._usd, self._pricing = told.usd, False
        self._run.services.families.told(self._run)

    def _price(self) -> None:
        """Have what was used multiplied, where the agent tells no cost itself."""
        run, usage = self._run, self._run.view.usage
        wanted = run.fixed.limits.cost_usd is not None and run.view.cost_usd is None
        if wanted and usage and usage != self._priced and not self._pricing:
            self._priced, self._pricing = usage, True
            run.spawn(self._look_up)

    async def _look_up(self) -> None:
        cost = await cost_of(self._run)
        self._run.post(inbox.Priced(cost["usd"] if cost else None))


def all_of_it(run: "Run", usd: float | None) -> tuple[int | None, float | None]:
    """What a run, whose own cost is ``usd``, used together with all below it."""
    below, tokens = run.services.families.spent_below(run.fixed.run), (run.view.usage or {})
    if not (below.tokens or below.usd):
        return tokens.get("total"), usd
    return tokens.get("total", 0) + below.tokens, (usd or 0.0) + below.usd


def over(run: "Run", cost: Mapping[str, Any] | None) -> str:
    """Which limit a run that comes to its end has passed, in words; "" for none."""
    if run.view.exceeded is not None:
        return Exceeded(**run.view.exceeded).words()
    found = exceeded(run.fixed.limits, *all_of_it(run, cost["usd"] if cost else None))
    return found.words() if found is not None else ""
