"""Events as lines: text merged, one line a tool, everything of the agent made visible."""

import sys

from ..tool_failures import reason
from .asked import (
    AT_ONCE,
    answer_text,
    asked_whole,
    choice_names,
    option_names,
    question_whole,
    reply_text,
    resolver,
)
from .durations import clock
from .proposed import proposed
from .render import left, question
from .visible import cut, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TextIO

    from .console import Console

TITLE_COLUMNS = 160
_TEXT_TYPES = {
    "agent.message_chunk": "",
    "agent.thought_chunk": "thinking: ",
    "user.message_chunk": "prompt: ",
}
ENDS_A_MESSAGE = frozenset({"tool.call", "agent.thought_chunk", "turn.ended"})
_WORTH_A_LINE = ("queued", "waiting", "parked", "stopping")
# The question itself, and the end that follows at once, tell these.
_SAID_BY_OTHERS = (
    ("waiting", "permission"),
    ("waiting", "question"),
    ("stopping", "turn_ended"),
    ("stopping", "agent_exited"),
    ("stopping", "closed"),
    ("stopping", "checked"),
)
# What a run that begins another attempt waits for.
_AGAIN = {"limit": "the provider takes no more for now", "retry": "the agent broke"}
_OVER = ("completed", "cancelled")


class Progress:
    """Writes a run's events to ``stream`` (default: stderr).

    ``answerable`` False says that policy answers at once: a request is then shown with
    its answer, on one line, and whole only where policy has none. ``is_over`` tells of a
    question that is asked in ``event`` whether nobody can answer it any more.
    """

    def __init__(
        self,
        console: "Console",
        stream: "TextIO | None" = None,
        *,
        answerable: bool = True,
        is_over: "Callable[[Mapping[str, Any]], bool]" = lambda _event: False,
    ) -> None:
        self._console = console
        self._answerable = answerable
        self._is_over = is_over
        self._stream = stream or sys.stderr
        self._on_stderr = self._stream is sys.stderr
        self._open: tuple[str, object] | None = None
        self._at_line_start = True
        self._tools: dict[str, str] = {}
        self._last_words: dict[str, str] = {}
        self._unanswered: dict[str, Mapping[str, Any]] = {}
        self._said: list[str] = []
        self._message: object = None
        self.prompt_of_turn: object = None
        self.is_told_again = True

    def __repr__(self) -> str:
        return f"<Progress {'between lines' if self._at_line_start else 'within a line'}>"

    def show(self, event: "Mapping[str, Any]") -> None:
        """Show one event, if it is one that people want to see."""
        kind = str(event.get("type"))
        self._hear(kind, event)
        if kind in _TEXT_TYPES:
            self._text(kind, event)
        elif (line := _LINES.get(kind)) is not None:
            text = line(self, event)
            if text:
                self.line(text)

    def has_said(self, message: str) -> bool:
        """Whether the last message that was shown is this one, or ends with it."""
        return "".join(self._said).rstrip().endswith(message.strip())

    def _hear(self, kind: str, event: "Mapping[str, Any]") -> None:
        """Keep the last message, which ends where the agent turns to something else."""
        if kind == "agent.message_chunk":
            message = event.get("message_id")
            if self._message is None or (message and message != self._message):
                self._said = []
            self._message = message or self._message or True
            self._said.append(str(event.get("text") or ""))
        elif kind in ENDS_A_MESSAGE:
            self._message = None

    def line(self, text: str) -> None:
        """A line of its own, after whatever text is open."""
        self.finish()
        self._stream.write(text + "\n")
        self._stream.flush()

    def prompt(self, text: str) -> None:
        """Leave the cursor behind a question; what comes next begins a line of its own."""
        self.finish()
        self._stream.write(text)
        self._stream.flush()
        self._at_line_start = False

    def line_typed(self) -> None:
        """The person typed a line, and the terminal went to the next one."""
        self._at_line_start = True

    def finish(self) -> None:
        """End the text that is open."""
        if not self._at_line_start:
            self._stream.write("\n")
        self._stream.flush()
        self._at_line_start, self._open = True, None

    def _text(self, kind: str, event: "Mapping[str, Any]") -> None:
        text = visible(event.get("text") or "", lines=True)
        if not text:
            return
        identity = (kind, event.get("message_id"))
        if self._open != identity:
            self.finish()
            self._stream.write(_TEXT_TYPES[kind])
        self._open = identity
        self._stream.write(self._dim(text) if kind == "agent.thought_chunk" else text)
        self._stream.flush()
        self._at_line_start = text.endswith("\n")

    def _dim(self, text: str) -> str:
        return self._console.paint(text, "dim", stderr=self._on_stderr)

    def _paint(self, text: str, color: str) -> str:
        return self._console.paint(text, color, stderr=self._on_stderr)

    def tool(self, event: "Mapping[str, Any]") -> str | None:
        """A tool once it is known, and once more if it fails."""
        identity = str(event.get("tool_call_id"))
        title = cut(event.get("title") or event.get("name") or "", TITLE_COLUMNS)
        before = self._tools.get(identity)
        if event.get("output") is not None:
            self._last_words[identity] = reason(event["output"])
        if event.get("status") == "failed":
            why = visible(self._last_words.pop(identity, ""))
            told = f"  failed: {title or before or 'a tool'}"
            return self._paint(f"{told}: {why}" if why else told, "red")
        if event.get("status") in _OVER:
            self._last_words.pop(identity, None)
        if before is not None or not title:
            return None
        self._tools[identity] = title
        name = visible(event.get("name") or "")
        return f"  > {title}" if not name or title.startswith(name) else f"  > {name}: {title}"

    def asked(self, event: "Mapping[str, Any]") -> str | None:
        """A permission request, whole: a command is judged by all of it."""
        if not self._answerable:
            self._unanswered[str(event.get("request"))] = event
            return None
        return self._question(event)

    def _question(self, event: "Mapping[str, Any]") -> str:
        handle = visible(str(event.get("run"))[-5:])
        text = self._paint(f"  ? {asked_whole(event)}", "yellow")
        if self._is_over(event):
            return text
        remaining = left(event.get("deadline"))
        choices = ", ".join(choice_names(event))
        waits = f" ({remaining})" if remaining else ""
        would = "".join(f"\n{line}" for line in proposed(event, handle))
        return f"{text}{would}\n    {choices}{waits}: coachman answer {handle} …"

    def questioned(self, event: "Mapping[str, Any]") -> str:
        """What the run asks in words, and how it is answered."""
        text = self._paint(f"  ? {question_whole(event)}", "yellow")
        if self._is_over(event):
            return text
        handle, remaining = visible(str(event.get("run"))[-5:]), left(event.get("deadline"))
        choices = ", ".join(option_names(event))
        waits = f"({remaining})" if remaining else ""
        how = " ".join(word for word in (choices, waits) if word)
        return f"{text}\n    {how}: coachman answer {handle} TEXT"

    def answered(self, event: "Mapping[str, Any]") -> str:
        """Who settled a request, and how."""
        request = self._unanswered.pop(str(event.get("request")), None)
        if request is None:
            return f"  = {answer_text(event)}"
        if (event.get("by") or {}).get("resolver") not in AT_ONCE:
            return f"  ? {asked_whole(request)}\n  = {answer_text(event)}"
        allowed = str(event.get("kind")).startswith("allow")
        verdict = "allowed" if allowed else "denied"
        line = f"  = {verdict} {resolver(event['by'])}: {cut(question(request), TITLE_COLUMNS)}"
        return self._paint(line, "dim") if allowed else line

    def state(self, event: "Mapping[str, Any]") -> str | None:
        """A state worth a line; and what policy could not answer, which now waits."""
        if event.get("to") == "waiting" and self._unanswered:
            waiting = [self._question(request) for request in self._unanswered.values()]
            self._unanswered.clear()
            return "\n".join(waiting)
        if event.get("to") == "waiting" and event.get("reason") == "credentials":
            names = visible(", ".join((event.get("until") or {}).get("names") or ()))
            handle = visible(str(event.get("run"))[-5:])
            ask = f"your shell has to lend {names} again: coachman answer {handle} lend"
            return f"  [the daemon was restarted: {ask}]"
        if event.get("to") == "waiting" and event.get("reason") in _AGAIN:
            return self._again(event)
        return _state(event)

    def _again(self, event: "Mapping[str, Any]") -> str:
        """What another attempt waits for, until when, and how it begins."""
        until = (event.get("until") or {}).get("epoch_ms")
        at = f" until {clock(until)}" if until else ""
        then = "the prompt is sent again" if self.is_told_again else "the agent is told to go on"
        return f"  [{_AGAIN[str(event['reason'])]}: waiting{at}, then {then}]"


