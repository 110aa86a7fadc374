"""One turn of the demo agent: its directives, obeyed line by line.

A turn is a generator that yields what it waits for, so that a cancel is heard at
any time, also in the middle of a sleep or a command.
"""

from __future__ import annotations

import json
import os
import signal
import time

# The module typing would cost a tenth of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from subprocess import Popen
    from typing import Any

    from coachman_adapters.guest.demo_agent import Wire

    Json = dict[str, Any]
    Condition = tuple[Any, ...]
    Steps = Generator[Condition, None, Any]
    Directive = Callable[["Turn", str, str], Steps]

READ_BYTES = 65536
OUTPUT_BYTES = 65536
CHUNKS_BETWEEN_LOOKS = 64
EXIT_LOOK_S = 0.02
CONTEXT_TOKENS = 100_000
USD_PER_TOKEN = 0.000001
CHOICES = (
    ("allow-once", "allow_once", "Allow once"),
    ("allow-always", "allow_always", "Always allow"),
    ("reject-once", "reject_once", "Reject"),
)


class TurnCancelledError(Exception):
    """The client cancelled the turn."""


class FaultError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @property
    def told(self) -> Json:
        """The error as it goes over the wire."""
        told = {"code": self.code, "message": str(self)}
        return told if self.data is None else {**told, "data": self.data}


