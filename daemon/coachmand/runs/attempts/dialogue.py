"""The replay rule: a conversation, its place in the logs, and what of it is news.

Every input but stdout is a journal line stamped with the offset of stdout fed so
far. Given those lines and the raw stdout, the conversation comes to the same
state and says the same again; what the journal and the keeper have already is
dropped, so that nothing is journaled or told to the agent twice. Pure: no
files, no clock, no process.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import asdict, define, evolve, field, frozen

from coachman_adapters import conversation as c

from ...journal import vocabulary as v
from ...journal.lines import Entry


class ReplayDivergedError(Exception):
    """The conversation, told the same again, said something else."""


@frozen
class Input:
    """One input as it is journaled: ``kind`` and its payload, at an offset of stdout."""

    kind: str
    at: int
    payload: Mapping[str, Any] = field(factory=dict)

    def entry(self) -> Entry:
        """Its line in the journal."""
        return Entry(v.INPUT, {"kind": self.kind, "at": self.at, **self.payload})

    @property
    def prompt(self) -> int:
        """The number of the prompt that it hands over; 0 where it is none."""
        return int(self.payload.get("prompt") or self.payload.get("prompt_turn") or 0)

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> "Input":
        """The input that a journal line records."""
        envelope = ("type", "seq", "g", "ts", "run", "attempt", "turn", "session", "kind", "at")
        payload = {key: value for key, value in event.items() if key not in envelope}
        return cls(event["kind"], event["at"], payload)


@define
class Output:
    """What a step said that nobody has yet: lines to journal, bytes to write, timers to arm."""

    entries: list[Entry] = field(factory=list)
    write: bytearray = field(factory=bytearray)
    write_at: int = 0
    close_stdin: bool = False
    timers: dict[str, float | None] = field(factory=dict)


def entry_of(action: c.Action) -> tuple[str, dict[str, Any], c.Span | None] | None:
    """The journal line of an action; None for those that leave none."""
    match action:
        case c.Event(type=type_, members=members, span=span):
            return type_, dict(members), span
        case c.Ask(request=request, tool=tool, question=question, options=options):
            offered = [
                {
                    "id": o.id,
                    "kind": o.kind,
                    "name": o.name,
                    "requires_message": o.requires_message,
                    "takes_message": o.takes_message,
                }
                for o in options
            ]
            members = {"request": request, "tool": dict(tool), "question": question}
            return v.PERMISSION_REQUESTED, {**members, "options": offered}, None
        case c.Withdraw(request=request):
            by = {"resolver": "agent"}
            members = {"request": request, "option": None, "outcome": "withdrawn", "by": by}
            return v.PERMISSION_RESOLVED, members, None
        case c.SessionKnown(session=session, agent_version=version):
            return v.SESSION, {"session": session, "agent_version": version}, None
        case c.Usage(counters=counters, cost_usd=cost):
            told = {
                "model": action.model,
                "provider": action.provider,
                "session_counters": action.session_counters and dict(action.session_counters),
            }
            known = {name: value for name, value in told.items() if value is not None}
            return v.USAGE_UPDATED, {"usage": dict(counters), "cost_usd": cost, **known}, None
        case c.TurnEnded(stop_reason=reason, error=error, turn=turn):
            members = {"turn": turn, "stop_reason": reason}
            ending: dict[str, Any] = {
                "error": error and dict(error),
                "resets": action.resets and asdict(action.resets),
                "transient": action.transient,
            }
            return v.TURN_ENDED, {**members, **{n: x for n, x in ending.items() if x}}, None
        case _:
            return None


class Dialogue:
    """A conversation at its place in stdout (``fed``), stdin (``out``) and journal (``n``).

    ``turn`` is the last one that it was told to begin, ``ended`` the last one that is over;
    both begin at ``turns``, those of the attempts before. ``asked`` is how many questions those
    asked: no number means two questions of a run, so that a late answer meets no other one.
    ``known_n`` and ``taken`` are the highest ``n`` of the journal and the bytes the keeper
    has; up to there everything is a repetition. ``said(offset, size)`` reads stdin.log, against
    which repeated bytes are compared.
    """

    def __init__(
        self,
        conversation: c.Conversation,
        *,
        known_n: int = 0,
        taken: int = 0,
        said: Callable[[int, int], bytes] = lambda _offset, _size: b"",
        turns: int = 0,
        asked: int = 0,
    ) -> None:
        self._conversation = conversation
        self._asked = asked
        self._known_n = known_n
        self._taken = taken
        self._said = said
        self.fed = 0
        self.out = 0
        self.n = 0
        self.turn = turns
        self.ended = turns

    def __repr__(self) -> str:
        return f"<Dialogue fed={self.fed} out={self.out} n={self.n}>"

    def feed(self, stdout: bytes) -> Output:
        """The agent said ``stdout``, right after what it said before."""
        self.fed += len(stdout)
        return self._collect(self._conversation.receive(stdout))

    def apply(self, given: Input, prompt: str = "", ending: c.Ending | None = None) -> Output:
        """Carry out an input that is in the journal.

        What is too long or too private for a journal line comes beside it: the text of a
        prompt, the ending of a finish.
        """
        if given.at != self.fed:
            raise ReplayDivergedError(f"input {given.kind} at {given.at}, fed {self.fed}")
        return self._collect(self._dispatch(given, prompt, ending))

    def _dispatch(self, given: Input, prompt: str, ending: c.Ending | None) -> Sequence[c.Action]:
        payload, conversation = given.payload, self._conversation
        match given.kind:
            case "start":
                return conversation.start()
            case "prompt":
                self.turn = payload["prompt_turn"]
                return conversation.intend(c.Prompt(self.turn, prompt))
            case "answer":
                request = _counted(payload["request"], -self._asked)
                answer = c.Answer(request, payload["option"], payload.get("message"))
                return conversation.intend(answer)
            case "cancel":
                return conversation.intend(c.Cancel(payload.get("of_turn")))
            case "timer":
                return conversation.expire(payload["name"])
            case "finish":
                assert ending is not None
                return conversation.finish(ending)
            case kind:
                raise ReplayDivergedError(f"this version knows no input {kind!r}")

    def _collect(self, actions: Sequence[c.Action]) -> Output:
        output = Output(write_at=max(self.out, self._taken))
        for action in actions:
            match action:
                case c.Write(data=data):
                    self._write(data, output)
                case c.CloseStdin():
                    output.close_stdin = True
                case c.SetTimer(name=name, seconds=seconds):
                    output.timers[name] = seconds
                case c.TurnEnded():
                    self._emit(self._numbered(action), output)
                case c.Ask(request=request) | c.Withdraw(request=request):
                    named = _counted(request, self._asked)
                    self._emit(evolve(action, request=named), output)
                case _:
                    self._emit(action, output)
        return output

    def _numbered(self, end: c.TurnEnded) -> c.Action:
        """A turn's end with the turn that it ends; a stale one never ends another turn."""
        turn = self.ended + 1
        if turn > self.turn or end.turn not in (None, turn):
            text = f"the agent ended a turn that was over: {end.stop_reason}"
            return c.Event(v.NOTICE, {"text": text})
        self.ended = turn
        return evolve(end, turn=turn)

    def _emit(self, action: c.Action, output: Output) -> None:
        made = entry_of(action)
        assert made is not None
        self.n += 1
        if self.n <= self._known_n:
            return
        type_, members, span = made
        reference = (
            {"stream": "stdout", "offset": span.offset, "bytes": span.size} if span else None
        )
        cut = span is not None and span.cut
        output.entries.append(Entry(type_, members, self.n, reference, cut))

    def _write(self, data: bytes, output: Output) -> None:
        repeated = max(0, min(len(data), self._taken - self.out))
        if repeated and data[:repeated] != self._said(self.out, repeated):
            raise ReplayDivergedError(f"stdin differs after byte {self.out}")
        output.write += data[repeated:]
        self.out += len(data)

    def check_said_again(self) -> None:
        """Raise unless, once fed all that was there, it said all that the keeper took."""
        if self.out < self._taken:
            raise ReplayDivergedError(f"{self._taken} bytes were told, only {self.out} again")

    def snapshot(self) -> dict[str, Any]:
        """Everything needed to go on from here without what came before. JSON."""
        place = {"fed": self.fed, "out": self.out, "n": self.n}
        place |= {"turn": self.turn, "ended": self.ended}
        return {**place, "conversation": self._conversation.snapshot()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self._conversation.restore(snapshot["conversation"])
        self.fed, self.out, self.n = snapshot["fed"], snapshot["out"], snapshot["n"]
        # Before runs were kept, there was one turn.
        self.turn, self.ended = snapshot.get("turn", 1), snapshot.get("ended", 0)


def _counted(request: str, more: int) -> str:
    """The name of the question that is ``more`` behind one in the run's count, or before it."""
    return f"p{int(request[1:]) + more}" if more else request
