"""A scripted model on loopback: OpenAI Chat Completions, streaming and not.

The last user message scripts it, one directive a line; each request of a turn
takes the next line, and past the last one the model says "done":

    SAY text            WRITE path text      RUN command
    THINK text          SLOW seconds text    FAIL status

Lines that are no directive are ignored; a prompt without any is echoed. Requests
for a title (no tools, a system prompt that mentions one) get a fixed title. Every
request reports 1000 + 10 x messages input tokens, 100 of them cached, and 7 output
tokens for text or 11 for a tool call; what was reported is logged in `requests`
and served at ``GET /requests``.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIRECTIVES = ("SAY", "WRITE", "RUN", "THINK", "SLOW", "FAIL")
CACHED_TOKENS = 100
TEXT_TOKENS = 7
TOOL_TOKENS = 11
TITLE = "Scripted session"
PATH_NAMES = ("filePath", "file_path", "path", "filename", "target_file")
CONTENT_NAMES = ("content", "contents", "text", "code_edit")
COMMAND_NAMES = ("command", "cmd", "script")


def text_of(content: Any) -> str:
    """The text of a message's content, a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part.get("text", "") for part in parts if isinstance(part, dict))


def directives(text: str) -> list[tuple[str, str]]:
    """The (verb, rest) pairs of a prompt, in order."""
    found = []
    for line in text.splitlines():
        verb, _, rest = line.strip().strip('"').partition(" ")
        if verb in DIRECTIVES:
            found.append((verb, rest))
    return found


def next_directive(messages: list[dict[str, Any]]) -> tuple[str, str]:
    """What to do now: the user's last message, less the steps taken since."""
    users = [n for n, message in enumerate(messages) if message.get("role") == "user"]
    if not users:
        return "SAY", "done"
    script = directives(text_of(messages[users[-1]].get("content")))
    if not script:
        return "SAY", text_of(messages[users[-1]].get("content"))
    steps = sum(message.get("role") == "assistant" for message in messages[users[-1] :])
    return script[steps] if steps < len(script) else ("SAY", "done")


def is_title_request(body: Mapping[str, Any]) -> bool:
    """Whether a client only asks for a session's name."""
    system = [text_of(m.get("content")) for m in body["messages"] if m.get("role") == "system"]
    return not body.get("tools") and any("title" in text.lower() for text in system)


def _first(names: tuple[str, ...], properties: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in properties), None)


