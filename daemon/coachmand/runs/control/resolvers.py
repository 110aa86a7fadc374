"""Who is asked about a question besides people: the run's rules, its file, its hook."""

from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import define, field

from ...durable import DiskError
from ...evidence.state import StateDirectory
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...permissions import hook, modes
from ...permissions.answers import AnswerError, Given, read_answer
from ...permissions.exchange import Exchange, UnreadableError
from ...permissions.handlers import Handler
from ...permissions.hook import HookError
from ...permissions.inotify import GoneError, Watch
from ...permissions.programs import UntrustedError
from ...permissions.rules import Judgement, judge
from ...permissions.subjects import Workspace, subject_of
from ...rpc.errors import RpcError
from ..facts.clock import epoch_ms
from ..facts.members import Permission
from ..facts.places import workspace_of
from ..facts.record import Record
from . import inbox

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("run")
# One that opened nothing, or did not answer: the question is left to the others.
FAILURES = (UntrustedError, HookError, AnswerError, DiskError, OSError)
NOTHING = "/nonexistent"
UNCLEAR = "it cannot be told for certain whether this rule is about it"


@define(eq=False)
class Offer:
    """A question that handlers have. ``settled``: it needs no answer any more."""

    request: str
    document: dict[str, Any]
    scopes: list[trio.CancelScope] = field(factory=list)
    settled: bool = False

    def settle(self) -> None:
        """Take it back from whoever has it."""
        self.settled = True
        for scope in self.scopes:
            scope.cancel()


