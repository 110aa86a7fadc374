"""A scripted model on loopback, for the wire formats of `wires`, streaming and not.

`model_script` says what it answers. Every request reports 1000 + 10 x messages input
tokens, 100 of them cached, and 7 output tokens for text or 11 for a tool call; what was
reported is logged in `requests` and served at ``GET /requests``.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from model_script import CACHED_TOKENS, TEXT_TOKENS, TOOL_TOKENS, Asked, Limits, Reply, dumps
from wires import Wire, chat, gemini, messages, responses

__all__ = ["CACHED_TOKENS", "TEXT_TOKENS", "TOOL_TOKENS", "ModelServer"]

WIRES: tuple[Wire, ...] = (chat, gemini, messages, responses)
# What an API answers beside the model's own replies, by the end of the path.
BESIDE: dict[str, dict[str, Any]] = {
    ":countTokens": {"totalTokens": 1000},
    "/messages/count_tokens": {"input_tokens": 1000},
}


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
        elif self.path.endswith("/responses"):
            # A client that would rather have a web socket then asks in the plain way.
            self._json(426, {"error": {"message": "no web sockets here"}})
        else:
            self._json(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        path = self.path.partition("?")[0]
        beside = next((BESIDE[end] for end in BESIDE if path.endswith(end)), None)
        if beside is not None:
            self._json(200, beside)
            return
        wire = next((wire for wire in WIRES if wire.takes(path)), None)
        if wire is None:
            self._json(404, {"error": {"message": f"no such path: {self.path}"}})
            return
        asked = wire.read(path, body)
        reply = Reply(asked, self.server.model.limits)
        self.server.model.record(wire, asked, reply)
        if reply.status != 200 and not (reply.broken and asked.stream):
            headers, told = wire.error(reply)
            self._json(reply.status, told, headers)
        elif asked.stream:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._stream(wire, asked, reply)
        else:
            time.sleep(reply.seconds)
            self._json(200, wire.whole(asked, reply))

    def _stream(self, wire: Wire, asked: Asked, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        pause_s = reply.seconds / max(1, len(reply.words()))
        for data, pauses in wire.stream(asked, reply):
            self.wfile.write(data)
            self.wfile.flush()
            if pauses:
                time.sleep(pause_s)

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = dumps(value)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
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

    ``requests`` holds one dict per request: wire, directive, title, stream, model,
    messages (how many), heard (what a tool told last), tools (their names), status, usage,
    tokens ([input, output]).
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.limits = Limits()
        self._http = _Server(("127.0.0.1", port), Handler)
        self._http.model = self
        self.port: int = self._http.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def record(self, wire: Wire, asked: Asked, reply: Reply) -> None:
        """Keep what was asked and what was reported."""
        answered = reply.status == 200
        self.requests.append(
            {
                "wire": getattr(wire, "__name__", "").rpartition(".")[2],
                "directive": reply.directive,
                "title": reply.title,
                "stream": asked.stream,
                "model": asked.model,
                "messages": len(asked.messages),
                "heard": next((m.text for m in reversed(asked.messages) if m.role == "tool"), ""),
                "tools": [tool.name for tool in asked.tools],
                "status": reply.status,
                "usage": wire.usage(reply) if answered else None,
                "tokens": [reply.input_tokens, reply.output_tokens] if answered else None,
            }
        )

    def totals(self) -> dict[str, int]:
        """What a run's usage must be: everything reported but titles.

        Keys as in the adapters' `Usage`: input without cached, cached_input, output.
        """
        answered = [r["tokens"] for r in self.requests if r["tokens"] and not r["title"]]
        cached = CACHED_TOKENS * len(answered)
        return {
            "input": sum(given for given, _ in answered) - cached,
            "cached_input": cached,
            "output": sum(output for _, output in answered),
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