def _passed(_progress: Progress, event: "Mapping[str, Any]") -> str:
    """Why a question is still open that a rule or a handler might have settled."""
    reason = cut(event.get("reason") or "", TITLE_COLUMNS)
    return f"  [not settled {resolver(event.get('by'))}: {reason}]"


def _feed_failed(_progress: Progress, event: "Mapping[str, Any]") -> str:
    then = {"again": ", is run again", "given_up": ", gets no more"}.get(str(event["then"]), "")
    return f"  [{visible(event['program'])}, fed these events: {visible(event['reason'])}{then}]"


def _turn_begins(progress: Progress, event: "Mapping[str, Any]") -> str | None:
    """The first turn is the run itself; of later ones it is told what they are about."""
    progress.prompt_of_turn = event.get("prompt")
    title = cut(event.get("title") or "", TITLE_COLUMNS)
    return f"  [turn {event.get('turn')}: {title}]" if event.get("prompt", 1) != 1 else None


def _prompt_waits(progress: Progress, event: "Mapping[str, Any]") -> str | None:
    if (event.get("by") or {}).get("resolver") == "retry":
        # What is waited for, and until when, stands in the state behind it.
        progress.is_told_again = progress.prompt_of_turn in (None, event.get("prompt"))
        return None
    first = "first " if event.get("first") else ""
    title = cut(event.get("title") or "", TITLE_COLUMNS)
    return f"  [prompt {event.get('prompt')} queued {first}{resolver(event.get('by'))}: {title}]"


