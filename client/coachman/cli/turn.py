"""One turn of a kept run, as its events tell it, and how it is reported."""

from ..wire import EXIT_CANCELLED, EXIT_FAILED, EXIT_OF_TURN
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..results import Event
    from .console import Console

# What a run does next, once a turn is over. One that stops tells its own end.
_AFTERWARDS = frozenset({"turn.started", "run.state"})
_GOES_ON = {"parked": "parked", "None": "active"}
_ENDS = {
    "end_turn": "is over",
    "cancelled": "was interrupted",
    "refusal": "was refused by the model",
    "max_tokens": "reached the model's token limit",
    "max_turn_requests": "reached the agent's limit of requests",
    "error": "failed",
    "limited": "met its provider's limit",
}


class Turn:
    """The turn of prompt number ``prompt``: ``is_over`` once its run has gone on from it."""

    def __init__(self, run: str, prompt: int) -> None:
        self.run = run
        self.prompt = prompt
        self.number: int | None = None
        self.stop_reason: str | None = None
        self.error: dict[str, Any] | None = None
        self.state: str | None = None
        self.dropped = False
        self._text: list[str] = []
        self._message: object = None

    def __repr__(self) -> str:
        return f"<Turn {self.number} of prompt {self.prompt}: {self.stop_reason}>"

    @property
    def is_over(self) -> bool:
        """Whether it has ended and what follows is known, or it will never be."""
        return self.dropped or (self.stop_reason is not None and self.state is not None)

    @property
    def message(self) -> str:
        """The agent's last message in it."""
        return "".join(self._text)

    def take(self, event: "Event") -> None:
        """Take in what may be about it."""
        kind, mine = event["type"], self.number is not None
        if kind == "turn.started" and event.get("prompt") == self.prompt:
            self.number = event["turn"]
        elif mine and kind == "prompt.queued" and event["by"].get("resolver") == "retry":
            # It failed for a while only: the turn that goes on with it is this one.
            self.prompt, self.number, self.stop_reason = event["prompt"], None, None
        elif kind == "prompt.dropped" and event.get("prompt") == self.prompt:
            self.dropped = True
        elif mine and kind == "turn.ended" and event.get("turn") == self.number:
            self.stop_reason, self.error = event["stop_reason"], event.get("error")
        elif self.stop_reason is not None and kind in _AFTERWARDS:
            self.state = _GOES_ON.get(str(event.get("to")), self.state)
        elif mine and self.stop_reason is None:
            self._hear(kind, event)

    def _hear(self, kind: str, event: "Event") -> None:
        if kind == "agent.message_chunk":
            message = event.get("message_id")
            if self._message is None or (message and message != self._message):
                self._text = []
            self._message = message or True
            self._text.append(str(event.get("text") or ""))
        elif kind in ("tool.call", "agent.thought_chunk"):
            self._message = None


def report_turn(console: "Console", handle: str, turn: Turn, *, said: bool) -> int:
    """Tell how a turn ended and how to go on; the exit code says the first of it.

    ``said``: its message is on the screen already.
    """
    if console.json:
        console.document(_document(turn))
    else:
        if turn.message and not said:
            console.line(visible(turn.message, lines=True).rstrip("\n"))
        if not console.quiet:
            for line in _lines(handle, turn):
                console.note(line)
    if turn.dropped:
        return EXIT_CANCELLED
    return EXIT_OF_TURN.get(str(turn.stop_reason), EXIT_FAILED)


def _document(turn: Turn) -> "dict[str, Any]":
    return {
        "run": turn.run,
        "handle": turn.run[-5:],
        "state": turn.state,
        "prompt": turn.prompt,
        "turn": turn.number,
        "stop_reason": turn.stop_reason,
        "error": turn.error,
        "dropped": turn.dropped,
        "final_message": turn.message,
        "next": [["coachman", "show", turn.run], ["coachman", "close", turn.run]],
    }


def _lines(handle: str, turn: Turn) -> list[str]:
    if turn.dropped:
        return [f"{handle}: prompt {turn.prompt} was dropped before its turn"]
    ended = _ENDS.get(str(turn.stop_reason), "is over")
    error = visible((turn.error or {}).get("message") or "")
    now = visible(turn.state or "").replace("active", "going on with the next prompt")
    lines = [f"{handle} {now}: turn {turn.number} {ended}" + (f": {error}" if error else "")]
    if turn.state == "parked":
        lines.append(f"  next: coachman prompt {handle} TEXT; coachman close {handle}")
    return lines