class Turn:
    """One prompt. `run` is a generator: it yields ("frame",), ("until", t) or ("read", fd)."""

    def __init__(
        self, wire: Wire, session: Json, request: Any, text: str, allowed: set[str]
    ) -> None:
        self.wire = wire
        self.session = session
        self.request = request
        self.text = text
        self.answers: dict[Any, Json] = {}
        self.cancelled = False
        self.deaf = False
        self.leaves_s: float | None = None
        self.usage: Json | None = None
        self._allowed = allowed
        self._process: Popen[bytes] | None = None
        self._line = 0
        self._number = session["turns"] = session["turns"] + 1

    def run(self) -> Steps:
        try:
            for n, line in enumerate(self.text.splitlines(), 1):
                self._line = n
                yield from self.wait("until", 0)
                verb, _, rest = line.strip().partition(" ")
                if verb:
                    yield from DIRECTIVES.get(verb, say_back)(self, rest, line.strip())
        except TurnCancelledError:
            return {"stopReason": "cancelled"}
        except TurnRefusedError:
            return {"stopReason": "refusal"}
        finally:
            self.kill()
        return {"stopReason": "end_turn", **({"usage": self.usage} if self.usage else {})}

    @property
    def message_id(self) -> str:
        return f"m{self._number}-{self._line}"

    def remember(self, what: str, value: Any, *, anew: bool = False) -> Any:
        """What was noted for ``what``, maybe in an earlier life; ``value`` where nothing was."""
        path = os.path.join(os.environ.get("HOME", os.getcwd()), ".demo-agent", "notes.json")
        notes: Json = {}
        if os.path.exists(path):
            with open(path) as file:
                notes = json.load(file)
        if anew or what not in notes:
            notes[what] = value
            with open(path, "w") as file:
                json.dump(notes, file)
        return notes[what]

    def update(self, variant: str, **members: Any) -> None:
        self.wire.update(self.session["id"], variant, **members)

    def tell(self, variant: str, text: str) -> None:
        self.update(variant, messageId=self.message_id, content={"type": "text", "text": text})
        if variant == "agent_message_chunk":
            self.session["history"].append(["agent", self.message_id, text])

    def wait(self, *condition: Any) -> Steps:
        yield condition
        if self.cancelled:
            raise TurnCancelledError

    def permission(self, kind: str, title: str, **members: Any) -> Steps:
        """Announce a tool call and ask for it; returns (tool call id, the chosen kind)."""
        call = f"call-{self._number}-{self._line}"
        tool = {"toolCallId": call, "title": title, "kind": kind, "status": "pending", **members}
        self.update("tool_call", **tool)
        if kind in self._allowed and kind != "other":
            return call, "allow_always"
        options = [{"optionId": o, "kind": k, "name": n} for o, k, n in CHOICES]
        params = {"sessionId": self.session["id"], "toolCall": tool, "options": options}
        number = self.wire.request("session/request_permission", params)
        while number not in self.answers:
            yield from self.wait("frame")
        outcome = (self.answers.pop(number).get("result") or {}).get("outcome") or {}
        chosen = [kind for option, kind, _ in CHOICES if option == outcome.get("optionId")]
        if chosen == ["allow_always"]:
            self._allowed.add(kind)
        return call, chosen[0] if chosen else "cancelled"

    def done(self, call: str, status: str, text: str, **members: Any) -> None:
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        self.update("tool_call_update", toolCallId=call, status=status, content=content, **members)

    def spawn(self, command: str) -> Popen[bytes]:
        # Imported late: most turns run nothing, and it takes a third of the start.
        import subprocess  # noqa: PLC0415

        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self.session["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self._process

    def output(self, process: Popen[bytes]) -> Steps:
        """Wait for all of the command's output; returns its last part."""
        output, pipe = b"", process.stdout.fileno() if process.stdout else -1
        while True:
            yield from self.wait("read", pipe)
            data = os.read(pipe, READ_BYTES)
            if not data:
                return output
            output = (output + data)[-OUTPUT_BYTES:]

    def kill(self) -> None:
        """Leave nothing of a command behind."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


class TurnRefusedError(Exception):
    """The turn ends with the stop reason "refusal"."""


def say(turn: Turn, rest: str, line: str) -> Steps:
    turn.tell("agent_message_chunk", rest)
    yield from ()


def say_back(turn: Turn, rest: str, line: str) -> Steps:
    turn.tell("agent_message_chunk", line)
    yield from ()


def think(turn: Turn, rest: str, line: str) -> Steps:
    turn.tell("agent_thought_chunk", rest)
    yield from ()


def chunks(turn: Turn, rest: str, line: str) -> Steps:
    total = number(rest, int)
    for n in range(1, total + 1):
        turn.tell("agent_message_chunk", f"chunk {n} of {total}\n")
        if n % CHUNKS_BETWEEN_LOOKS == 0:
            yield from turn.wait("until", 0)


def write(turn: Turn, rest: str, line: str) -> Steps:
    path, _, text = rest.partition(" ")
    target = os.path.join(turn.session["cwd"], path)
    text = text.replace("\\n", "\n") + "\n"
    diff = {"type": "diff", "path": target, "oldText": content_of(target), "newText": text}
    call, chosen = yield from turn.permission(
        "edit",
        path,
        name="write",
        content=[diff],
        locations=[{"path": target}],
        rawInput={"path": path, "content": text},
    )
    if not chosen.startswith("allow"):
        turn.done(call, "failed", f"not allowed: {chosen}")
        return
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w") as file:
            file.write(text)
        turn.done(call, "completed", f"wrote {len(text.encode())} bytes")
    except OSError as error:
        turn.done(call, "failed", f"cannot write {path}: {error.strerror}")


def content_of(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read(OUTPUT_BYTES)
    except (OSError, ValueError):
        return None


def ask(turn: Turn, rest: str, line: str) -> Steps:
    call, chosen = yield from turn.permission("other", rest, name="ask", rawInput={"text": rest})
    turn.done(call, "completed" if chosen.startswith("allow") else "failed", chosen)
    turn.tell("agent_message_chunk", f"{rest}: {chosen}")


def run(turn: Turn, rest: str, line: str) -> Steps:
    call, chosen = yield from turn.permission(
        "execute", rest, name="run", rawInput={"command": rest}
    )
    if not chosen.startswith("allow"):
        turn.done(call, "failed", f"not allowed: {chosen}")
        return
    turn.update("tool_call_update", toolCallId=call, status="in_progress")
    process = turn.spawn(rest)
    output = yield from turn.output(process)
    while process.poll() is None:
        yield from turn.wait("until", time.monotonic() + EXIT_LOOK_S)
    text = output.decode("utf-8", "replace")
    raw = {"output": text, "exit_code": process.returncode}
    turn.done(call, "failed" if raw["exit_code"] else "completed", text, rawOutput=raw)


def sleep(turn: Turn, rest: str, line: str) -> Steps:
    end = time.monotonic() + number(rest, float)
    while time.monotonic() < end:
        yield from turn.wait("until", end)


def usage(turn: Turn, rest: str, line: str) -> Steps:
    given, _, output = rest.partition(" ")
    before = turn.usage or {"inputTokens": 0, "outputTokens": 0}
    tokens = {
        "inputTokens": before["inputTokens"] + number(given, int),
        "outputTokens": before["outputTokens"] + number(output or "0", int),
    }
    turn.usage = tokens | {"totalTokens": sum(tokens.values())}
    turn.session["cost"] += USD_PER_TOKEN * (number(given, int) + number(output or "0", int))
    cost = {"amount": turn.session["cost"], "currency": "USD"}
    used = min(turn.usage["totalTokens"], CONTEXT_TOKENS)
    turn.update("usage_update", used=used, size=CONTEXT_TOKENS, cost=cost)
    yield from ()


def fail(turn: Turn, rest: str, line: str) -> Steps:
    yield from ()
    raise FaultError(-32603, rest or "failed as told")


def limit(turn: Turn, rest: str, line: str) -> Steps:
    yield from ()
    if not rest:
        raise FaultError(-32603, "429: the model takes no more")
    ends = turn.remember(line, time.time() + number(rest, float))
    if time.time() < ends:
        raise FaultError(-32603, "429: the model takes no more", {"resets_at": ends})


def crash(turn: Turn, rest: str, line: str) -> Steps:
    yield from ()
    left = turn.remember(line, number(rest or "1", int))
    if left:
        turn.remember(line, left - 1, anew=True)
        os.kill(os.getpid(), signal.SIGKILL)


def refuse(turn: Turn, rest: str, line: str) -> Steps:
    yield from ()
    raise TurnRefusedError


def recall(turn: Turn, rest: str, line: str) -> Steps:
    told = [text for who, _, text in turn.session["history"] if who == "user"]
    turn.tell("agent_message_chunk", "\n".join(told[:-1]))
    yield from ()


def deaf(turn: Turn, rest: str, line: str) -> Steps:
    turn.deaf = True
    yield from ()


def exit_now(turn: Turn, rest: str, line: str) -> Steps:
    yield from ()
    raise SystemExit(number(rest or "0", int))


def leave(turn: Turn, rest: str, line: str) -> Steps:
    turn.leaves_s = number(rest or "0", float)
    yield from ()


def mislay(turn: Turn, rest: str, line: str) -> Steps:
    turn.session["mislaid"] = True
    yield from ()


def number(text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise FaultError(-32602, f"not a number: {text!r}") from None


DIRECTIVES: dict[str, Directive] = {
    "say": say,
    "chunks": chunks,
    "think": think,
    "write": write,
    "ask": ask,
    "run": run,
    "sleep": sleep,
    "usage": usage,
    "fail": fail,
    "limit": limit,
    "crash": crash,
    "refuse": refuse,
    "recall": recall,
    "deaf": deaf,
    "exit": exit_now,
    "leave": leave,
    "mislay": mislay,
}