def _arguments(schema: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` plus something valid for whatever else the schema requires."""
    fillers: dict[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    for name in schema.get("required", ()):
        kind = schema["properties"].get(name, {}).get("type", "string")
        given.setdefault(name, fillers.get(kind, "scripted"))
    return given


def tool_call(tools: list[dict[str, Any]], verb: str, rest: str) -> tuple[str, str] | None:
    """(tool name, JSON arguments) for a directive, picked by the tools' schemas."""
    for tool in tools:
        function = tool.get("function", {})
        schema = function.get("parameters", {})
        properties = schema.get("properties", {})
        if verb == "WRITE":
            path, content = _first(PATH_NAMES, properties), _first(CONTENT_NAMES, properties)
            if path and content:
                where, _, text = rest.partition(" ")
                given = {path: where, content: text + "\n"}
                return function["name"], json.dumps(_arguments(schema, given))
        elif command := _first(COMMAND_NAMES, properties):
            array = properties[command].get("type") == "array"
            value = ["sh", "-c", rest] if array else rest
            return function["name"], json.dumps(_arguments(schema, {command: value}))
    return None


class Reply:
    """One answer of the model, before it takes a wire form."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.title = is_title_request(body)
        self.thought = ""
        self.text = ""
        self.call: tuple[str, str] | None = None
        self.status = 200
        self.seconds = 0.0
        verb, rest = ("SAY", TITLE) if self.title else next_directive(body["messages"])
        self.directive = f"{verb} {rest}"
        if verb == "FAIL":
            self.status, self.text = int(rest or 400), f"scripted failure {rest or 400}"
        elif verb in ("WRITE", "RUN"):
            self.call = tool_call(body.get("tools") or [], verb, rest)
            self.text = "" if self.call else "no tool for that"
        elif verb == "SLOW":
            seconds, _, self.text = rest.partition(" ")
            self.seconds = float(seconds)
        else:
            self.thought = rest if verb == "THINK" else ""
            self.text = "thought about it" if verb == "THINK" else rest
        prompt = 1000 + 10 * len(body["messages"])
        output = TOOL_TOKENS if self.call else TEXT_TOKENS
        self.usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
        }

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.call else "stop"

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.thought:
            message["reasoning_content"] = self.thought
        if self.call:
            function = {"name": self.call[0], "arguments": self.call[1]}
            message["tool_calls"] = [{"id": call_id(), "type": "function", "function": function}]
        return message

    def deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        if self.thought:
            yield {"reasoning_content": self.thought}
        if self.call:
            function = {"name": self.call[0], "arguments": self.call[1]}
            call = {"index": 0, "id": call_id(), "type": "function", "function": function}
            yield {"tool_calls": [call]}
            return
        words = self.text.split(" ")
        for n, word in enumerate(words):
            yield {"content": word if n == len(words) - 1 else word + " "}


def call_id() -> str:
    """An id for a tool call, unique in the process."""
    return f"call_{time.monotonic_ns():x}"


class Handler(BaseHTTPRequestHandler):
    """One request; the server's ``model`` keeps the log."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/requests"):
            self._json(200, {"requests": self.server.model.requests})
        elif self.path.endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": "fake-model", "object": "model"}]})
        else:
            self._json(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if not self.path.endswith("/chat/completions"):
            self._json(404, {"error": {"message": f"no such path: {self.path}"}})
            return
        reply = Reply(body)
        self.server.model.record(body, reply)
        if reply.status != 200:
            error = {"message": reply.text, "type": "scripted", "code": str(reply.status)}
            self._json(reply.status, {"error": error})
        elif body.get("stream"):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._stream(body, reply)
        else:
            time.sleep(reply.seconds)
            choice = {"index": 0, "message": reply.message(), "finish_reason": reply.finish_reason}
            self._json(200, self._frame(body, "chat.completion", [choice], reply.usage))

    def _frame(
        self, body: Mapping[str, Any], kind: str, choices: list[Any], usage: Any
    ) -> dict[str, Any]:
        frame = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body.get("model")}
        return frame | {"choices": choices, "usage": usage}

    def _stream(self, body: Mapping[str, Any], reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        deltas = list(reply.deltas())
        for n, delta in enumerate(deltas):
            if n:
                time.sleep(reply.seconds / len(deltas))
            self._event(body, [{"index": 0, "delta": delta, "finish_reason": None}], None)
        last = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
        self._event(body, [last], None)
        self._event(body, [], reply.usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, body: Mapping[str, Any], choices: list[Any], usage: Any) -> None:
        frame = self._frame(body, "chat.completion.chunk", choices, usage)
        self.wfile.write(b"data: " + json.dumps(frame).encode() + b"\n\n")
        self.wfile.flush()

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: "ModelServer"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of many tests."""


class ModelServer:
    """The scripted model; a context manager that serves while it is open.

    ``requests`` holds one dict per request: directive, title, stream, model,
    messages (how many), tools (their names), status, usage.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self._http = _Server(("127.0.0.1", port), Handler)
        self._http.model = self
        self.port: int = self._http.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def record(self, body: Mapping[str, Any], reply: Reply) -> None:
        """Keep what was asked and what was reported."""
        tools = [tool.get("function", {}).get("name") for tool in body.get("tools") or []]
        self.requests.append(
            {
                "directive": reply.directive,
                "title": reply.title,
                "stream": bool(body.get("stream")),
                "model": body.get("model"),
                "messages": len(body["messages"]),
                "tools": tools,
                "status": reply.status,
                "usage": reply.usage if reply.status == 200 else None,
            }
        )

    def totals(self) -> dict[str, int]:
        """What a run's usage must be: everything reported but titles.

        Keys as in the adapters' `Usage`: input without cached, cached_input, output.
        """
        answered = [r["usage"] for r in self.requests if r["usage"] and not r["title"]]
        cached = CACHED_TOKENS * len(answered)
        return {
            "input": sum(usage["prompt_tokens"] for usage in answered) - cached,
            "cached_input": cached,
            "output": sum(usage["completion_tokens"] for usage in answered),
        }

    def opencode_config(self) -> dict[str, Any]:
        """A configuration for opencode with this server as its only provider."""
        limit = {"context": 128000, "output": 8192}
        return {
            "$schema": "https://opencode.ai/config.json",
            "model": "fake/fake-model",
            "small_model": "fake/fake-small",
            "enabled_providers": ["fake"],
            "provider": {
                "fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Fake",
                    "options": {"baseURL": self.base_url, "apiKey": "dummy"},
                    "models": {
                        "fake-model": {
                            "name": "Fake Model",
                            "limit": limit,
                            "cost": {"input": 1, "output": 2},
                        },
                        "fake-small": {"name": "Fake Small", "limit": limit},
                    },
                }
            },
        }

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def main() -> None:
    """Serve until stdin ends; prints the port first."""
    parser = argparse.ArgumentParser(description="A scripted model on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--config", action="store_true", help="print opencode's configuration too")
    arguments = parser.parse_args()
    with ModelServer(arguments.port) as server:
        print(server.port, flush=True)
        if arguments.config:
            print(json.dumps(server.opencode_config()), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
