"""Transcripts of agents: what went into a conversation, and feeding it again.

A transcript is a list of steps, JSON objects: {start}, {stdout: text}, {prompt: text},
{answer: request, option, message?}, {cancel}, {timer: name}, {finish: {exit_code, signal,
stderr, epilogue}}. The stdout of one step is whatever one read returned.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import evolve

from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Cancel,
    Conversation,
    Ending,
    Event,
    Prompt,
    TurnEnded,
    Write,
)

FIXTURES = Path(__file__).parents[1] / "adapters" / "fixtures"
REQUEST_MEMBERS = (
    "permissions",
    "words",
    "model",
    "as_agent",
    "keep",
    "session",
    "session_counters",
)
Step = dict[str, Any]


def load(part: str, name: str) -> dict[str, Any]:
    """A recorded transcript: {cwd, the request's members, usage, steps, stdin}."""
    return json.loads((FIXTURES / part / f"{name}.json").read_text())


def names(part: str) -> list[str]:
    """Every recorded transcript of an agent."""
    return sorted(path.stem for path in (FIXTURES / part).glob("*.json"))


def request_of(told: dict[str, Any]) -> AgentRequest:
    """The request that a transcript was recorded with."""
    members = {name: told[name] for name in REQUEST_MEMBERS if name in told}
    members["env_names"] = frozenset(told.get("env_names", ()))
    return AgentRequest(cwd=told["cwd"], home="/home/agent", **members)


def feed(conversation: Conversation, step: Step) -> list[Action]:
    """One step into the conversation."""
    if "stdout" in step:
        return conversation.receive(step["stdout"].encode())
    if "prompt" in step:
        return conversation.intend(Prompt(step.get("turn", 1), step["prompt"]))
    if "answer" in step:
        return conversation.intend(Answer(step["answer"], step["option"], step.get("message")))
    if "cancel" in step:
        return conversation.intend(Cancel())
    if "timer" in step:
        return conversation.expire(step["timer"])
    if "finish" in step:
        return conversation.finish(ending(step["finish"]))
    return conversation.start()


def ending(told: dict[str, Any]) -> Ending:
    """The `Ending` of a finish step."""
    epilogue = told.get("epilogue")
    return Ending(
        told["exit_code"],
        told["signal"],
        told.get("stderr", "").encode(),
        epilogue.encode() if epilogue is not None else None,
    )


def replay(conversation: Conversation, steps: Iterable[Step]) -> list[Action]:
    """All actions of a transcript."""
    return [action for step in steps for action in feed(conversation, step)]


def stdin_of(actions: Iterable[Action]) -> bytes:
    """Everything that was written to the agent."""
    return b"".join(action.data for action in actions if isinstance(action, Write))


def events_of(actions: Iterable[Action], kind: str | None = None) -> list[Event]:
    """The journal's events, of one type or all."""
    found = [action for action in actions if isinstance(action, Event)]
    return [event for event in found if kind in (None, event.type)]


def text_of(actions: Iterable[Action]) -> str:
    """The text of all message chunks."""
    return "".join(event.members["text"] for event in events_of(actions, "agent.message_chunk"))


def last_status(actions: Iterable[Action]) -> list[str]:
    """The last status of each tool call."""
    status: dict[str, str] = {}
    for event in events_of(actions):
        if event.type.startswith("tool.") and "status" in event.members:
            status[event.members["tool_call_id"]] = event.members["status"]
    return list(status.values())


def ended(actions: Iterable[Action]) -> list[TurnEnded]:
    """The terminal records."""
    return [action for action in actions if isinstance(action, TurnEnded)]


def rechunk(steps: list[Step], cut: Callable[[bytes], list[bytes]]) -> Iterator[Callable[..., Any]]:
    """The steps as functions of a conversation, runs of stdout cut anew by ``cut``."""
    held = b""
    for step in [*steps, {}]:
        if "stdout" in step:
            held += step["stdout"].encode()
            continue
        for piece in cut(held) if held else []:
            yield lambda conversation, piece=piece: conversation.receive(piece)
        held = b""
        if step:
            yield lambda conversation, step=step: feed(conversation, step)


def without_spans(actions: Iterable[Action]) -> list[Action]:
    """For comparisons where offsets differ."""
    return [
        evolve(action, span=None) if isinstance(action, Event) else action for action in actions
    ]
