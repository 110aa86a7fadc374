"""The demo agent: speaks ACP on stdio and obeys its prompt, one directive a line.

    say TEXT            a message
    chunks N            a message in N chunks
    think TEXT          a thought
    write PATH TEXT     write a file, after asking permission; \\n in TEXT is a newline
    ask TEXT            ask permission for something harmless and say what was decided
    run COMMAND         run a shell command, after asking permission
    sleep SECONDS       wait
    usage IN OUT        report these token counts for the turn
    fail TEXT           end the turn with an error, as a model would
    refuse              end the turn with the stop reason "refusal"

Any other line is said back. It runs alone (standard library only, `python -I -S`),
single-threaded: a turn is a generator that yields what it waits for, so that a
cancel is heard at any time, also in the middle of a sleep or a command.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

# The module typing would cost a tenth of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from subprocess import Popen
    from typing import Any

    Json = dict[str, Any]
    Condition = tuple[Any, ...]
    Steps = Generator[Condition, None, Any]
    Directive = Callable[["Turn", str, str], Steps]

VERSION = "1.0"
READ_BYTES = 65536
OUTPUT_BYTES = 65536
CHUNKS_BETWEEN_LOOKS = 64
EXIT_LOOK_S = 0.02
CONTEXT_TOKENS = 100_000
USD_PER_TOKEN = 0.000001
MODELS = ("echo", "echo-large")
EFFORTS = ("low", "medium", "high")
CHOICES = (
    ("allow-once", "allow_once", "Allow once"),
    ("allow-always", "allow_always", "Always allow"),
    ("reject-once", "reject_once", "Reject"),
)


class TurnCancelledError(Exception):
    """The client cancelled the turn."""


class FaultError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Wire:
    """Frames on stdin and stdout, without any buffering of our own output."""

    def __init__(self) -> None:
        self._held = b""
        self._next_id = 0
        self.ended = False

    def send(self, message: Json) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]

    def request(self, method: str, params: Json) -> int:
        self._next_id += 1
        self.send({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def update(self, session: str, variant: str, **members: Any) -> None:
        update = {"sessionUpdate": variant, **members}
        params = {"sessionId": session, "update": update}
        self.send({"method": "session/update", "params": params})

    def frames(self, timeout_s: float | None) -> list[Json]:
        """The frames that arrive within ``timeout_s`` (None: wait for some)."""
        if self.ended or not select.select([0], [], [], timeout_s)[0]:
            return []
        data = os.read(0, READ_BYTES)
        self.ended = not data
        *lines, self._held = (self._held + data).split(b"\n")
        return [frame for frame in map(parse, lines) if isinstance(frame, dict)]


def parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


class Store:
    """Sessions as files below HOME."""

    def __init__(self) -> None:
        self._directory = os.path.join(
            os.environ.get("HOME", os.getcwd()), ".demo-agent", "sessions"
        )

    def _path(self, session: Any) -> str:
        if not isinstance(session, str) or not session.replace("-", "").isalnum():
            raise FaultError(-32002, "no such session")
        return os.path.join(self._directory, session + ".json")

    def create(self, cwd: str) -> Json:
        session: Json = {"id": "demo-" + os.urandom(8).hex(), "cwd": cwd, "turns": 0, "history": []}
        session |= {"model": MODELS[0], "effort": EFFORTS[0], "cost": 0.0}
        self.save(session)
        return session

    def save(self, session: Json) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        path = self._path(session["id"])
        with open(path + ".new", "w") as file:
            json.dump(session, file)
        os.replace(path + ".new", path)

    def load(self, name: Any) -> Json:
        try:
            with open(self._path(name)) as file:
                session: Json = json.load(file)
        except (OSError, ValueError):
            raise FaultError(-32002, f"no such session: {name}") from None
        return session


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
        f"write {path}",
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
    call, chosen = yield from turn.permission("other", rest, rawInput={"text": rest})
    turn.done(call, "completed" if chosen.startswith("allow") else "failed", chosen)
    turn.tell("agent_message_chunk", f"{rest}: {chosen}")


def run(turn: Turn, rest: str, line: str) -> Steps:
    call, chosen = yield from turn.permission("execute", rest, rawInput={"command": rest})
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


def refuse(turn: Turn, rest: str, line: str) -> Steps:
    yield from ()
    raise TurnRefusedError


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
    "refuse": refuse,
}


class Agent:
    """The agent's side of the connection: one session's turn at a time."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.store = Store()
        self.sessions: dict[str, Json] = {}
        self.allowed: dict[str, set[str]] = {}
        self.turn: Turn | None = None
        self._steps: Steps | None = None
        self._waiting: Condition = ("frame",)

    def serve(self) -> None:
        while not self.wire.ended:
            self._handle_frames()
            if self.turn is not None and self._steps is not None and self._is_due(self.turn):
                self._step(self.turn, self._steps)
        if self._steps is not None:
            self._steps.close()

    def _handle_frames(self) -> None:
        timeout_s: float | None = None
        if self._steps is not None and self._waiting[0] == "until":
            timeout_s = max(0, self._waiting[1] - time.monotonic())
        elif self._steps is not None and self._waiting[0] == "read":
            select.select([0, self._waiting[1]], [], [])
            timeout_s = 0
        for frame in self.wire.frames(timeout_s):
            self._handle(frame)

    def _is_due(self, turn: Turn) -> bool:
        kind = self._waiting[0]
        if turn.cancelled or kind == "frame":
            return True
        if kind == "until":
            return bool(time.monotonic() >= self._waiting[1])
        return bool(select.select([self._waiting[1]], [], [], 0)[0])

    def _handle(self, frame: Json) -> None:
        if "method" not in frame:
            if self.turn is not None:
                self.turn.answers[frame.get("id")] = frame
            return
        params = frame.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" not in frame:
            self._told(frame["method"], params)
            return
        try:
            result = self._asked(frame["method"], params, frame["id"])
        except FaultError as fault:
            self._answer_error(frame["id"], fault)
            return
        if result is not None:
            self.wire.send({"id": frame["id"], "result": result})

    def _told(self, method: str, params: Json) -> None:
        if method == "session/cancel" and self.turn is not None:
            self.turn.cancelled = self.turn.session["id"] == params.get("sessionId")

    def _asked(self, method: str, params: Json, request: Any) -> Json | None:
        if method == "initialize":
            return CAPABILITIES
        if method == "session/new":
            return self._opened(
                self.store.create(str(params.get("cwd") or os.getcwd())), named=True
            )
        if method in ("session/resume", "session/load"):
            session = self.store.load(params.get("sessionId"))
            session["cwd"] = str(params.get("cwd") or session["cwd"])
            if method == "session/load":
                self._replay(session)
            return self._opened(session, named=False)
        if method == "session/set_config_option":
            return self._configure(params)
        if method == "session/prompt":
            self._prompt(params, request)
            return None
        raise FaultError(-32601, f"method not found: {method}")

    def _opened(self, session: Json, named: bool) -> Json:
        self.sessions[session["id"]] = session
        self.allowed.setdefault(session["id"], set())
        result = {"configOptions": options(session)}
        return {"sessionId": session["id"], **result} if named else result

    def _session(self, params: Json) -> Json:
        session = self.sessions.get(str(params.get("sessionId")))
        if session is None:
            raise FaultError(-32002, f"no such session: {params.get('sessionId')}")
        return session

    def _configure(self, params: Json) -> Json:
        session, value = self._session(params), params.get("value")
        name = str(params.get("configId"))
        if value not in {"model": MODELS, "effort": EFFORTS}.get(name, ()):
            raise FaultError(-32602, f"no such {name}: {value}")
        session[name] = value
        self.store.save(session)
        return {"configOptions": options(session)}

    def _replay(self, session: Json) -> None:
        variants = {"user": "user_message_chunk", "agent": "agent_message_chunk"}
        for who, message, text in session["history"]:
            content = {"type": "text", "text": text}
            self.wire.update(session["id"], variants[who], messageId=message, content=content)

    def _prompt(self, params: Json, request: Any) -> None:
        if self.turn is not None:
            raise FaultError(-32600, "a turn is already running")
        session = self._session(params)
        blocks = [block for block in params.get("prompt") or [] if isinstance(block, dict)]
        text = "\n".join(str(block.get("text", "")) for block in blocks)
        self.turn = Turn(self.wire, session, request, text, self.allowed[session["id"]])
        session["history"].append(["user", f"u{session['turns']}", text])
        self._steps = self.turn.run()
        self._waiting = ("until", 0)

    def _step(self, turn: Turn, steps: Steps) -> None:
        try:
            self._waiting = next(steps)
            return
        except StopIteration as stop:
            answer: Json = {"id": turn.request, "result": stop.value}
        except FaultError as fault:
            answer = {"id": turn.request, "error": {"code": fault.code, "message": str(fault)}}
        self.turn = self._steps = None
        self.store.save(turn.session)
        self.wire.send(answer)

    def _answer_error(self, request: Any, fault: FaultError) -> None:
        self.wire.send({"id": request, "error": {"code": fault.code, "message": str(fault)}})


def options(session: Json) -> list[Json]:
    def select_of(name: str, category: str, values: tuple[str, ...]) -> Json:
        choices = [{"value": value, "name": value} for value in values]
        option: Json = {
            "id": name,
            "name": name.capitalize(),
            "category": category,
            "type": "select",
        }
        return option | {"currentValue": session[name], "options": choices}

    return [
        select_of("model", "model", MODELS),
        select_of("effort", "thought_level", EFFORTS),
    ]


CAPABILITIES: Json = {
    "protocolVersion": 1,
    "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}},
    "authMethods": [],
    "agentInfo": {"name": "demo", "title": "Coachman demo agent", "version": VERSION},
}


if __name__ == "__main__":
    try:
        Agent().serve()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
