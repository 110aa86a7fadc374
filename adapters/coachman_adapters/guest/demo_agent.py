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
    limit [SECONDS]     the same, as a provider's limit that ends so long after this was first said
    crash [N]           be killed N times (1), and then go on
    refuse              end the turn with the stop reason "refusal"
    recall              say every earlier prompt of the session
    deaf                hear no cancel until the turn is over
    exit STATUS         end the agent at once, within the turn
    leave SECONDS       so long after the turn, end the agent, unless another one runs
    mislay              let whoever resumes the session get another one

Any other line is said back. It runs alone (standard library only, `python -I -S`)
and single-threaded, beside `demo_turn`, which obeys the directives.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

# The module typing would cost a tenth of the start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from coachman_adapters.guest.demo_turn import Condition, FaultError, Json, Steps, Turn
else:
    # An isolated interpreter does not look beside the program.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from demo_turn import FaultError, Turn

VERSION = "1.0"
READ_BYTES = 65536
MODELS = ("echo", "echo-large")
EFFORTS = ("low", "medium", "high")


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
        self.leaves_at: float | None = None

    def serve(self) -> None:
        while not self.wire.ended:
            self._handle_frames()
            if self.turn is not None and self._steps is not None and self._is_due(self.turn):
                self._step(self.turn, self._steps)
            elif self.turn is None and self._leaves():
                return
        if self._steps is not None:
            self._steps.close()

    def _leaves(self) -> bool:
        return self.leaves_at is not None and time.monotonic() >= self.leaves_at

    def _handle_frames(self) -> None:
        timeout_s: float | None = None
        if self._steps is not None and self._waiting[0] == "until":
            timeout_s = max(0, self._waiting[1] - time.monotonic())
        elif self._steps is None and self.leaves_at is not None:
            timeout_s = max(0, self.leaves_at - time.monotonic())
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
            same = self.turn.session["id"] == params.get("sessionId")
            self.turn.cancelled = same and not self.turn.deaf

    def _asked(self, method: str, params: Json, request: Any) -> Json | None:
        if method == "initialize":
            return CAPABILITIES
        if method == "session/new":
            return self._opened(
                self.store.create(str(params.get("cwd") or os.getcwd())), named=True
            )
        if method in ("session/resume", "session/load"):
            session = self.store.load(params.get("sessionId"))
            if session.get("mislaid"):
                return self._opened(self.store.create(session["cwd"]), named=True)
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
            answer = {"id": turn.request, "error": fault.told}
        if turn.leaves_s is not None:
            self.leaves_at = time.monotonic() + turn.leaves_s
        self.turn = self._steps = None
        self.store.save(turn.session)
        self.wire.send(answer)

    def _answer_error(self, request: Any, fault: FaultError) -> None:
        self.wire.send({"id": request, "error": fault.told})


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