def _prompt_dropped(_progress: Progress, event: "Mapping[str, Any]") -> str:
    title = cut(event.get("title") or "", TITLE_COLUMNS)
    return f"  [prompt {event.get('prompt')} dropped: {title}]"


def _state(event: "Mapping[str, Any]") -> str | None:
    now = event.get("to")
    reason = visible(event.get("reason") or "")
    if now == "parked":
        return f"  [parked: turn {event.get('turn')} is over]"
    if now in _WORTH_A_LINE and (now, reason) not in _SAID_BY_OTHERS:
        return f"  [{visible(now)}{': ' + reason if reason else ''}]"
    return None


def _plan(_progress: Progress, event: "Mapping[str, Any]") -> str | None:
    entries = [entry for entry in event.get("entries") or () if isinstance(entry, dict)]
    done = sum(entry.get("status") == "completed" for entry in entries)
    current = next((e for e in entries if e.get("status") == "in_progress"), None)
    if not entries:
        return None
    doing = f": {cut(current.get('content') or '', TITLE_COLUMNS)}" if current else ""
    return f"  plan {done}/{len(entries)}{doing}"


def _check_ended(_progress: Progress, event: "Mapping[str, Any]") -> str:
    if event.get("exit") == 0:
        return "  [check passed]"
    how = event.get("error") or f"exit status {event.get('exit')}"
    return f"  [check failed: {cut(how, TITLE_COLUMNS)}]"


def _network(_progress: "Progress", event: "Mapping[str, Any]") -> str | None:
    """What was denied, or not reached; what was allowed goes without saying."""
    if not event.get("reason"):
        return None
    where = f"{visible(event['host'])}:{event.get('port')}" if event.get("host") else "a request"
    verdict = "not reached" if event.get("allowed") else "denied"
    return f"  [network: {where} {verdict}, {visible(event.get('why') or event['reason'])}]"


def _member(label: str, *names: str) -> "Callable[[Progress, Mapping[str, Any]], str | None]":
    def line(_progress: Progress, event: "Mapping[str, Any]") -> str | None:
        text = next((event[name] for name in names if event.get(name)), None)
        return f"  {label}: {cut(text, TITLE_COLUMNS)}" if text else None

    return line


_LINES: "dict[str, Callable[[Progress, Mapping[str, Any]], str | None]]" = {
    "tool.call": Progress.tool,
    "tool.call_update": Progress.tool,
    "permission.requested": Progress.asked,
    "permission.passed": _passed,
    "feed.failed": _feed_failed,
    "permission.resolved": Progress.answered,
    "question.asked": Progress.questioned,
    "question.answered": lambda _progress, event: f"  = {reply_text(event)}",
    "run.state": Progress.state,
    "run.closing": lambda _progress, event: f"  [closing, {resolver(event.get('by'))}]",
    "turn.started": _turn_begins,
    "turn.interrupted": lambda _progress, event: (
        f"  [turn {event.get('turn')} interrupted {resolver(event.get('by'))}]"
    ),
    "prompt.queued": _prompt_waits,
    "prompt.dropped": _prompt_dropped,
    "run.recovered": lambda _progress, _event: "  [recovered: the daemon is back]",
    "setup.started": lambda _progress, event: f"  [setup: {cut(event['command'], TITLE_COLUMNS)}]",
    "check.started": lambda _progress, event: f"  [check: {cut(event['command'], TITLE_COLUMNS)}]",
    "check.ended": _check_ended,
    "agent.plan": _plan,
    "agent.notice": _member("note", "text"),
    "agent.noise": _member("noise", "text", "preview"),
    "network.decided": _network,
    "deadline.warned": _member("deadline near", "which"),
    "deadline.expired": _member("deadline expired", "which"),
    "budget.exceeded": _member("over budget", "which"),
    "limit.reached": lambda _progress, event: (
        f"  [a limit of {visible(event.get('provider'))} is reached]"
    ),
    "daemon.degraded": _member("the daemon is degraded", "cause", "reason"),
    "error": _member("error", "cause", "message", "text"),
}
