"""The scripted model server: obeys the prompt, and reports what can be checked."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents_model import ModelServer

SERVER = Path(__file__).parent / "model_server.py"
WRITE_TOOL = {
    "type": "function",
    "function": {
        "name": "put_file",
        "parameters": {
            "type": "object",
            "properties": {
                "filePath": {"type": "string"},
                "content": {"type": "string"},
                "overwrite": {"type": "boolean"},
            },
            "required": ["filePath", "content", "overwrite"],
        },
    },
}
SHELL_TOOL = {
    "type": "function",
    "function": {
        "name": "shell",
        "parameters": {
            "type": "object",
            "properties": {"cmd": {"type": "array"}, "why": {"type": "string"}},
            "required": ["cmd", "why"],
        },
    },
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(server: ModelServer, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ask(server: ModelServer, *messages: Any, **members: Any) -> dict[str, Any]:
    turns = [m if isinstance(m, dict) else {"role": "user", "content": m} for m in messages]
    status, text = post(server, {"model": "m", "messages": turns, **members})
    assert status == 200
    return json.loads(text)


def test_it_says_what_the_prompt_tells(server: ModelServer) -> None:
    """SAY is the answer; usage counts messages, cache and output."""
    told = ask(server, "SAY hello world")

    assert told["choices"][0]["message"]["content"] == "hello world"
    assert told["choices"][0]["finish_reason"] == "stop"
    assert told["usage"]["prompt_tokens"] == 1010
    assert server.totals() == {"input": 910, "cached_input": 100, "output": 7}


@pytest.mark.parametrize(
    ("prompt", "name", "arguments"),
    [
        (
            "WRITE a.txt some text",
            "put_file",
            {"filePath": "a.txt", "content": "some text\n", "overwrite": False},
        ),
        ("RUN ls -l", "shell", {"cmd": ["sh", "-c", "ls -l"], "why": "scripted"}),
    ],
)
def test_tools_are_picked_by_their_schema(
    server: ModelServer, prompt: str, name: str, arguments: dict[str, Any]
) -> None:
    """Any client's write or shell tool is found, and gets all that it requires."""
    told = ask(server, prompt, tools=[WRITE_TOOL, SHELL_TOOL])

    [call] = told["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == name
    assert json.loads(call["function"]["arguments"]) == arguments
    assert told["usage"]["completion_tokens"] == 11


def test_each_request_of_a_turn_takes_the_next_line(server: ModelServer) -> None:
    """After a tool result comes the next directive, and past the last one "done"."""
    prompt = "WRITE a b\nSAY well"
    call = {"role": "assistant", "content": None, "tool_calls": []}
    result = {"role": "tool", "content": "ok", "tool_call_id": "x"}
    says = [ask(server, prompt, *[call, result] * steps, tools=[WRITE_TOOL]) for steps in (0, 1, 2)]

    contents = [told["choices"][0]["message"]["content"] for told in says]
    assert contents == [None, "well", "done"]


def test_a_stream_carries_the_same_in_pieces(server: ModelServer) -> None:
    """Streaming gives deltas, a finish reason, usage and the end mark, in that order."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "THINK deep"}]}
    status, text = post(server, body)

    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    frames = [json.loads(line) for line in lines[:-1]]
    deltas = [frame["choices"][0]["delta"] for frame in frames if frame["choices"]]
    assert (status, lines[-1]) == (200, "[DONE]")
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "deep"
    assert "".join(delta.get("content", "") for delta in deltas) == "thought about it"
    assert frames[-1]["usage"]["prompt_tokens"] == 1010


def test_slow_takes_its_time(server: ModelServer) -> None:
    """SLOW spreads its text over the seconds it was given."""
    began = time.monotonic()
    body = {"stream": True, "messages": [{"role": "user", "content": "SLOW 0.3 a b c"}]}

    assert '"content": "c"' in post(server, body)[1]
    assert time.monotonic() - began >= 0.2


def test_a_failure_has_the_status_it_was_told(server: ModelServer) -> None:
    """FAIL answers with a status, and counts no usage."""
    status, text = post(server, {"messages": [{"role": "user", "content": "FAIL 429"}]})

    assert (status, json.loads(text)["error"]["message"]) == (429, "scripted failure 429")
    assert server.totals() == {"input": 0, "cached_input": 0, "output": 0}


def test_titles_are_answered_and_not_counted(server: ModelServer) -> None:
    """A request for a session's title gets one, even when the prompt tells to fail."""
    system = {"role": "system", "content": "You output a title for the conversation."}

    told = ask(server, system, "FAIL 500")

    assert told["choices"][0]["message"]["content"] == "Scripted session"
    assert server.totals()["input"] == 0
    assert server.requests[0]["title"] is True


def test_the_log_is_served(server: ModelServer) -> None:
    """Another process can read what was asked and reported."""
    ask(server, "SAY x", tools=[WRITE_TOOL])
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/requests")
    told = json.loads(connection.getresponse().read())
    connection.close()

    assert told["requests"] == server.requests
    assert told["requests"][0]["tools"] == ["put_file"]


def test_it_runs_as_a_program() -> None:
    """Started alone it prints its port, and ends with its stdin."""
    with subprocess.Popen(
        [sys.executable, str(SERVER), "--config"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        config = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(10) == 0
    base_url = config["provider"]["fake"]["options"]["baseURL"]
    assert base_url == f"http://127.0.0.1:{port}/v1"
