#!/usr/bin/python3 -I
"""An agent with a bad character: whatever it is run as, it does what its prompt names.

It is taken for Claude Code, Codex, pi, or an agent that speaks ACP, by the arguments of each; as
a plain program its first argument is the mode. `MODES` is the table of what it can do. It uses
the standard library alone, and nothing that it does is unbounded: it must be safe to run.
"""

import base64
import contextlib
import json
import os
import signal
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

MEBIBYTE = 1024 * 1024
LINE_LIMIT = 64 * MEBIBYTE
KEY_NAMES = ("HOSTILE_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
FOREVER_S = 86_399
SESSION = "00000000-0000-4000-8000-00000000000"


def write(data: bytes) -> None:
    """All of it, past Python's own buffers: what is written last may be half a line."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def send(frame: Any) -> None:
    write(json.dumps(frame, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")


def lines() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


class Plain:
    """No protocol at all: stdout is the message, the exit status its end."""

    def prompt(self) -> str:
        sys.stdin.buffer.read()
        return " ".join(sys.argv[1:])

    def frame(self, text: str) -> Any:
        return text

    def say(self, text: str) -> None:
        write(text.encode("utf-8", "surrogatepass"))

    def tool(self, title: str, call: str = "t", **members: Any) -> None:
        self.say(f"{title} {json.dumps(members)}\n")

    def end(self) -> None:
        """Nothing tells it."""

    def fail(self, status: int, text: str, resets: float | None = None) -> None:
        os.write(2, f"{status} {text} {resets or ''}\n".encode())
        sys.exit(1)

    def ask(self, number: int, title: str) -> None:
        self.say(f"{title}?\n")

    def other_session(self) -> None:
        self.say("another session\n")


class Acp(Plain):
    """The Agent Client Protocol; its session is kept from run to run in its home."""

    session = SESSION + "1"

    def prompt(self) -> str:
        for request in lines():
            method, number = request.get("method"), request.get("id")
            if method == "initialize":
                able = {"loadSession": True}
                send({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": able}})
            elif method in ("session/new", "session/load"):
                if os.path.exists(os.path.expanduser("~/other")):
                    self.session = SESSION + "2"
                send({"id": number, "result": {"sessionId": self.session}})
            elif method == "session/prompt":
                self.number = number
                return request["params"]["prompt"][0]["text"]
        sys.exit(0)

    def update(self, **update: Any) -> Any:
        params = {"sessionId": self.session, "update": update}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}

    def frame(self, text: str) -> Any:
        content = {"type": "text", "text": text}
        return self.update(sessionUpdate="agent_message_chunk", content=content)

    def say(self, text: str) -> None:
        send(self.frame(text))

    def tool(self, title: str, call: str = "t", **members: Any) -> None:
        send(self.update(sessionUpdate="tool_call", toolCallId=call, title=title, **members))

    def end(self) -> None:
        send({"jsonrpc": "2.0", "id": self.number, "result": {"stopReason": "end_turn"}})

    def fail(self, status: int, text: str, resets: float | None = None) -> None:
        data = {"status": status, **({"resets_at": resets} if resets else {})}
        send({"id": self.number, "error": {"code": -32000, "message": text, "data": data}})

    def ask(self, number: int, title: str) -> None:
        options = [{"optionId": "yes", "kind": "allow_once", "name": "Yes"}]
        call = {"toolCallId": f"t{number}", "title": title, "kind": "execute"}
        params = {"sessionId": self.session, "toolCall": call, "options": options}
        send({"id": number, "method": "session/request_permission", "params": params})

    def other_session(self) -> None:
        open(os.path.expanduser("~/other"), "w").close()
        self.session = SESSION + "2"
        self.say("in another session")


class Claude(Plain):
    """Claude Code's stream-json."""

    session = SESSION + "1"

    def prompt(self) -> str:
        for message in lines():
            if message["type"] == "control_request":
                inner = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                send({"type": "control_response", "response": inner})
            elif message["type"] == "user":
                self.init()
                return message["message"]["content"][0]["text"]
        sys.exit(0)

    def init(self) -> None:
        send({"type": "system", "subtype": "init", "session_id": self.session, "model": "m"})

    def frame(self, text: str) -> Any:
        delta = {"type": "text_delta", "text": text}
        event = {"type": "content_block_delta", "index": 0, "delta": delta}
        return {"type": "stream_event", "session_id": self.session, "event": event}

    say = Acp.say

    def tool(self, title: str, call: str = "t", **members: Any) -> None:
        use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": title}}
        send({"type": "assistant", "message": {"id": "m", "content": [use]}, **members})

    def end(self, **members: Any) -> None:
        told = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
        send({**told, "session_id": self.session, **members})

    def fail(self, status: int, text: str, resets: float | None = None) -> None:
        if resets:
            info = {"status": "rejected", "resetsAt": resets, "rateLimitType": "five_hour"}
            send({"type": "rate_limit_event", "rate_limit_info": info})
        self.end(is_error=True, result=text, api_error_status=status)

    def ask(self, number: int, title: str) -> None:
        inner = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": title}}
        request = {**inner, "tool_use_id": f"t{number}"}
        send({"type": "control_request", "request_id": f"q{number}", "request": request})

    def other_session(self) -> None:
        self.session = SESSION + "2"
        self.init()
        self.say("in another session")


class Exec(Plain):
    """``codex exec --json``."""

    session = SESSION + "1"
    said = 0

    def prompt(self) -> str:
        text = sys.stdin.buffer.read().decode()
        send({"type": "thread.started", "thread_id": self.session})
        send({"type": "turn.started"})
        return text

    def frame(self, text: str) -> Any:
        self.said += 1
        item = {"id": f"i{self.said}", "type": "agent_message", "text": text}
        return {"type": "item.completed", "item": item}

    say = Acp.say

    def tool(self, title: str, call: str = "t", **members: Any) -> None:
        item = {"id": call, "type": "command_execution", "command": title, "status": "in_progress"}
        send({"type": "item.started", "item": {**item, **members}})

    def end(self) -> None:
        send({"type": "turn.completed", "usage": {}})

    def fail(self, status: int, text: str, resets: float | None = None) -> None:
        when = f", resets at {resets}" if resets else ""
        send({"type": "turn.failed", "error": {"message": f"{status} {text}{when}"}})

    def other_session(self) -> None:
        send({"type": "thread.started", "thread_id": SESSION + "2"})
        self.say("in another session")


class Server(Plain):
    """``codex app-server``."""

    session = SESSION + "1"

    def prompt(self) -> str:
        for request in lines():
            number, params = request.get("id"), request.get("params") or {}
            if request.get("method") == "initialize":
                send({"id": number, "result": {"userAgent": "hostile/1"}})
            elif request.get("method") in ("thread/start", "thread/resume"):
                send({"id": number, "result": {"thread": {"id": self.session}, "model": "m"}})
            elif request.get("method") == "turn/start":
                send({"id": number, "result": {"turn": {"id": "u1", "status": "inProgress"}}})
                self.notify("turn/started", turn={"id": "u1", "status": "inProgress"})
                return params["input"][0]["text"]
        sys.exit(0)

    def told(self, method: str, **params: Any) -> Any:
        return {"method": method, "params": {"threadId": self.session, "turnId": "u1", **params}}

    def notify(self, method: str, **params: Any) -> None:
        send(self.told(method, **params))

    def frame(self, text: str) -> Any:
        return self.told("item/agentMessage/delta", itemId="i1", delta=text)

    say = Acp.say

    def tool(self, title: str, call: str = "t", **members: Any) -> None:
        item = {"id": call, "type": "commandExecution", "command": title, "status": "inProgress"}
        self.notify("item/started", item={**item, **members})

    def end(self) -> None:
        self.notify("turn/completed", turn={"id": "u1", "status": "completed"})

    def fail(self, status: int, text: str, resets: float | None = None) -> None:
        error = {"message": text, "codexErrorInfo": {"status": status, "resetsAt": resets}}
        self.notify("turn/completed", turn={"id": "u1", "status": "failed", "error": error})

    def ask(self, number: int, title: str) -> None:
        method, params = "item/commandExecution/requestApproval", {"command": title}
        send({"id": number, **self.told(method, itemId=f"t{number}", **params)})

    def other_session(self) -> None:
        self.session = SESSION + "2"
        self.say("in another session")


class Pi(Plain):
    """``pi --mode rpc``."""

    session = SESSION + "1"

    def prompt(self) -> str:
        for command in lines():
            reply = {"id": command["id"], "type": "response", "success": True}
            send({**reply, "data": {"sessionId": self.session, "thinkingLevel": "off"}})
            if command["type"] == "prompt":
                send({"type": "agent_start"})
                send({"type": "message_start", "message": {"role": "assistant"}})
                return command["message"]
        sys.exit(0)

    def frame(self, text: str) -> Any:
        delta = {"type": "text_delta", "contentIndex": 0, "delta": text}
        return {"type": "message_update", "assistantMessageEvent": delta}

    say = Acp.say

    def tool(self, title: str, call: str = "t", **members: Any) -> None:
        named = {"toolCallId": call, "toolName": "bash", "args": {"command": title}}
        send({"type": "tool_execution_start", **named, **members})

    def end(self, reason: str = "stop", **members: Any) -> None:
        message = {"role": "assistant", "content": [], "stopReason": reason, **members}
        send({"type": "message_end", "message": message})
        send({"type": "agent_settled"})

    def fail(self, status: int, text: str, resets: float | None = None) -> None:
        self.end("error", errorMessage=f"{status} {text} {resets or ''}")

    def ask(self, number: int, title: str) -> None:
        asked = {"call": f"t{number}", "tool": "bash", "input": {"command": title}}
        ours = {"title": "coachman: permission", "placeholder": json.dumps(asked)}
        send({"type": "extension_ui_request", "id": f"q{number}", "method": "input", **ours})

    def other_session(self) -> None:
        data = {"sessionId": SESSION + "2"}
        send({"id": "c1", "type": "response", "success": True, "data": data})
        self.say("in another session")


WIRES: tuple[tuple[str, type[Plain]], ...] = (
    ("acp", Acp),
    ("--input-format", Claude),
    ("exec", Exec),
    ("app-server", Server),
    ("rpc", Pi),
)


def wait() -> None:
    time.sleep(FOREVER_S)


def key() -> str:
    return next(os.environ[name] for name in KEY_NAMES if name in os.environ)


def beside(action: Callable[[], None], *, leave: bool = True) -> None:
    """Do it in a process that nobody is the parent of, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        if leave:
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
        action()
        os._exit(0)


# --- how it ends, or does not ----------------------------------------------------


def deaf(wire: Plain) -> None:
    """Ignores every signal that can be ignored, and an end of its stdin."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    wire.say("deaf")
    wait()


def daemonizes(wire: Plain) -> None:
    """Leaves processes behind that ignore signals, and ends well itself."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for _ in range(3):
        beside(wait)
    wire.say("left some behind")
    wire.end()


def holds_stdout(wire: Plain) -> None:
    """A child keeps stdout open, and goes on talking after the agent's exit."""
    wire.say("said")
    wire.end()
    beside(lambda: [write(b"still here\n") or time.sleep(0.01) for _ in range(10_000)], leave=False)
    os._exit(0)


def forks(wire: Plain) -> None:
    """Makes 200 processes that wait."""
    for _ in range(200):
        if os.fork() == 0:
            wait()
    wire.say("forked")
    wait()


def stops_itself(wire: Plain) -> None:
    """Stands still, as a debugger would have it."""
    wire.say("stopping")
    os.kill(os.getpid(), signal.SIGSTOP)


def exits(wire: Plain) -> None:
    """Exits with status 0 and no terminal record."""
    wire.say("I am done")


def lingers(wire: Plain) -> None:
    """Tells its end, and never exits."""
    wire.say("done")
    wire.end()
    wait()


def closes(wire: Plain) -> None:
    """Closes stdin and stdout, and lives on."""
    wire.say("closing")
    os.close(0)
    os.close(1)
    wait()


def dies_in_a_line(wire: Plain) -> None:
    """Half a frame, then nothing."""
    wire.say("before")
    data = json.dumps(wire.frame("x" * 1000)).encode()
    write(data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


# --- bytes -----------------------------------------------------------------------


def garbage() -> list[bytes]:
    """Lines that are no protocol."""
    return [
        b"\xff\xfe\x80 invalid \xc3\x28",
        b"\x00\x00nul\x00",
        b"crlf\r",
        "a\u2028b\u2029c\u0085d".encode(),
        b"\xef\xbb\xbf{}",
        b"INFO starting {not json}",
        b'{"type": 5, "method": null}',
        b'["result"]',
        b"\x1b]0;title\x07\x1b[2J\x1b[31m",
        b"",
    ]


def bytes_of_all_kinds(wire: Plain) -> None:
    """Noise of each kind between its frames, and odd characters in them."""
    for line in garbage():
        write(line + b"\n")
        wire.say("x\u2028y\u0000z\ud800")
    wire.end()


def long_line(wire: Plain, size: str) -> None:
    """A frame of so many MiB, then a word and the end."""
    frame = json.dumps(wire.frame("@")).encode()
    before, after = frame.split(b"@")
    write(before)
    for _ in range(int(size)):
        write(b"y" * MEBIBYTE)
    write(after + b"\n")
    wire.say("after it")
    wire.end()


def dense_line(wire: Plain, size: str) -> None:
    """A frame of so many MiB that is nothing but brackets, which a reader may want to build."""
    frame = json.dumps(wire.frame("x")).encode()
    write(frame[:-1] + b', "more": [')
    for _ in range(int(size)):
        write(b"[],{},[]," * (MEBIBYTE // 9))
    write(b"0]}\n")
    wire.say("after it")
    wire.end()


def flood(wire: Plain, size: str, kind: str) -> None:
    """So many MiB of text lines, or of valid frames, as fast as they are taken."""
    line = b"z" * 120 + b"\n"
    if kind == "frames":
        line = json.dumps(wire.frame("w" * 80)).encode() + b"\n"
    block = line * (MEBIBYTE // len(line))
    for _ in range(int(size)):
        write(block)
    wire.say("the end")
    wire.end()


# --- questions, limits, sessions -------------------------------------------------


def asks_and_vanishes(wire: Plain) -> None:
    """Asks, and is gone before anybody can answer."""
    wire.ask(7, "rm -rf build")
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def asks_twice(wire: Plain) -> None:
    """Two questions with one id, and no wait for an answer."""
    wire.ask(7, "first")
    wire.ask(7, "second")
    for _ in range(2):
        next(sys.stdin.buffer)
    wire.say("asked")
    wire.end()


def asks(wire: Plain, count: str) -> None:
    """Asks so many times at once, and waits for all answers."""
    for number in range(int(count)):
        wire.ask(number + 100, f"command {number}")
    for _ in range(int(count)):
        next(sys.stdin.buffer)
    wire.say("asked")
    wire.end()


def limited(wire: Plain, seconds: str) -> None:
    """A usage limit, with a time when it ends unless that is 0."""
    resets = time.time() + float(seconds) if float(seconds) else None
    wire.fail(429, "rate_limit_error: too many requests", resets)


def limited_once(wire: Plain, seconds: str) -> None:
    """A limit the first time; then it tells how long its key is, and ends its turn a little later.

    By then it has written more than the first time, and goes on all the same.
    """
    marker = os.path.expanduser("~/was-limited")
    if not os.path.exists(marker):
        os.close(os.open(marker, os.O_CREAT | os.O_WRONLY))
        limited(wire, seconds)
        return
    wire.say(f"a key of {len(os.environ.get('HOSTILE_KEY', ''))}")
    time.sleep(0.5)
    wire.end()


def retries(wire: Plain, words: str) -> None:
    """Meets limits and says so on stderr only, as one that asks again; ``later``: in its work."""
    if words == "later":
        wire.say("begun")
    if words != "noise":
        os.write(2, b"Attempt 1 failed with status 429. Retrying with backoff\n    at retry:7\n")
    else:
        os.write(2, b"Ripgrep is not available\n")
    wait()


def stuck(wire: Plain, seconds: str) -> None:
    """Does and says the same in each turn, whatever it is told, and meets a limit each time."""
    with open(AGAIN, "w") as file:
        file.write(f"stuck {seconds}")
    wire.tool("look around")
    wire.say("I look around")
    limited(wire, seconds)


def unauthorized(wire: Plain) -> None:
    """Its login is no good."""
    wire.fail(401, "authentication_error: invalid x-api-key")


def other_session(wire: Plain) -> None:
    """Goes on in another session than it named."""
    wire.say("in one, ")
    wire.other_session()
    wire.end()


# --- files -----------------------------------------------------------------------


def rewrites_git(wire: Plain) -> None:
    """Points `.git` elsewhere, with hooks and filters that would run on the host."""
    os.makedirs("evil/hooks", exist_ok=True)
    with open("evil/config", "w") as file:
        file.write("[core]\n\tfsmonitor = touch /tmp/hostile-ran\n\thooksPath = hooks\n")
    with open(".gitattributes", "w") as file:
        file.write("* filter=evil\n")
    with contextlib.suppress(OSError):
        os.unlink(".git")
    with contextlib.suppress(OSError), open(".git", "w") as file:
        file.write(f"gitdir: {os.getcwd()}/evil\n")
    with open("made.txt", "w") as file:
        file.write("made\n")
    wire.say("rewritten")
    wire.end()


def fills(wire: Plain, directory: str, size: str) -> None:
    """Writes so many MiB into a directory, or as much as there is room for."""
    try:
        with open(f"{directory}/filler", "wb") as file:
            for _ in range(int(size)):
                file.write(b"f" * MEBIBYTE)
    except OSError as error:
        wire.say(f"full: {error.errno} ")
    wire.say("filled")
    wire.end()


def litters(wire: Plain, count: str) -> None:
    """So many small files in its home and as many in its output."""
    for directory in (os.path.expanduser("~"), "/output"):
        for number in range(int(count)):
            os.close(os.open(f"{directory}/f{number}", os.O_CREAT | os.O_WRONLY))
    wire.say("littered")
    wire.end()


def names(wire: Plain) -> None:
    """Files whose names hold control characters, no UTF-8, or its key."""
    odd = [b"new\nline", b"\x1b[31mred", b"\xff\xfe", "\u202etxt.exe".encode(), b"-rf"]
    for directory in (b".", b"/output"):
        for name in [*odd, b"k-" + key().encode()]:
            with open(directory + b"/" + name, "wb") as file:
                file.write(b"x\n")
    wire.say("named")
    wire.end()


def updates_itself(wire: Plain) -> None:
    """Replaces its own program, by writing over it, by a rename and by a removal."""
    path, done = os.path.realpath(sys.argv[0]), []
    for change in (
        lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        lambda: os.rename("made.txt", path),
        lambda: os.unlink(path),
    ):
        with open("made.txt", "w") as file:
            file.write("#!/bin/sh\n")
        try:
            change()
            done.append("changed")
        except OSError as error:
            done.append(str(error.errno))
    wire.say(" ".join(done))
    wire.end()


def nothing(wire: Plain) -> None:
    """Ends well, without a word or a change."""
    wire.end()


# --- secrets ---------------------------------------------------------------------


def leaks(wire: Plain) -> None:
    """Its key: whole, split over chunks with noise between, in tools, questions, stderr."""
    whole = key()
    half = len(whole) // 2
    wire.say(f"whole {whole} whole, ")
    for piece in (whole[:half], whole[half:], *whole, " and "):
        wire.say(piece)
    write(f"\nnoise {whole} noise\n".encode())
    wire.tool(f"echo {whole}", rawInput={"a": whole, whole: [whole]})
    os.write(2, f"stderr {whole}\n".encode())
    wire.say(json.dumps({"nested": whole}))
    # A mask that looks at neighbours only would let the halves meet in the message.
    wire.say(whole[:half])
    write(b"noise\n")
    wire.say(whole[half:])
    wire.end()


def leaks_in_a_question(wire: Plain) -> None:
    """Asks with its key, and waits for the answer."""
    wire.ask(7, f"echo {key()}")
    next(iter(sys.stdin.buffer), None)
    wire.say("asked")
    wire.end()


def leaks_in_its_failure(wire: Plain) -> None:
    """Its last word is its key."""
    wire.fail(400, f"bad key {key()}")


def leaks_encoded(wire: Plain) -> None:
    """Its key in other forms, and in two fields: what no mask can know."""
    whole = key()
    wire.say(base64.b64encode(whole.encode()).decode() + " ")
    wire.say(urllib.parse.quote(whole, safe="") + " ")
    wire.say(whole[::-1] + " ")
    wire.end()


# What it does in each turn from then on.
AGAIN = os.path.expanduser("~/again")
MODES: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        asks, asks_and_vanishes, asks_twice, bytes_of_all_kinds, closes, daemonizes, deaf,
        dense_line, dies_in_a_line, exits, fills, flood, forks, holds_stdout, leaks,
        leaks_encoded, leaks_in_a_question, leaks_in_its_failure, limited, limited_once, lingers,
        litters, long_line, names, nothing, other_session, retries, rewrites_git, stops_itself,
        stuck,
        unauthorized, updates_itself,
    )
}  # fmt: skip


def main() -> None:
    """Play the wire up to the prompt, then the mode that it names."""
    wire = next((made for word, made in WIRES if word in sys.argv[1:]), Plain)()
    told = wire.prompt().split("\n", 1)[0]
    if os.path.exists(AGAIN):
        with open(AGAIN) as file:
            told = file.read()
    mode, *arguments = told.split()
    MODES[mode](wire, *arguments)


if __name__ == "__main__":
    main()
