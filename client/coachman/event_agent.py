"""The members of events about what an agent was told, and what it said and did."""

from typing import Any, NotRequired, TypedDict

from .event_envelope import By, PromptFile


class AgentInput(TypedDict):
    """What the conversation was told, at which offset of the agent's output; replay needs it.

    ``kind`` is start, prompt, answer, cancel, timer or finish, each with members of its own.
    """

    kind: str
    at: int
    prompt: NotRequired[int]
    prompt_turn: NotRequired[int]
    file: NotRequired[PromptFile]
    request: NotRequired[str]
    option: NotRequired[str | None]
    option_kind: NotRequired[str | None]
    outcome: NotRequired[str]
    by: NotRequired[By]
    message: NotRequired[str]
    of_turn: NotRequired[int]
    name: NotRequired[str]
    exit_code: NotRequired[int | None]
    signal: NotRequired[int | None]
    epilogue: NotRequired[bool]
    epilogue_error: NotRequired[str]


class AgentSession(TypedDict):
    """The agent named its session, which is this event's ``session``."""

    agent_version: str | None


class Chunk(TypedDict):
    """A piece of a text; pieces of one message share its ``message_id`` where the agent has one."""

    text: str
    message_id: NotRequired[str]


class ToolCall(TypedDict):
    """A tool is used. ``content`` is what it shows besides its output."""

    tool_call_id: str
    kind: str
    title: str
    status: str
    name: NotRequired[str]
    input: NotRequired[Any]
    output: NotRequired[Any]
    locations: NotRequired[list[Any]]
    content: NotRequired[list[Any]]


class ToolCallUpdate(TypedDict):
    """What changed about a tool call; the other members stand as they were."""

    tool_call_id: str
    kind: NotRequired[str]
    title: NotRequired[str]
    status: NotRequired[str]
    name: NotRequired[str]
    input: NotRequired[Any]
    output: NotRequired[Any]
    locations: NotRequired[list[Any]]
    content: NotRequired[list[Any]]


class AgentPlan(TypedDict):
    """What the agent means to do, in its own terms."""

    entries: list[Any]


class AgentStatus(TypedDict):
    """The agent's phase: thinking, working, waiting or done."""

    phase: str
    label: NotRequired[str]


class AgentCommands(TypedDict):
    """The commands that the agent offers, in its own terms."""

    commands: list[Any]


class AgentNotice(TypedDict):
    """A remark of the agent, or of its conversation, about itself."""

    text: str
    severity: NotRequired[str]


class AgentNoise(TypedDict):
    """Output that was not protocol: its first line, and how much there was."""

    bytes: int
    text: NotRequired[str]
    lines: NotRequired[int]


class AgentUnknown(TypedDict):
    """Protocol that this version does not know, as it came."""

    raw: Any
