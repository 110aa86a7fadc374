"""An ACP agent in memory: says frames to a conversation, keeps what comes back."""

import json
from typing import Any

from coachman_adapters.acp.conversation import AcpConversation
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Cancel,
    Ending,
    Prompt,
    Write,
)

SESSION = "s1"
OPTIONS = [
    {"optionId": "once", "kind": "allow_once", "name": "Allow once"},
    {"optionId": "no", "kind": "reject_once", "name": "Reject"},
]
Json = dict[str, Any]


def request(**members: Any) -> AgentRequest:
    """A request for a bounded run in /workspace."""
    return AgentRequest(**{"cwd": "/workspace", "home": "/home/agent"} | members)


class Peer:
    """Both ends of one conversation. ``sent``: the frames we wrote, in order."""

    def __init__(self, asked: AgentRequest | None = None, quirks: Quirks | None = None) -> None:
        self.request = asked or request()
        self.quirks = quirks or Quirks()
        self.conversation = AcpConversation(self.request, self.quirks)
        self.sent: list[Json] = []
        self.keep(self.conversation.start())

    def keep(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Write):
                self.sent += [json.loads(line) for line in action.data.splitlines()]
        return actions

    def raw(self, data: bytes) -> list[Action]:
        """The agent's bytes, as they are."""
        return self.keep(self.conversation.receive(data))

    def say(self, *frames: Json) -> list[Action]:
        """Frames of the agent."""
        lines = [json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in frames]
        return self.raw(b"".join(lines))

    def update(self, variant: str, **members: Any) -> list[Action]:
        """A session/update of our session."""
        params = {"sessionId": SESSION, "update": {"sessionUpdate": variant, **members}}
        return self.say({"method": "session/update", "params": params})

    def chunk(self, text: str) -> list[Action]:
        """A message chunk."""
        return self.update("agent_message_chunk", content={"type": "text", "text": text})

    def result(self, result: Any) -> list[Action]:
        """The answer to our latest request."""
        return self.say({"id": self.last_id, "result": result})

    def error(self, code: int, message: str, **members: Any) -> list[Action]:
        """An error for our latest request."""
        error = {"code": code, "message": message, **members}
        return self.say({"id": self.last_id, "error": error})

    def ask(self, number: Any = 0, tool: Json | None = None, **members: Any) -> list[Action]:
        """A permission request."""
        tool = tool or {"toolCallId": "t1", "title": "notes.md", "kind": "edit"}
        params = {"sessionId": SESSION, "toolCall": tool, "options": OPTIONS, **members}
        frame = {"id": number, "method": "session/request_permission", "params": params}
        return self.say(frame)

    def prompt(self, text: str = "hello") -> list[Action]:
        return self.keep(self.conversation.intend(Prompt(1, text)))

    def answer(self, key: str, option: str | None) -> list[Action]:
        return self.keep(self.conversation.intend(Answer(key, option)))

    def cancel(self) -> list[Action]:
        return self.keep(self.conversation.intend(Cancel()))

    def expire(self, timer: str) -> list[Action]:
        return self.keep(self.conversation.expire(timer))

    def gone(self, code: int | None = 0, signal: int | None = None, **members: Any) -> list[Action]:
        return self.keep(self.conversation.finish(Ending(code, signal, **members)))

    @property
    def last(self) -> Json:
        """The frame we sent last."""
        return self.sent[-1]

    @property
    def last_id(self) -> int:
        """The id of our latest request."""
        return next(
            frame["id"] for frame in reversed(self.sent) if {"id", "method"} <= frame.keys()
        )

    def initialized(self, **able: Any) -> list[Action]:
        """The answer to initialize."""
        info = {"name": "peer", "version": "9"}
        result = {"protocolVersion": 1, "agentCapabilities": able, "agentInfo": info}
        return self.result(result)


def ready(asked: AgentRequest | None = None, quirks: Quirks | None = None) -> Peer:
    """A peer whose session is open and idle."""
    peer = Peer(asked, quirks)
    peer.initialized()
    peer.result({"sessionId": SESSION})
    return peer


def prompted(asked: AgentRequest | None = None, quirks: Quirks | None = None) -> Peer:
    """A peer in the middle of a turn."""
    peer = ready(asked, quirks)
    peer.prompt()
    return peer
