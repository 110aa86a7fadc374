"""The scripted model as Google's Gemini API."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents_model import ModelServer

BASE = "/v1beta/models/gemini-2.5-flash"
SCHEMA = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}
TOOLS = [
    {
        "functionDeclarations": [
            {"name": "write_file", "parametersJsonSchema": SCHEMA},
            {"name": "shell", "parameters": {"properties": {"command": {"type": "STRING"}}}},
        ]
    }
]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(server: ModelServer, method: str, *contents: Any, tools: Any = TOOLS) -> tuple[int, str]:
    """A request whose contents are user texts or whole contents."""
    turns = [c if isinstance(c, dict) else said("user", text=c) for c in contents]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        body = json.dumps({"contents": turns, "tools": tools})
        connection.request("POST", f"{BASE}:{method}", body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def said(role: str, **part: Any) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def frames(text: str) -> list[dict[str, Any]]:
    """The frames of a stream, which Google ends with CR LF."""
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\r\n\r\n") if event]


def parts(frame: dict[str, Any]) -> list[dict[str, Any]]:
    return frame["candidates"][0]["content"]["parts"]


def test_it_says_what_the_prompt_tells(server: ModelServer) -> None:
    """SAY is the answer; usage counts contents, cache and output; the path names the model."""
    status, text = post(server, "generateContent", "<session_context>…", "SAY hello world")

    told = json.loads(text)
    assert status == 200
    assert "".join(part["text"] for part in parts(told)) == "hello world"
    assert told["candidates"][0]["finishReason"] == "STOP"
    assert told["usageMetadata"]["promptTokenCount"] == 1020
    assert told["usageMetadata"]["cachedContentTokenCount"] == 100
    assert server.totals() == {"input": 920, "cached_input": 100, "output": 7}
    assert server.requests[0]["model"] == "gemini-2.5-flash"
    assert server.requests[0]["tools"] == ["write_file", "shell"]


@pytest.mark.parametrize(
    ("prompt", "name", "arguments"),
    [
        ("WRITE a.txt some text", "write_file", {"file_path": "a.txt", "content": "some text\n"}),
        ("RUN ls -l", "shell", {"command": "ls -l"}),
    ],
)
def test_a_tool_is_called(
    server: ModelServer, prompt: str, name: str, arguments: dict[str, str]
) -> None:
    """Tools are found by either form of schema; the call is a part."""
    _, text = post(server, "generateContent", prompt)

    assert parts(json.loads(text)) == [{"functionCall": {"name": name, "args": arguments}}]


def test_a_function_response_is_no_prompt(server: ModelServer) -> None:
    """After the call and its response, both of the user's role, the next directive comes."""
    call = said("model", functionCall={"name": "write_file", "args": {}})
    result = said("user", functionResponse={"name": "write_file", "response": {}})
    _, text = post(server, "generateContent", "WRITE a b\nSAY well", call, result)

    assert "".join(part["text"] for part in parts(json.loads(text))) == "well"


def test_a_stream_carries_the_same_in_pieces(server: ModelServer) -> None:
    """A thought, the text word by word, then a frame with the reason and the usage."""
    status, text = post(server, "streamGenerateContent?alt=sse", "THINK deep")

    streamed = frames(text)
    said_parts = [part for frame in streamed for part in parts(frame)]
    assert status == 200
    assert said_parts[0] == {"text": "**Thinking** deep", "thought": True}
    assert "".join(part["text"] for part in said_parts[1:]) == "thought about it"
    assert ["usageMetadata" in frame for frame in streamed] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("prompt", "code", "status", "details"),
    [
        ("FAIL 400", 400, "INVALID_ARGUMENT", None),
        ("FAIL 500", 500, "INTERNAL", None),
        ("LIMIT", 429, "RESOURCE_EXHAUSTED", None),
        ("LIMIT 7", 429, "RESOURCE_EXHAUSTED", "7s"),
    ],
)
def test_failures_have_googles_form(
    server: ModelServer, prompt: str, code: int, status: str, details: str | None
) -> None:
    """Code, status and, where a limit's end is known, how long to wait."""
    answered, text = post(server, "streamGenerateContent?alt=sse", prompt)

    error = json.loads(text)["error"]
    delays = [detail["retryDelay"] for detail in error.get("details", [])]
    assert (answered, error["code"], error["status"]) == (code, code, status)
    assert delays == ([details] if details else [])


def test_counting_is_no_request_to_the_model(server: ModelServer) -> None:
    """countTokens answers a number and is in no log."""
    status, text = post(server, "countTokens", "SAY x")

    assert (status, json.loads(text)) == (200, {"totalTokens": 1000})
    assert server.requests == []
