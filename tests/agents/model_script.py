"""What the scripted model does, before it takes a wire's form.

The last user message scripts it, one directive a line; each request of a turn
takes the next line, and past the last one the model says "done":

    SAY text            WRITE path text      RUN command
    THINK text          SLOW seconds text    FAIL status
    LIMIT [seconds]     429; with seconds: until so long after it was first met, then none
    CALL tool {…}       calls a tool by its name, with these arguments
    STOP reason text    says text and stops for a reason in the wire's own word
    BREAK text          the answer's stream begins, then tells of a failure

Lines that are no directive are ignored; a prompt without any is echoed.
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DIRECTIVES = ("SAY", "WRITE", "RUN", "THINK", "SLOW", "FAIL", "LIMIT", "CALL", "STOP", "BREAK")
CACHED_TOKENS = 100
TEXT_TOKENS = 7
TOOL_TOKENS = 11
TITLE = "Scripted session"
PATH_NAMES = ("filePath", "file_path", "path", "filename", "target_file")
CONTENT_NAMES = ("content", "contents", "text", "code_edit")
COMMAND_NAMES = ("command", "cmd", "script")


@dataclass(frozen=True)
class Message:
    """One message of a conversation; ``role`` is user, assistant, tool or system."""

    role: str
    text: str = ""


@dataclass(frozen=True)
class Tool:
    """A tool that the client offers, with the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """One request to the model. ``title``: the client only wants a name for its session."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    model: str | None = None
    stream: bool = True
    title: bool = False


class Limits:
    """When each LIMIT of a script began: ``LIMIT 5`` is over five seconds after that."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}

    def left_s(self, rest: str) -> float | None:
        """How long it goes on; None for one without an end, 0 for one that is over."""
        if not rest:
            return None
        ends = self._ends.setdefault(rest, time.time() + float(rest))
        return max(0.0, ends - time.time())

    def is_over(self, rest: str) -> bool:
        """Whether it was met, and is past."""
        return self._ends.get(rest, math.inf) <= time.time()


class Reply:
    """What the model answers to ``asked``, under ``limits`` that go on from one to the next."""

    def __init__(self, asked: Asked, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.title = asked.title
        self.thought = ""
        self.text = ""
        self.call: tuple[str, dict[str, Any]] | None = None
        self.stop_reason: str | None = None
        self.status = 200
        self.retry_after_s: int | None = None
        self.seconds = 0.0
        self.broken = False
        verb, rest = ("SAY", TITLE) if asked.title else next_directive(asked.messages, self.limits)
        self.directive = f"{verb} {rest}".strip()
        self._obey(verb, rest, asked.tools)
        self.input_tokens = 1000 + 10 * len(asked.messages)
        self.output_tokens = TOOL_TOKENS if self.call else TEXT_TOKENS

    def _obey(self, verb: str, rest: str, tools: tuple[Tool, ...]) -> None:
        if verb == "FAIL":
            self.status, self.text = int(rest or 400), f"scripted failure {rest or 400}"
        elif verb == "LIMIT":
            self.status, self.text = 429, "scripted limit"
            left_s = self.limits.left_s(rest)
            self.retry_after_s = None if left_s is None else math.ceil(left_s)
        elif verb == "BREAK":
            self.status, self.broken, self.text = 500, True, rest
        elif verb == "CALL":
            name, _, arguments = rest.partition(" ")
            self.call = (name, json.loads(arguments))
        elif verb == "STOP":
            self.stop_reason, _, self.text = rest.partition(" ")
        elif verb in ("WRITE", "RUN"):
            self.call = tool_call(tools, verb, rest)
            self.text = "" if self.call else "no tool for that"
        elif verb == "SLOW":
            seconds, _, self.text = rest.partition(" ")
            self.seconds = float(seconds)
        else:
            self.thought = rest if verb == "THINK" else ""
            self.text = "thought about it" if verb == "THINK" else rest

    def words(self) -> list[str]:
        """The text in the pieces in which it is streamed."""
        words = self.text.split(" ")
        return [word + " " for word in words[:-1]] + words[-1:]


def directives(text: str) -> list[tuple[str, str]]:
    """The (verb, rest) pairs of a prompt, in order."""
    found = []
    for line in text.splitlines():
        verb, _, rest = line.strip().strip('"').partition(" ")
        if verb in DIRECTIVES:
            found.append((verb, rest))
    return found


def next_directive(messages: tuple[Message, ...], limits: Limits) -> tuple[str, str]:
    """What to do now: what the user said last, less the steps taken since and limits past."""
    users = [n for n, message in enumerate(messages) if message.role == "user"]
    if not users:
        return "SAY", "done"
    script = _script(messages, users[-1])
    if not script:
        return "SAY", messages[users[-1]].text
    script = [each for each in script if each[0] != "LIMIT" or not limits.is_over(each[1])]
    steps = sum(message.role == "assistant" for message in messages[users[-1] :])
    return script[steps] if steps < len(script) else ("SAY", "done")


def _script(messages: tuple[Message, ...], last: int) -> list[tuple[str, str]]:
    """The directives of the user's last message that has any.

    Clients put notes of their own beside the prompt; and where a turn was cancelled before the
    model said anything, its prompt stands right before the next one.
    """
    while last >= 0 and messages[last].role == "user":
        found = directives(messages[last].text)
        if found:
            return found
        last -= 1
    return []


def _first(names: tuple[str, ...], properties: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in properties), None)


def _arguments(schema: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` plus something valid for whatever else the schema requires."""
    fillers: dict[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": []}
    for name in schema.get("required", ()):
        kind = schema["properties"].get(name, {}).get("type", "string")
        given.setdefault(name, fillers.get(kind, "scripted"))
    return given


def tool_call(tools: tuple[Tool, ...], verb: str, rest: str) -> tuple[str, dict[str, Any]] | None:
    """(tool name, arguments) for a directive, picked by the tools' schemas."""
    for tool in tools:
        properties = tool.schema.get("properties", {})
        if verb == "WRITE":
            path, content = _first(PATH_NAMES, properties), _first(CONTENT_NAMES, properties)
            if path and content:
                where, _, text = rest.partition(" ")
                return tool.name, _arguments(tool.schema, {path: where, content: text + "\n"})
        elif command := _first(COMMAND_NAMES, properties):
            array = properties[command].get("type") == "array"
            value = ["sh", "-c", rest] if array else rest
            return tool.name, _arguments(tool.schema, {command: value})
    return None


def text_of(content: Any) -> str:
    """The text of a message's content, a string or a list of parts.

    Of several parts with directives the last one counts: clients put a prompt that failed and
    the one after it into one message.
    """
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text", "") for part in parts if isinstance(part, dict)]
    scripts = [text for text in texts if directives(text)]
    return scripts[-1] if len(scripts) > 1 else "\n".join(texts)


def call_id() -> str:
    """An id for a tool call, unique in the process."""
    return f"call_{time.monotonic_ns():x}"


def dumps(value: Any) -> bytes:
    """JSON as it goes over a wire."""
    return json.dumps(value).encode()
