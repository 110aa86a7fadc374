"""Kept runs of the demo agent, for tests of the verbs that steer them."""

from pathlib import Path
from typing import Any

import coachman
import recovery_state as at
from daemon_process import DaemonProcess

Event = dict[str, Any]
WAIT_S = 120


def keep(daemon: DaemonProcess, repo: Path, prompt: str = "say one", **options: Any) -> str:
    """Start a kept demo run; its id."""
    return at.start(daemon, repo, prompt, keep=True, **options)


def until_parked(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    """Wait until the run has done all that it was asked; its row."""
    with daemon.client() as client:
        while True:
            waited = client.run.wait([run], until="turn", timeout_s=WAIT_S)
            assert waited["met"] == "turn", waited
            if waited["runs"][0]["state"] == "parked":
                return dict(waited["runs"][0])


def until_turn(daemon: DaemonProcess, run: str, turn: int, type_: str = "turn.started") -> Event:
    """The line that says that a turn began (or another of its lines)."""
    return at.until_event(daemon, run, lambda e: e["type"] == type_ and e.get("turn") == turn)


def until_said(daemon: DaemonProcess, run: str, text: str) -> Event:
    """The line in which the agent said ``text``."""
    return at.until_event(daemon, run, lambda event: event.get("text") == text)


def close(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    """Close the run and wait for its result."""
    with daemon.client() as client:
        client.run.close([run])
    return at.result(daemon, run)


def refused(call: Any, *arguments: Any, **options: Any) -> coachman.CoachmanError:
    """The error that a call ends with."""
    try:
        call(*arguments, **options)
    except coachman.CoachmanError as error:
        return error
    raise AssertionError("it was not refused")


def of_type(daemon: DaemonProcess, run: str, *types: str) -> list[Event]:
    """The run's lines of these types."""
    return [event for event in daemon.events(run) if event["type"] in types]


def turns(daemon: DaemonProcess, run: str) -> list[tuple[int, int, str]]:
    """Turn, prompt and stop reason of each turn that is over, in order."""
    began = {e["turn"]: e["prompt"] for e in of_type(daemon, run, "turn.started")}
    ended = of_type(daemon, run, "turn.ended")
    return [(e["turn"], began[e["turn"]], e["stop_reason"]) for e in ended]


def check(daemon: DaemonProcess, run: str) -> None:
    """No line is missing or doubled; each prompt was told once at most, each turn ends once."""
    events = daemon.events(run)
    at.check_journal(events)
    inputs = [e for e in events if e["type"] == "agent.input"]
    told = [e["prompt"] for e in inputs if e["kind"] == "prompt"]
    dropped = [e["prompt"] for e in events if e["type"] == "prompt.dropped"]
    queued = [e["prompt"] for e in events if e["type"] == "prompt.queued"]
    cancelled = [e["of_turn"] for e in inputs if e["kind"] == "cancel"]
    started = [e["turn"] for e in events if e["type"] == "turn.started"]
    ended = [e["turn"] for e in events if e["type"] == "turn.ended"]

    assert sorted([*told, *dropped]) == sorted([1, *queued])
    assert len(set(cancelled)) == len(cancelled)
    assert started == list(range(1, len(started) + 1))
    assert ended == started[: len(ended)]
    logs = at.directory(daemon, run).glob("attempts/*/stdin.log")
    stdin = b"".join(log.read_bytes() for log in logs)
    # A turn that was interrupted before the session was there was never told to the agent.
    assert len(told) - len(cancelled) <= stdin.count(b'"session/prompt"') <= len(told)
