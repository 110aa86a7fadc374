"""The scripted model as Anthropic's Messages API."""

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agents_model import ModelServer

TOOLS = [
    {
        "name": "Bash",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
            "required": ["command"],
        },
    },
    {
        "name": "Write",
        "input_schema": {
            "type": "object",
            "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["file_path", "content"],
        },
    },
    {"type": "web_search_20250305", "name": "web_search"},
]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(
    server: ModelServer, *messages: Any, path: str = "/v1/messages?beta=true", **body: Any
) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of a request whose messages are user texts or whole messages."""
    turns = [m if isinstance(m, dict) else {"role": "user", "content": m} for m in messages]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        sent = json.dumps({"model": "claude-x", "messages": turns, "tools": TOOLS, **body})
        connection.request("POST", path, sent)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read().decode()
    finally:
        connection.close()


def frames(text: str) -> list[dict[str, Any]]:
    """The events of a stream, whose names are those of their data."""
    found = []
    for event in text.strip().split("\n\n"):
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_it_says_what_the_prompt_tells(server: ModelServer) -> None:
    """Text, the stop reason and tokens without the cached ones are in a whole answer."""
    status, _, text = post(server, "SAY hello world")

    told = json.loads(text)
    assert (status, told["role"], told["model"]) == (200, "assistant", "claude-x")
    assert told["content"] == [{"type": "text", "text": "hello world"}]
    assert told["stop_reason"] == "end_turn"
    assert told["usage"]["input_tokens"] == 910
    assert told["usage"]["cache_read_input_tokens"] == 100
    assert server.totals() == {"input": 910, "cached_input": 100, "output": 7}
    assert server.requests[0]["tools"] == ["Bash", "Write"]


def test_a_stream_has_its_text_in_deltas(server: ModelServer) -> None:
    """A stream begins with the input's usage and ends with the whole one and a stop reason."""
    _, headers, text = post(server, "SAY one two", stream=True)

    told = frames(text)
    assert headers["content-type"] == "text/event-stream"
    assert [frame["type"] for frame in told] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert told[0]["message"]["usage"]["output_tokens"] == 1
    assert [frame["delta"]["text"] for frame in told[2:4]] == ["one ", "two"]
    assert told[-2]["delta"]["stop_reason"] == "end_turn"
    assert told[-2]["usage"]["output_tokens"] == 7


def test_a_tool_is_called_in_pieces(server: ModelServer) -> None:
    """A tool's arguments come as pieces of JSON, and the stop reason is the tool's."""
    told = frames(post(server, "WRITE a.txt hi", stream=True)[2])

    pieces = [f["delta"]["partial_json"] for f in told if f["type"] == "content_block_delta"]
    assert told[1]["content_block"]["name"] == "Write"
    assert told[1]["content_block"]["input"] == {}
    assert json.loads("".join(pieces)) == {"file_path": "a.txt", "content": "hi\n"}
    assert told[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_thought_comes_before_its_text(server: ModelServer) -> None:
    """Thinking is a block of its own, with a signature."""
    told = json.loads(post(server, "THINK deep")[2])
    streamed = frames(post(server, "THINK deep", stream=True)[2])

    assert [block["type"] for block in told["content"]] == ["thinking", "text"]
    assert told["content"][0]["thinking"] == "deep"
    deltas = [f["delta"]["type"] for f in streamed if f["type"] == "content_block_delta"]
    assert deltas[:3] == ["thinking_delta", "signature_delta", "text_delta"]


def test_results_of_tools_are_no_words_of_the_users(server: ModelServer) -> None:
    """After a tool's result comes the next directive; what the user adds beside it counts."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "SAY nothing"}
    note = {"type": "text", "text": "a note of the client's"}
    after = {"role": "user", "content": [result, note]}
    new = {"role": "user", "content": [result, {"type": "text", "text": "SAY another"}]}
    assistant = {"role": "assistant", "content": [call]}

    said = [
        json.loads(post(server, "RUN ls\nSAY well", assistant, message)[2])["content"][0]["text"]
        for message in (after, new)
    ]

    assert said == ["well", "another"]


@pytest.mark.parametrize(
    ("prompt", "content", "reason"),
    [
        ('CALL Read {"file_path": "x"}', {"name": "Read", "input": {"file_path": "x"}}, "tool_use"),
        ("STOP max_tokens and so", {"text": "and so"}, "max_tokens"),
        ("STOP refusal", None, "refusal"),
    ],
)
def test_any_tool_and_any_end_can_be_scripted(
    server: ModelServer, prompt: str, content: dict[str, Any] | None, reason: str
) -> None:
    """CALL names a tool with its arguments, STOP the reason of an end."""
    told = json.loads(post(server, prompt)[2])

    assert told["stop_reason"] == reason
    assert [each.items() >= (content or {}).items() for each in told["content"]] == [True] * bool(
        content
    )


def test_a_failure_has_the_apis_form(server: ModelServer) -> None:
    """FAIL answers with its status and the type of error that belongs to it."""
    status, _, text = post(server, "FAIL 529", stream=True)

    error = {"type": "overloaded_error", "message": "scripted failure 529"}
    assert (status, json.loads(text)) == (529, {"type": "error", "error": error})
    assert server.totals()["output"] == 0


def test_a_limit_says_when_it_ends(server: ModelServer) -> None:
    """LIMIT with seconds tells the reset in both headers, without it in none."""
    began = time.time()
    status, headers, text = post(server, "LIMIT 30")
    _, bare, _ = post(server, "LIMIT")

    assert (status, json.loads(text)["error"]["type"]) == (429, "rate_limit_error")
    assert headers["retry-after"] == "30"
    assert 29 <= int(headers["anthropic-ratelimit-unified-reset"]) - began <= 40
    assert not [name for name in bare if "ratelimit" in name or name == "retry-after"]


def test_a_broken_stream_tells_of_its_failure(server: ModelServer) -> None:
    """BREAK begins an answer and ends it with an error event."""
    status, _, text = post(server, "BREAK lost it", stream=True)

    assert status == 200
    assert [frame["type"] for frame in frames(text)] == ["message_start", "error"]
    assert frames(text)[1]["error"]["message"] == "lost it"


def test_a_count_of_tokens_uses_none(server: ModelServer) -> None:
    """The size of a request is told, and not in the log of what was used."""
    status, _, text = post(server, "SAY x", path="/v1/messages/count_tokens")

    assert (status, json.loads(text)) == (200, {"input_tokens": 1000})
    assert server.requests == []
