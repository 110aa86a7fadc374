"""The open questions of one run: rules, a person, a handler or the deadline decide, once each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...permissions import modes
from ...permissions.choice import ChoiceError, by_person
from ...rpc.errors import RpcError
from ..facts import deadlines
from ..facts.clock import Moment, boottime_s
from ..facts.members import Permission
from . import inbox
from .resolvers import Resolvers

if TYPE_CHECKING:
    from ..run import Run

# What those are called that answer before somebody else does.
WHO = {
    "rule": "a rule",
    "policy": "the mode",
    "file": "the file handler",
    "hook": "the hook",
    "deadline": "the deadline",
    "agent": "the agent itself",
    "cancel": "a cancel",
    "interrupt": "an interrupt",
}


class Questions:
    """Resolves what the agent of ``run`` asks."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._view = run.view
        self._resolvers = Resolvers(run)
        self.due_s: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Questions {self._run.fixed.permissions}, {len(self._view.pending)} open>"

    async def decide(self) -> None:
        """Settle what needs nobody; give the rest its deadline, and to whoever may answer."""
        view = self._view
        self._resolvers.keep(view.pending)
        for request, asked in list(view.pending.items()):
            if view.cancel_told or view.finished:
                interrupted = view.interrupted == view.turn and view.state != "stopping"
                why = modes.withdrawn("interrupt" if interrupted else "cancel")
                self._resolvers.withdraw(request)
                await self._run.record([resolved(request, why)])
            elif request not in self.due_s:
                await self._open(asked)

    async def _open(self, asked: Permission) -> None:
        decision = await self._resolvers.standing(asked)
        if decision is not None:
            await self._resolve(asked, decision)
        else:
            self.due_s[asked.request] = self._first_due_s(asked)
            self._resolvers.offer(asked)

    async def passed(self, message: inbox.Passed) -> None:
        """A handler left a question to the others."""
        if message.request in self._view.pending:
            await self._resolvers.note(message.request, message.by, message.reason)

    async def found_again(self) -> None:
        """After a crash: nobody shall be shown what is settled."""
        await self._resolvers.tidy()

    def close(self) -> None:
        """The run is over, and with it every question."""
        self._resolvers.keep(())

    def _first_due_s(self, asked: Permission) -> float:
        moment = Moment(
            asked.deadline_boot or "", asked.deadline_boottime_s or 0.0, asked.deadline or 0
        )
        due_s = moment.due_boottime_s(self._run.boot)
        return deadlines.permission_due_after_restart_s(due_s, boottime_s())

    async def expire(self, request: str) -> None:
        """Nobody answered in time."""
        asked = self._view.pending.get(request)
        if asked is None:
            self.due_s.pop(request, None)
            return
        members = {"which": "permission", "request": request}
        await self._run.record([Entry(v.DEADLINE_EXPIRED, members)])
        await self._resolve(asked, modes.expired(asked.options))

    async def answer(self, given: inbox.Answered) -> None:
        """Carry a person's answer out, or tell them why not."""
        try:
            chosen = await self._answer(given)
            reach("permission.answered")
            given.reply.give(chosen)
        except RpcError as error:
            given.reply.refuse(error)

    async def _answer(self, given: inbox.Answered) -> Mapping[str, Any]:
        asked = self._view.pending.get(given.request)
        if asked is None:
            raise self._not_open(given.request)
        try:
            chosen = by_person(asked.options, option=given.option, kind=given.kind)
        except ChoiceError as error:
            text = f"cannot answer {given.request}: {error}"
            raise RpcError("InvalidParams", text) from error
        if chosen.get("requires_message") and not given.message:
            text = f"cannot answer {given.request}: option {chosen['id']} needs a message"
            raise RpcError("InvalidParams", text, hint="pass it with -m TEXT")
        # A handler may say why to whoever reads the journal; a person would wait in vain. Of a
        # question that an earlier version asked nobody knows.
        hears = chosen.get("takes_message", True) or given.by["resolver"] != "client"
        if given.message and not hears:
            raise RpcError(
                "InvalidParams",
                f"cannot answer {given.request}: option {chosen['id']} takes no message,"
                " so the agent would not hear it",
                hint="answer without one; a prompt tells the agent more",
                detail={"member": "message"},
            )
        await self._resolve(
            asked,
            modes.Decision(chosen["id"], chosen["kind"], "selected", given.by, given.message),
        )
        return chosen

    def _not_open(self, request: str) -> RpcError:
        answered = self._view.answered.get(request)
        if answered is None:
            return RpcError("NotFound", f"cannot answer {request}: the run asks nothing of that id")
        by = answered.get("by") or {}
        who = by.get("user") or WHO.get(by.get("resolver", "")) or "somebody"
        text = f"cannot answer {request}: {who} answered it before you"
        return RpcError("Conflict", text, detail=answered)

    async def _resolve(self, asked: Permission, decision: modes.Decision) -> None:
        """One line is the input and says what was decided; the second tells everyone."""
        self.due_s.pop(asked.request, None)
        await self._run.living_attempt().tell(
            "answer",
            {"request": asked.request, **decision.members()},
            companions=[resolved(asked.request, decision)],
        )
        self._resolvers.withdraw(asked.request)


def resolved(request: str, decision: modes.Decision) -> Entry:
    """The line that tells everyone what became of a question."""
    members = decision.members()
    members["kind"] = members.pop("option_kind")
    return Entry(v.PERMISSION_RESOLVED, {"request": request, **members})
