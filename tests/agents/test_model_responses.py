"""The scripted model's OpenAI Responses wire."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents_model import ModelServer

SHELL_TOOL = {
    "type": "function",
    "name": "exec_command",
    "parameters": {"properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
PATCH_TOOL = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}
TOOLS = [{"type": "web_search"}, SHELL_TOOL, PATCH_TOOL]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(server: ModelServer, prompt: Any, **members: Any) -> tuple[http.client.HTTPMessage, str]:
    """Headers and text of the answer."""
    body = {"model": "m", "tools": TOOLS, "input": prompt, **members}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", "/v1/responses", json.dumps(body))
        response = connection.getresponse()
        return response.headers, response.read().decode()
    finally:
        connection.close()


def whole(server: ModelServer, prompt: Any) -> dict[str, Any]:
    return json.loads(post(server, prompt)[1])


def streamed(server: ModelServer, prompt: Any) -> list[dict[str, Any]]:
    text = post(server, prompt, stream=True)[1]
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def said(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def test_it_says_what_the_prompt_tells(server: ModelServer) -> None:
    """The answer is a message; its usage counts messages, cache and output."""
    told = whole(server, "SAY hello world")

    [item] = told["output"]
    assert (told["status"], item["content"][0]["text"]) == ("completed", "hello world")
    assert told["usage"]["input_tokens"] == 1010
    assert told["usage"]["input_tokens_details"] == {"cached_tokens": 100}
    assert server.totals() == {"input": 910, "cached_input": 100, "output": 7}


def test_calls_take_the_form_of_their_tool(server: ModelServer) -> None:
    """A command is a function's arguments, a new file a patch in plain text."""
    [run], [write] = (whole(server, text)["output"] for text in ("RUN ls", "WRITE a.txt b"))

    assert (run["type"], json.loads(run["arguments"])) == ("function_call", {"cmd": "ls"})
    assert (write["type"], write["name"]) == ("custom_tool_call", "apply_patch")
    lines = ["*** Begin Patch", "*** Add File: a.txt", "+b", "*** End Patch"]
    assert write["input"].splitlines() == lines


def test_each_request_of_a_turn_takes_the_next_line(server: ModelServer) -> None:
    """A call and its output are one step; reasoning is none."""
    items = [
        said("RUN ls\nSAY well"),
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "exec_command", "call_id": "c", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ]

    assert whole(server, items)["output"][0]["content"][0]["text"] == "well"
    assert server.requests[0]["messages"] == 3


def test_a_stream_carries_the_same_in_pieces(server: ModelServer) -> None:
    """Items begin empty, grow by deltas, are repeated whole, and usage comes last."""
    events = streamed(server, [said("THINK deep")])

    kinds = [event["type"] for event in events]
    added = "response.output_item.added"
    assert kinds[:2] == ["response.created", added]
    assert kinds[-1] == "response.completed"
    assert [e["item"]["type"] for e in events if e["type"] == added] == ["reasoning", "message"]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(event["delta"] for event in deltas) == "thought about it"
    assert events[-1]["response"]["usage"]["total_tokens"] == 1017


@pytest.mark.parametrize(
    ("prompt", "last", "member", "value"),
    [
        ("BREAK it broke", "failed", "error", {"code": "server_error", "message": "it broke"}),
        (
            "STOP max_output_tokens text",
            "incomplete",
            "incomplete_details",
            {"reason": "max_output_tokens"},
        ),
    ],
)
def test_a_stream_may_end_otherwise(
    server: ModelServer, prompt: str, last: str, member: str, value: dict[str, str]
) -> None:
    """A failure in mid-stream and an answer cut short have last events of their own."""
    events = streamed(server, prompt)

    assert events[-1]["type"] == f"response.{last}"
    assert events[-1]["response"][member] == value


@pytest.mark.parametrize(
    ("prompt", "after", "kind"),
    [("LIMIT", None, "scripted"), ("LIMIT 60", "60", "usage_limit_reached")],
)
def test_a_limit_tells_its_reset_where_it_has_one(
    server: ModelServer, prompt: str, after: str | None, kind: str
) -> None:
    """429 comes with and without the time from which it holds no more."""
    headers, text = post(server, prompt)
    error = json.loads(text)["error"]

    assert headers["retry-after"] == after
    assert server.requests[0]["status"] == 429
    assert error["type"] == kind
    assert error.get("resets_in_seconds") == (60 if after else None)


def test_a_web_socket_is_not_offered(server: ModelServer) -> None:
    """426 tells a client that tries one to ask in the plain way, at once."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", "/v1/responses", headers={"upgrade": "websocket"})
        assert connection.getresponse().status == 426
    finally:
        connection.close()
