"""What a run may use up: tokens and dollars, looked at whenever its agent tells of any."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from attrs.validators import optional

from ..journal import vocabulary as v
from ..journal.lines import Entry
from ..rpc.params import must
from . import inbox
from .costs import cost_of
from .deadlines import LIVING

if TYPE_CHECKING:
    from .run import Run


_ABOVE_0 = must("a number above 0", lambda limit: limit > 0)


@frozen
class Limits:
    """How many tokens and dollars a run may use; None: as many as it likes."""

    tokens: int | None = field(default=None, validator=optional(_ABOVE_0))
    cost_usd: float | None = field(default=None, validator=optional(_ABOVE_0))


@frozen
class Exceeded:
    """The limit that was passed: ``which`` is a member of `Limits`."""

    which: str
    limit: float
    used: float

    def words(self) -> str:
        """The same for people."""
        if self.which == "tokens":
            return f"it used {self.used:,.0f} tokens of {self.limit:,.0f}"
        return f"it cost ${self.used:.4f} of ${self.limit:.4f}"


def exceeded(limits: Limits, usage: Mapping[str, int] | None, usd: float | None) -> Exceeded | None:
    """The first limit that was passed."""
    tokens = (usage or {}).get("total")
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
        usd = self._usd if view.cost_usd is None else view.cost_usd
        found = exceeded(run.fixed.limits, view.usage, usd)
        if found is None:
            self._price()
            return
        members = {"which": found.which, "limit": found.limit, "used": found.used}
        told = [Entry(v.BUDGET_EXCEEDED, members)]
        if view.state in LIVING:
            await run.stop("over_budget", told=told)
        else:
            await run.record(told)

    def priced(self, told: inbox.Priced) -> None:
        """What the tokens of before cost."""
        self._usd, self._pricing = told.usd, False

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


def over(limits: Limits, usage: Mapping[str, int] | None, cost: Mapping[str, Any] | None) -> str:
    """Which limit a run that has ended had passed, in words; "" for none."""
    found = exceeded(limits, usage, cost["usd"] if cost else None)
    return found.words() if found is not None else ""