class Resolvers:
    """Asks rules, and hands questions over to the handlers of ``run``'s record."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._offers: dict[str, Offer] = {}

    def __repr__(self) -> str:
        return f"<Resolvers of {self._run.fixed.handle}, {len(self._offers)} offered>"

    # --- standing decisions ---

    async def standing(self, asked: Permission) -> modes.Decision | None:
        """What rules and mode decide by themselves; None where somebody has to be asked."""
        fixed = self._run.fixed
        judged = await self._judged(asked)
        if judged is None:
            return modes.standing(fixed.permissions, asked.options)
        if judged.decide == "ask" and not asked.passed:
            reason = UNCLEAR if judged.unclear else "it says to ask"
            await self.note(asked.request, modes.by_rule(judged), reason)
        return modes.ruled(judged, asked.options)

    async def _judged(self, asked: Permission) -> Judgement | None:
        run = self._run
        if not run.fixed.rules:
            return None
        # Where there is no worktree, nothing can be made in its place either.
        tree = run.fixed.worktree or NOTHING
        workspace = Workspace(workspace_of(run.fixed), tree, run.view.site.subfolder)
        subject = await trio.to_thread.run_sync(subject_of, asked.tool, workspace)
        return judge(run.fixed.rules, subject)

    async def note(self, request: str, by: dict[str, Any], reason: str) -> None:
        """Record that one of them left a question to the next."""
        members = {"request": request, "by": by, "reason": reason}
        await self._run.record([Entry(v.PERMISSION_PASSED, members)])

    # --- handlers ---

    def offer(self, asked: Permission) -> None:
        """Hand a question over; whoever answers first is heard in the run's inbox."""
        offer = Offer(asked.request, self._document(asked))
        self._offers[asked.request] = offer
        for handler in self._run.fixed.handlers:
            self._run.spawn(self._hand_over, handler, offer)

    def withdraw(self, request: str) -> None:
        """A question is settled."""
        if (offer := self._offers.pop(request, None)) is not None:
            offer.settle()

    def keep(self, requests: Any) -> None:
        """All other questions are settled."""
        for request in [request for request in self._offers if request not in requests]:
            self.withdraw(request)

    async def tidy(self) -> None:
        """Take away what an earlier daemon showed of this run and nobody waits for any more."""
        pending = self._run.view.pending
        for handler in self._run.fixed.handlers:
            if handler.kind == "file":
                try:
                    await trio.to_thread.run_sync(self._tidy, handler, frozenset(pending))
                except FAILURES:
                    continue  # whoever has a question next says so

    def _tidy(self, handler: Handler, pending: frozenset[str]) -> None:
        exchange = self._exchange(handler)
        shown = exchange.shown() or {}
        if shown.get("run") == self._run.fixed.run and shown.get("request") not in pending:
            exchange.clear()

    async def _hand_over(self, handler: Handler, offer: Offer) -> None:
        ask = self._by_file if handler.kind == "file" else self._by_hook
        with trio.CancelScope() as scope:
            offer.scopes.append(scope)
            if offer.settled:
                return
            try:
                await ask(handler, offer)
            except GoneError:
                self._passed(handler, offer, f"the directory of {handler.path} is gone")
            except OSError as error:
                self._passed(handler, offer, f"{handler.path} cannot be used: {error.strerror}")
            except FAILURES as error:
                self._passed(handler, offer, str(error))
            except Exception as error:
                # Whatever it is, the run is not to suffer from it.
                log.error("handler_failed", handler=handler.path, exc_info=error)
                self._passed(handler, offer, "it failed; the daemon's log says more")

    def _passed(self, handler: Handler, offer: Offer, reason: str) -> None:
        if not offer.settled:
            self._run.post(inbox.Passed(offer.request, handler.by, reason[:1000]))

    # --- the file ---

    async def _by_file(self, handler: Handler, offer: Offer) -> None:
        exchange = await trio.to_thread.run_sync(self._exchange, handler)
        # In the order in which they were asked: the lock is fair.
        async with exchange.turn:
            with Watch(exchange.fd) as watch:
                try:
                    # Given to an earlier daemon. One that comes from now on is taken once its
                    # writer is through with it, which the watch tells.
                    answered = await trio.to_thread.run_sync(exchange.is_answered)
                    await trio.to_thread.run_sync(exchange.show, offer.document)
                    reach("permission.shown")
                    while not (answered and await self._taken(exchange, handler, offer)):
                        await watch.wait_for(exchange.response_name)
                        answered = True
                finally:
                    # One that is not settled is answered while no daemon runs, maybe.
                    if offer.settled:
                        with trio.CancelScope(shield=True):
                            await trio.to_thread.run_sync(exchange.clear)

    async def _taken(self, exchange: Exchange, handler: Handler, offer: Offer) -> bool:
        """Whether an answer lay there that was accepted; what is wrong with another is told."""
        try:
            data = await trio.to_thread.run_sync(exchange.take)
            if data is None:
                return False
            reach("permission.taken")
            given = read_answer(data)
            if given is None:
                raise AnswerError("it names neither `option` nor `kind`")
            given.check_of(offer.document, needed=("run", "request"))
            await self._answer(handler, offer, given)
        except (AnswerError, UnreadableError) as error:
            text = f"the answer in {handler.path}.req.response is not taken: {error}"
            told = {"run": self._run.fixed.run, "request": offer.request, "error": text}
            await trio.to_thread.run_sync(exchange.complain, {**told, "at": epoch_ms()})
            self._passed(handler, offer, text)
            return False
        return True

    def _exchange(self, handler: Handler) -> Exchange:
        return self._run.services.exchanges.open(handler.path, self._trees)

    # --- the hook ---

    async def _by_hook(self, handler: Handler, offer: Offer) -> None:
        services, fixed = self._run.services, self._run.fixed
        program = await trio.to_thread.run_sync(
            services.programs.pin, handler.path, self._trees, handler.sha256
        )
        names = {"COACHMAN_RUN": fixed.run, "COACHMAN_REQUEST": offer.request}
        environment = {**hook.lent(services.environment), **names}
        document = hook.document(offer.document)
        async with services.hooks.taken(fixed.root):
            data = await hook.ask(program, document, environment, limit_s=fixed.hook_s)
        reach("permission.hooked")
        given = read_answer(data)
        if given is None:
            raise HookError("it left the question to others")
        given.check_of(offer.document)
        await self._answer(handler, offer, given)

    async def _answer(self, handler: Handler, offer: Offer, given: Given) -> None:
        """Give the run an answer. Raises AnswerError where that is not one that it takes."""
        reply = inbox.Reply()
        self._run.post(
            inbox.Answered(
                handler.by, reply, offer.request, given.option, given.kind, given.message
            )
        )
        try:
            await reply.wait()
        except RpcError as refusal:
            raise AnswerError(str(refusal)) from refusal

    # --- what they are told ---

    def _document(self, asked: Permission) -> dict[str, Any]:
        fixed = self._run.fixed
        names = ("run", "handle", "task", "agent", "profile", "dir", "worktree", "title")
        return {
            "format": 1,
            **{name: getattr(fixed, name) for name in names},
            "labels": dict(fixed.labels),
            **asked.public(),
        }

    @property
    def _trees(self) -> tuple[str, ...]:
        return trees_of(self._run.fixed, self._run.services.state)


def trees_of(record: Record, state: StateDirectory) -> tuple[str, ...]:
    """The trees that agents write or are given: nothing that answers for the user lies there."""
    own = map(str, (state.root, state.worktrees, state.sealed))
    worktree = (record.worktree,) if record.repository.is_there else ()
    return (*worktree, *record.repository.roots, *own)
