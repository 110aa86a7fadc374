"""The daemon's log: one bounded line an event, in the form that its reader needs."""

import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from coachmand.logs import MAX_TRACEBACK_CHARS, MAX_VALUE_CHARS, configure


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    configure("info", descriptor)
    yield path
    os.close(descriptor)


def entries(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_machines_get_json_lines(log_file: Path) -> None:
    """Where the log is no terminal each event is one JSON object with time and level."""
    log = structlog.get_logger()
    log.info("run_started", run="r1", path=Path("/x"))
    log.debug("too_fine")
    [entry] = entries(log_file)

    assert entry.pop("timestamp").endswith("Z")
    assert entry == {"event": "run_started", "level": "info", "run": "r1", "path": repr(Path("/x"))}


def test_exceptions_are_told_in_one_line(log_file: Path) -> None:
    """An exception's traceback is a member of the event's one line, wherever it was raised."""
    log = structlog.get_logger()
    try:
        raise LookupError("nowhere")
    except LookupError as error:
        log.error("inside", exc_info=True)
        kept = error
    log.error("outside", exc_info=kept)

    for entry in entries(log_file):
        assert "LookupError: nowhere" in str(entry["exception"])


def test_lines_are_bounded(log_file: Path) -> None:
    """Long values and tracebacks are cut; a traceback keeps its end, which names the cause."""

    def fail(depth: int) -> None:
        if depth == 0:
            raise LookupError("x" * 5000)
        fail(depth - 1) if depth % 2 else other(depth - 1)

    def other(depth: int) -> None:
        fail(depth)

    log = structlog.get_logger()
    try:
        fail(400)
    except LookupError:
        log.error("deep", text="y" * 10**6, items=["z"] * 10**6, exc_info=True)
    [entry] = entries(log_file)

    assert len(str(entry["text"])) == len(str(entry["items"])) == MAX_VALUE_CHARS + 1
    assert len(str(entry["exception"])) <= MAX_TRACEBACK_CHARS + 10
    assert "xxxx" in str(entry["exception"])[-100:]


def test_what_json_cannot_hold_is_spelt_out(log_file: Path) -> None:
    """Names that are no UTF-8 and keys that are no strings still give a line."""
    structlog.get_logger().warning("odd", name="caf\udce9", table={(1, 2): 3})

    assert entries(log_file)[0]["level"] in {"warning", "'warning'"}


def test_a_terminal_gets_colours() -> None:
    """On a terminal an event is one coloured line of names and values."""
    reading, terminal = pty.openpty()
    configure("info", terminal)
    structlog.get_logger().info("run_started", run="r1")
    shown = os.read(reading, 4096).decode()
    os.close(reading)
    os.close(terminal)

    assert "run_started" in shown
    assert "\x1b[" in shown
    assert "r1" in shown


def test_a_log_that_cannot_be_written_fails_nothing() -> None:
    """A closed descriptor makes the log silent, never an error."""
    reading, writing = os.pipe()
    os.close(reading)
    configure("info", writing)

    structlog.get_logger().info("into_the_void")
    os.close(writing)
