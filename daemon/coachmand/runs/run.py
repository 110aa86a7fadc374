"""One run: one task with one inbox, which alone writes the run's journal.

Everything that happens to a run arrives as a message and is carried out in
order, so an end never overtakes what came before it. What follows from the state
is decided by looking at the state (`_advance`), never by remembering that
something was about to be done: a run that is found again after a crash goes on
through the same code.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
import trio

from ..evidence.rundir import RunDirectory
from ..journal import vocabulary as v
from ..journal.lines import Entry
from ..journal.log import Journal
from ..permissions import modes
from ..permissions.choice import ChoiceError, by_person
from ..redaction import Redactor
from ..rpc.errors import RpcError
from . import adoption, deadlines, inbox, ladder, transitions
from .attempt import Attempt
from .clock import Moment, boottime_s
from .conclusion import conclude, product_of, write_result
from .epilogue import run_epilogue
from .prepare import Launch, admin_dir, prepare
from .record import Record
from .services import Services
from .view import Permission, View

log = structlog.get_logger("run")


class Run:
    """A living run. ``environment`` holds the caller's variables, in memory only."""

    def __init__(
        self,
        record: Record,
        directory: RunDirectory,
        journal: Journal,
        view: View,
        services: Services,
        environment: Mapping[str, str],
        *,
        broken: bool = False,
    ) -> None:
        self.broken = broken
        self.taken_up_again = broken
        self.fixed = record
        self.directory = directory
        self.journal = journal
        self.view = view
        self.services = services
        self.environment = environment
        self.boot = services.boot
        self.permission_s = record.permission_s
        self._send, self._receive = trio.open_memory_channel[inbox.Message](1024)
        self._output_is_due = False
        self._preparing = trio.CancelScope()
        self._rung: ladder.Rung | None = None
        self._rung_due_s: float | None = None
        self._exit: dict[str, Any] | None = None
        self._epilogue: inbox.EpilogueDone | None = None
        self._epilogue_started = False
        self._concluding = False
        self._failure: str | None = None
        self._permissions_due_s: dict[str, float] = {}
        self.launch: Launch | None = None
        self.attempt: Attempt | None = None

    def __repr__(self) -> str:
        return f"<Run {self.fixed.handle} {self.view!r} {self.attempt!r}>"

    # --- the task ---

    async def live(self) -> None:
        """Carry the run to its end, from wherever it is."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            if self.broken and self.view.state != "ended":
                await adoption.end_broken(self)
                await self._advance()
            elif self.view.state == "ended":
                # A crash came between the end and the result that is derived from it.
                await write_result(self, await product_of(self))
            else:
                await adoption.resume(self)
                await self._advance()
            while self.view.state != "ended":
                message = await self._next()
                if message is not None:
                    await self._take(message)
                await self._expire_due()
                await self._advance()
            nursery.cancel_scope.cancel()

    def let_go(self) -> None:
        """Close the logs and the link; an agent that lives goes on in its keeper."""
        if self.attempt is not None:
            self.attempt.close()
        self.journal.close()

    def post(self, message: inbox.Message) -> None:
        """Put a message in the inbox; updates of stdout are merged into one."""
        if isinstance(message, inbox.OutputGrew):
            if self._output_is_due:
                return
            self._output_is_due = True
        self._send.send_nowait(message)

    def spawn(self, function: Any, *args: Any) -> None:
        """Start a task that lives within the run's own."""
        self._nursery.start_soon(function, *args)

    @property
    def nursery(self) -> trio.Nursery:
        """Where the run's helpers live."""
        return self._nursery

    async def record(self, entries: Sequence[Entry]) -> None:
        """Append to the journal and keep the view current."""
        view = self.view
        here = {"attempt": view.attempt, "turn": view.turn, "session": view.session}
        envelope = {name: value for name, value in here.items() if value}
        events = await self.journal.append(entries, envelope)
        for event in events:
            view.apply(event)
        if any(event["type"] in v.CHANGES for event in events):
            self.services.on_change()

    async def enter(self, state: str, reason: str | None = None) -> None:
        """Go over to another state."""
        current = self.view.state
        transitions.check(current, state)
        members = {"from": current, "to": state, "reason": reason}
        await self.record([Entry(v.RUN_STATE, members)])

    async def _next(self) -> inbox.Message | None:
        due_s = min((d.due_s for d in self._deadlines()), default=None)
        limits = [trio.current_time() + max(0.0, due_s - boottime_s())] if due_s is not None else []
        if self.journal.sync_due_s is not None:
            limits.append(trio.current_time() + 1.0)
        with trio.move_on_at(min(limits, default=trio.current_time() + 3600)):
            return await self._receive.receive()
        await self.journal.sync()
        return None

    async def _take(self, message: inbox.Message) -> None:
        match message:
            case inbox.OutputGrew():
                self._output_is_due = False
                if self.attempt is not None and await self.attempt.feed():
                    self.post(inbox.OutputGrew())
            case inbox.Answered():
                await self._answer(message)
            case inbox.CancelAsked(by=by, reply=reply):
                await self._cancel(by, reply)
            case inbox.Admitted():
                await self._admitted()
            case inbox.Prepared(launch=launch):
                await self._prepared(launch)
            case inbox.Failed(message=text):
                self._failure = text
            case inbox.Exited(exit=exit):
                self._exit = exit
            case inbox.KeeperGone():
                await adoption.find_keeper(self)
            case inbox.EpilogueDone():
                self._epilogue = message
            case inbox.Concluded(product=product):
                await conclude(self, product)

    # --- from queued to active ---

    async def _admitted(self) -> None:
        if self.view.state == "queued":
            await self.enter("preparing")
            self.start_preparing()

    def start_preparing(self) -> None:
        """Put worktree, home and policy in place; a message tells when they are."""
        self.spawn(self._prepare)

    async def _prepare(self) -> None:
        with self._preparing:
            try:
                launch = await prepare(self.fixed, self.directory, self.services, self.environment)
            except RpcError as error:
                self.post(inbox.Failed(error.message))
            else:
                self.post(inbox.Prepared(launch))

    async def _prepared(self, launch: Launch) -> None:
        self.launch = launch
        if self.view.state == "preparing":
            await adoption.start_attempt(self, launch)

    def fail(self, message: str) -> None:
        """No agent could be started: "cannot X: Y"."""
        self._failure = message

    def redact(self, secrets: Iterable[str]) -> None:
        """Mask these values in everything that is written from now on."""
        self.journal.redactor = Redactor(secrets)

    def conclude_again(self, exit: dict[str, Any]) -> None:
        """The attempt's end is on record already: only the run's own is missing."""
        self._exit, self._concluding = exit, True
        self.spawn(self._gather)

    def exited(self, exit: dict[str, Any]) -> None:
        """The keeper says that the tree is gone."""
        self.post(inbox.Exited(exit))

    def lost(self, why: str) -> None:
        """The agent's end cannot be known."""
        self._exit = {"lost": why}

    # --- what follows from the state ---

    async def _advance(self) -> None:
        view = self.view
        if view.state == "ended" or self._concluding:
            return
        if self._failure is not None or (self.attempt is None and view.state == "stopping"):
            await self._end_without_agent()
            return
        if self.attempt is None:
            return
        if self._is_lost:
            await self._end_lost()
        elif not self.attempt.behind:
            await self._decide_permissions()
            await self._mirror_waiting()
            await self._close_after_turn()
            await self._finish()

    @property
    def _is_lost(self) -> bool:
        return self._exit is not None and "lost" in self._exit

    async def _decide_permissions(self) -> None:
        assert self.attempt is not None
        for request, asked in list(self.view.pending.items()):
            decision = modes.standing(self.fixed.permissions, asked.options)
            if self.view.cancel_told or self.view.finished:
                await self.record([_resolved(request, modes.withdrawn("cancel"))])
            elif decision is not None:
                await self._resolve(asked, decision)
            elif request not in self._permissions_due_s:
                self._permissions_due_s[request] = self._permission_due_s(asked)

    def _permission_due_s(self, asked: Permission) -> float:
        due = Moment(
            asked.deadline_boot or "", asked.deadline_boottime_s or 0.0, asked.deadline or 0
        ).due_boottime_s(self.boot)
        return deadlines.permission_due_after_restart_s(due, boottime_s())

    async def _mirror_waiting(self) -> None:
        if self.view.state == "active" and self.view.pending:
            await self.enter("waiting", "permission")
        elif self.view.state == "waiting" and not self.view.pending:
            await self.enter("active")

    async def _close_after_turn(self) -> None:
        """A bounded run closes after its first turn: the agent may take its leave."""
        view = self.view
        if not (view.turn_over and view.stdin_closed) or self._exit is not None:
            return
        if view.state in ("active", "waiting"):
            await self.enter("stopping", "turn_ended")
        if view.state == "stopping" and self._rung in (None, ladder.CANCEL):
            self._climb_to(ladder.CLOSE_STDIN)

    async def _finish(self) -> None:
        attempt, view, exit = self.attempt, self.view, self._exit
        assert attempt is not None
        if exit is None or not attempt.stdout_is_read(exit.get("stdout_bytes") or 0):
            return
        if view.state != "stopping":
            await self.enter("stopping", "agent_exited")
        self._rung_due_s = None
        if not view.finished and self._wants_epilogue():
            return
        if not view.finished:
            done = self._epilogue is not None and self._epilogue.output is not None
            payload = {key: exit.get(key) for key in ("exit_code", "signal")}
            given = {**payload, "epilogue": done}
            ending = await trio.to_thread.run_sync(
                attempt.ending, adoption.finish_input(attempt, given)
            )
            await attempt.tell("finish", given, ending=ending)
        await self._conclude_attempt(exit)

    def _wants_epilogue(self) -> bool:
        """Whether we still wait for the epilogue; starts it where it is wanted."""
        launch, view = self.launch, self.view
        if launch is None or not launch.epilogue or not view.session or not view.turn_over:
            return False
        if not self._epilogue_started:
            self._epilogue_started = True
            self.spawn(run_epilogue, self, launch, view.session)
        return self._epilogue is None

    async def _conclude_attempt(self, exit: Mapping[str, Any]) -> None:
        self._concluding = True
        if not self.view.attempt_over:
            leftovers = [
                _resolved(request, modes.withdrawn("agent")) for request in self.view.pending
            ]
            await self.record([*leftovers, Entry(v.ATTEMPT_ENDED, {"exit": dict(exit)})])
        self.spawn(self._gather)

    async def _gather(self) -> None:
        self.post(inbox.Concluded(await product_of(self)))

    async def _end_lost(self) -> None:
        assert self._exit is not None
        if self.view.state != "stopping":
            await self.enter("stopping", self._exit["lost"])
        await self._conclude_attempt(self._exit)

    async def _end_without_agent(self) -> None:
        if self.view.state != "stopping":
            await self.enter("stopping", "start_failed" if self._failure else None)
        self._concluding = True
        self._preparing.cancel()
        if self.attempt is not None and not self.view.attempt_over:
            await self.record([Entry(v.ATTEMPT_ENDED, {"exit": None})])
        self.spawn(self._gather)

    @property
    def failure(self) -> str | None:
        """Why no agent could be started."""
        return self._failure

    @property
    def exit(self) -> dict[str, Any] | None:
        """The keeper's record of the agent's end."""
        return self._exit

    async def snapshot_now(self) -> tuple[str, str]:
        """Commits of the run's start and of its tree as it is at this moment. Raises RepoError."""
        repo = self.fixed.repository
        start = self.view.start_commit or repo.base
        snapshot = await self.services.workers.snapshot(
            repo.common_dir,
            admin_dir(self.fixed),
            self.fixed.worktree,
            ref=None,
            parents=(start,),
            message=f"coachman: run {self.fixed.run}, not ended",
        )
        return start, snapshot.commit

    # --- answers, cancels, deadlines ---

    async def _answer(self, message: inbox.Answered) -> None:
        asked = self.view.pending.get(message.request)
        if asked is None or self.attempt is None or self.attempt.behind:
            message.reply.refuse(self._no_such_question(message.request))
            return
        try:
            chosen = by_person(asked.options, option=message.option, kind=message.kind)
        except ChoiceError as error:
            refusal = RpcError("InvalidParams", f"cannot answer {message.request}: {error}")
            message.reply.refuse(refusal)
            return
        if chosen.get("requires_message") and not message.message:
            text = f"cannot answer {message.request}: option {chosen['id']} needs a message"
            message.reply.refuse(RpcError("InvalidParams", text, hint="pass it with -m TEXT"))
            return
        decision = modes.Decision(
            chosen["id"], chosen["kind"], "selected", message.by, message.message
        )
        await self._resolve(asked, decision)
        message.reply.give(chosen)

    def _no_such_question(self, request: str) -> RpcError:
        if (answered := self.view.answered.get(request)) is None:
            return RpcError("NotFound", f"cannot answer {request}: the run asks nothing of that id")
        by = answered.get("by") or {}
        who = by.get("user") or by.get("resolver") or "somebody"
        text = f"cannot answer {request}: {who} answered it before you"
        return RpcError("Conflict", text, detail=answered)

    async def _resolve(self, asked: Permission, decision: modes.Decision) -> None:
        """One line says what was decided and is the input; the second tells everyone."""
        assert self.attempt is not None
        self._permissions_due_s.pop(asked.request, None)
        payload = {"request": asked.request, **decision.members()}
        await self.attempt.tell("answer", payload, companions=[_resolved(asked.request, decision)])

    async def _cancel(self, by: dict[str, Any], reply: inbox.Reply) -> None:
        already = self.view.state in ("stopping", "ended")
        if not already:
            await self._stop("cancelled", by)
        reply.give({"already": already})

    async def _stop(self, reason: str, by: Mapping[str, Any] | None = None) -> None:
        await self.record([Entry(v.RUN_STATE, self._stopping(reason, by))])
        if self.attempt is not None:
            await self._climb()

    def _stopping(self, reason: str, by: Mapping[str, Any] | None) -> dict[str, Any]:
        transitions.check(self.view.state, "stopping")
        members = {"from": self.view.state, "to": "stopping", "reason": reason}
        return {**members, "by": dict(by)} if by else members

    def _deadlines(self) -> list[deadlines.Deadline]:
        attempt = self.attempt
        return deadlines.pending(
            deadlines.Facts(
                self.view.state,
                self.fixed.wall.due_boottime_s(self.boot),
                self._permissions_due_s,
                attempt.timers_due_s if attempt is not None and self._exit is None else {},
                self._rung_due_s,
            )
        )

    async def _expire_due(self) -> None:
        if self.attempt is not None and self.attempt.behind:
            return
        for deadline in self._deadlines():
            if deadline.due_s > boottime_s():
                return
            await self._expire(deadline)

    async def _expire(self, deadline: deadlines.Deadline) -> None:
        match deadline.which:
            case "timer" if self.attempt is not None:
                await self.attempt.expire(deadline.key)
            case "ladder":
                await self._climb()
            case "permission" if (asked := self.view.pending.get(deadline.key)) is not None:
                members = {"which": "permission", "request": deadline.key}
                await self.record([Entry(v.DEADLINE_EXPIRED, members)])
                await self._resolve(asked, modes.expired(asked.options))
            case "wall" if self.view.state not in ("stopping", "ended"):
                await self.record([Entry(v.DEADLINE_EXPIRED, {"which": "wall"})])
                await self._stop("wall")

    # --- the ladder ---

    def _climb_to(self, rung: ladder.Rung) -> None:
        self._rung, self._rung_due_s = rung, boottime_s() + rung.grace_s

    async def _climb(self) -> None:
        assert self.attempt is not None
        rung = ladder.after(self._rung) or ladder.KILL
        if rung is ladder.CANCEL and (self.view.turn_over or not self.view.told_start):
            rung = ladder.CLOSE_STDIN
        if self._rung is ladder.KILL:
            log.error("tree_survives", run=self.fixed.run)
        self._climb_to(rung)
        match rung.name:
            case "cancel" if not self.view.cancel_told:
                await self.attempt.tell("cancel")
            case "close_stdin":
                await self.attempt.close_stdin()
            case "term":
                await self.attempt.signal("agent", signal.SIGTERM)
            case "kill":
                await self.attempt.signal("tree", signal.SIGKILL)


def _resolved(request: str, decision: modes.Decision) -> Entry:
    members = decision.members()
    members["kind"] = members.pop("option_kind")
    return Entry(v.PERMISSION_RESOLVED, {"request": request, **members})
