"""Gemini CLI: its usage in the recorded chat, its launch, and settings under the user's own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents_replay import load
from coachman_adapters import seeds
from coachman_adapters.acp.quirks import Conversed
from coachman_adapters.conversation import AgentRequest, Seed
from coachman_adapters.gemini import GEMINI, read_chat

PART = Conversed(1, None, None, resumed=False)
SESSION = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
OTHER = "9c858901-8a57-4791-81fe-4c455b099bc9"


def epilogue(name: str) -> bytes:
    steps = load("gemini", name)["steps"]
    return next(step["finish"]["epilogue"] for step in steps if "finish" in step).encode()


def message(name: str, **tokens: int) -> bytes:
    return json.dumps({"id": name, "tokens": tokens, "model": "m"}).encode() + b"\n"


def test_thoughts_tools_and_the_cache_are_counted_apart() -> None:
    """Input is without what was cached; what a tool put in is input."""
    usage = read_chat(message("a", input=100, cached=40, tool=5, thoughts=7, output=3), PART)

    assert usage is not None
    assert usage.counters == {
        "input": 65,
        "cached_input": 40,
        "output": 3,
        "reasoning": 7,
        "total": 115,
    }
    assert usage.model == "m"


def test_a_message_that_is_written_again_counts_once() -> None:
    """It is, when its tools have ended; the last one counts."""
    usage = read_chat(message("a", input=1) + message("a", input=2) + message("b", input=3), PART)

    assert usage is not None
    assert usage.counters["input"] == 5


@pytest.mark.parametrize("output", [b"", b"\n", b"nonsense\n", b'{"id": 1}\n', b"[" * 5000])
def test_a_chat_without_messages_tells_nothing(output: bytes) -> None:
    """Unknown is not zero."""
    assert read_chat(output, PART) is None


def plan_of(session: str | None, **members: object) -> tuple[str, ...]:
    request = AgentRequest("/workspace", "/home/agent", session=session, **members)  # type: ignore[arg-type]
    return GEMINI.plan(request).argv


def chats(home: Path, *names: str) -> Path:
    """A home with chats of these names, each with as many lines as its place among them."""
    directory = home / ".gemini" / "tmp" / "workspace" / "chats"
    directory.mkdir(parents=True, exist_ok=True)
    for count, name in enumerate(names, 1):
        (directory / name).write_text("old\n" * count)
    return directory


def launched(home: Path, session: str) -> list[str]:
    """The words that the program gets when ``session`` is resumed in ``home``."""
    program = home / "program"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    argv = [str(program) if w == "{executable}" else w for w in plan_of(session)]
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(
        argv, env=env, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def counted(home: Path, session: str) -> bytes:
    """What the epilogue prints."""
    plan = GEMINI.plan(AgentRequest("/workspace", "/home/agent"))
    argv = [session if word == "{session}" else word for word in plan.epilogue]
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE).stdout


def test_a_chat_that_is_resumed_has_a_name_of_no_minute(tmp_path: Path) -> None:
    """Loading makes a file of the minute: it must neither be the chat nor be loaded for it."""
    directory = chats(tmp_path, "session-2026-01-01T10-00-1b9d6bcd.jsonl")
    words = launched(tmp_path, SESSION)
    chats(tmp_path, "session-2026-01-01T10-00-1b9d6bcd.jsonl")
    launched(tmp_path, SESSION)

    assert words == ["--acp", "--approval-mode", "default"]
    assert sorted(path.name for path in directory.iterdir()) == [
        "session-0000-1b9d6bcd.jsonl",
        "session-2026-01-01T10-00-1b9d6bcd.jsonl.aside",
    ]


def test_a_session_without_a_chat_starts_the_program_all_the_same(tmp_path: Path) -> None:
    """It says itself that there is no such session; another's chat stays as it is."""
    directory = chats(tmp_path, "session-2026-01-01T10-00-9c858901.jsonl")

    assert launched(tmp_path, SESSION) == ["--acp", "--approval-mode", "default"]
    assert [path.name for path in directory.iterdir()] == [
        "session-2026-01-01T10-00-9c858901.jsonl"
    ]


def test_only_what_this_run_added_is_counted(tmp_path: Path) -> None:
    """The chat's lines from before its last load are left out, those of another session too."""
    directory = chats(tmp_path, "session-2026-01-01T10-00-1b9d6bcd.jsonl")
    chat = directory / "session-2026-01-01T10-00-1b9d6bcd.jsonl"
    chat.write_bytes(b'{"x":1}\n' + message("a", input=1).replace(b" ", b""))
    fresh = counted(tmp_path, SESSION)
    launched(tmp_path, SESSION)
    with (directory / "session-0000-1b9d6bcd.jsonl").open("ab") as file:
        file.write(message("b", input=2).replace(b" ", b""))
    (directory / "session-2026-01-02T10-00-1b9d6bcd.jsonl").write_text('{"empty":1}\n')

    assert b'"id":"a"' in fresh
    assert b'"id":"a"' not in counted(tmp_path, SESSION)
    assert b'"id":"b"' in counted(tmp_path, SESSION)
    assert counted(tmp_path, OTHER) == b""


@pytest.mark.parametrize(
    ("names", "login"),
    [
        ({"GEMINI_API_KEY"}, "gemini-api-key"),
        ({"GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"}, "vertex-ai"),
        (set(), None),
    ],
)
def test_its_settings_name_the_login_that_the_environment_has(
    names: set[str], login: str | None
) -> None:
    """Without that it opens sessions and loads none."""
    request = AgentRequest("/workspace", "/home/agent", env_names=frozenset(names))
    [seed] = GEMINI.plan(request).seeds
    settings = json.loads(seed.content)

    assert settings.get("security", {}).get("auth", {}).get("selectedType") == login
    assert settings["privacy"] == {"usageStatisticsEnabled": False}


DEFAULTS = Seed("a.json", b'{"a": {"x": 1, "y": 2}, "b": 3}', defaults=True)


@pytest.mark.parametrize(
    ("own", "content"),
    [
        (None, {"a": {"x": 1, "y": 2}, "b": 3}),
        (b"{}", {"a": {"x": 1, "y": 2}, "b": 3}),
        (b'{"a": {"x": 9}, "c": 4}', {"a": {"x": 9, "y": 2}, "b": 3, "c": 4}),
        (b'{"a": "text"}', {"a": "text", "b": 3}),
    ],
)
def test_defaults_lie_under_what_the_user_says(own: bytes | None, content: object) -> None:
    """Down to each member of a table."""
    assert json.loads(seeds.content_of(DEFAULTS, own)) == content


@pytest.mark.parametrize("own", [b'{"a": 1} // mine', b"[1]", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_plain_json_object_stays(own: bytes) -> None:
    """The user's file is the user's."""
    assert seeds.content_of(DEFAULTS, own) == own


def test_a_recording_has_only_what_counts() -> None:
    """The epilogue prints the messages that have tokens, of this run's two requests."""
    messages = [json.loads(line) for line in epilogue("resume").splitlines()]

    assert {message["type"] for message in messages} == {"gemini"}
    assert len({message["id"] for message in messages}) == 2
