"""What a run asks its parent, or whoever watches, in words: answered once, by whoever is first.

The agent waits within a tool of its own (`coachman ask`), so a question is part of its turn: it
is withdrawn when that is over. Unlike a permission it is no part of the conversation.
"""

from typing import TYPE_CHECKING, Any

from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...rpc.errors import RpcError
from ..facts import deadlines
from ..facts.clock import Moment, boottime_s
from ..facts.deadlines import Limit
from ..facts.members import Question
from . import inbox

if TYPE_CHECKING:
    from ..run import Run

MAX_OPEN = 8
BUSY_RETRY_S = 5.0
SHOWN_CHARACTERS = 200
# Who settles a question that nobody answered.
WHO = {"deadline": "its deadline", "turn": "the end of its turn"}


class Asking:
    """The questions of ``run`` that are open, and what came of the last ones."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._limits: dict[str, Limit] = {}

    def __repr__(self) -> str:
        return f"<Asking of {self._run.fixed.handle}, {len(self._run.view.questions)} open>"

    async def ask(self, asked: inbox.QuestionAsked) -> None:
        """Put a question, unless it was put before: on disk before anybody is told."""
        run, view = self._run, self._run.view
        if (known := self._known(asked)) is not None:
            asked.reply.give(known)
            return
        self._check(asked)
        due = Moment.now(run.boot, asked.timeout_s or run.fixed.permission_s)
        request = f"q{view.questions_asked + 1}"
        members: dict[str, Any] = {
            "request": request,
            "question": asked.question,
            "options": list(asked.options),
            "deadline": due.epoch_ms,
            "deadline_boottime_s": due.boottime_s,
            "deadline_boot": due.boot,
            **({"key": asked.key} if asked.key is not None else {}),
        }
        await run.record([Entry(v.QUESTION_ASKED, members)])
        reach("question.asked")
        asked.reply.give(request)

    def _known(self, asked: inbox.QuestionAsked) -> str | None:
        """The question that was put with the same key. Raises RpcError where it was another."""
        view = self._run.view
        open_ = {each.key: each.public() for each in view.questions.values()}
        # One that was withdrawn reached nobody: it may be put again.
        replies = [each for each in view.replies.values() if each["outcome"] != "withdrawn"]
        settled = {each["key"]: each for each in replies}
        known = {**settled, **open_}.get(asked.key) if asked.key is not None else None
        if known is None:
            return None
        if (known["question"], tuple(known["options"])) != (asked.question, asked.options):
            text = "cannot ask: another question was asked with this request_key"
            raise RpcError("Conflict", text, detail={"request": known["request"]})
        return str(known["request"])

    def _check(self, asked: inbox.QuestionAsked) -> None:
        run, view = self._run, self._run.view
        ends = view.cancel_told or view.interrupted == view.turn
        if ends or not view.turn_runs or view.state not in ("active", "waiting"):
            raise RpcError(
                "Conflict",
                "cannot ask: no turn of the run that asks is running",
                detail={"state": view.state},
            )
        if len(view.questions) >= MAX_OPEN:
            text = f"cannot ask: {MAX_OPEN} questions of the run that asks are open"
            raise RpcError(
                "Busy",
                text,
                retryable=True,
                retry_after_s=BUSY_RETRY_S,
                detail={"source": "local", "limit": MAX_OPEN, "active": MAX_OPEN},
            )
        most_s = run.fixed.permission_s
        if asked.timeout_s is not None and asked.timeout_s > most_s:
            text = f"cannot ask: timeout_s: {asked.timeout_s:g} is more than a question of the run"
            raise RpcError(
                "Denied",
                f"{text} may wait ({most_s:g})",
                hint="leave it out to wait for so long",
                detail={"fact": "timeout_s"},
            )
        run.services.storage.check("ask")

    async def answer(self, given: inbox.QuestionAnswered) -> None:
        """Settle a question with somebody's words, or tell them who was quicker."""
        if given.request not in self._run.view.questions:
            raise self._not_open(given.request)
        await self._settle(given.request, "answered", given.by, given.answer)
        reach("question.answered")
        given.reply.give({"request": given.request})

    def _not_open(self, request: str) -> RpcError:
        reply = self._run.view.replies.get(request)
        if reply is None:
            return RpcError("NotFound", f"cannot answer {request}: the run asks nothing of that id")
        by = reply["by"] or {}
        who = by.get("user") or WHO.get(by.get("resolver", "")) or "somebody"
        settled = {name: reply[name] for name in ("outcome", "answer", "by")}
        text = f"cannot answer {request}: {who} settled it before you"
        answer = reply["answer"]
        hint = f"the answer: {answer[:SHOWN_CHARACTERS]}" if answer else reply["outcome"]
        return RpcError("Conflict", text, hint=hint, detail=settled)

    async def settle(self) -> None:
        """Withdraw what the agent cannot wait for any more; give the rest its deadline."""
        view = self._run.view
        ends = view.cancel_told or view.interrupted == view.turn or view.state == "stopping"
        over = ends or not view.turn_runs
        for request, asked in list(view.questions.items()):
            if over:
                await self._settle(request, "withdrawn", {"resolver": "turn"})
            elif request not in self._limits:
                self._limits[request] = self._limit(asked)
        self._limits = {name: self._limits[name] for name in self._limits if name in view.questions}

    def limits(self) -> dict[str, Limit]:
        """When each open question is over."""
        return self._limits

    def _limit(self, asked: Question) -> Limit:
        """Its deadline; where that passed while no daemon lived, somebody sees it nevertheless."""
        moment = Moment(asked.deadline_boot, asked.deadline_boottime_s, asked.deadline)
        due_s, now_s = moment.due_boottime_s(self._run.boot), boottime_s()
        due_s = deadlines.permission_due_after_restart_s(due_s, now_s)
        return Limit(due_s, max(0.0, (asked.deadline - asked.asked_at) / 1000))

    async def expire(self, request: str) -> None:
        """Nobody answered in time."""
        if request in self._run.view.questions:
            expired = Entry(v.DEADLINE_EXPIRED, {"which": "question", "request": request})
            await self._settle(request, "expired", {"resolver": "deadline"}, told=(expired,))
        self._limits.pop(request, None)

    async def _settle(
        self,
        request: str,
        outcome: str,
        by: dict[str, Any],
        answer: str | None = None,
        told: tuple[Entry, ...] = (),
    ) -> None:
        members = {"request": request, "outcome": outcome, "answer": answer, "by": by}
        await self._run.record([*told, Entry(v.QUESTION_ANSWERED, members)])
        self._limits.pop(request, None)
