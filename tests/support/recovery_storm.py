"""A storm of daemon deaths over live runs, and everything that must be true behind it."""

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field

import coachman
import recovery_state as at
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import Ending
from coachmand import keeper
from coachmand.evidence import rawlogs
from coachmand.evidence.rundir import RunDirectory
from coachmand.keeper.spawn import attempt_mark
from coachmand.runs.attempts.dialogue import Dialogue, Input, Output
from coachmand.runs.facts.record import Record
from coachmand.runs.keepers.segments import SegmentReader
from coachmand.runs.preparing.policy import agent_request
from daemon_process import STOP_LIMIT_S, DaemonProcess

ENDS_WITHIN_S = 90
ENDED_BY_OTHERS = ("cancelled", "interrupt_unconfirmed", "wall")
TIMING = ("deadline", "deadline_boottime_s", "deadline_boot", "late")


@define
class Scenario:
    """A run to start, and how it must end whatever happens to its daemon."""

    name: str
    prompt: str
    final: str | None
    options: dict[str, Any] = field(factory=dict)
    outcomes: tuple[str, ...] = ("succeeded",)


CHUNKS = "".join(f"chunk {n} of 300\n" for n in range(1, 301))
SLOW_LINES = "cat; for n in 1 2 3 4 5; do echo line $n; sleep 0.1; done"
SCENARIOS = (
    Scenario("quick", "say done", "done"),
    Scenario("stream", "think é𝄞\nchunks 300\nsleep 0.2\nusage 3 4\nsay end\nchunks 300", CHUNKS),
    Scenario("tool", "run sleep 0.3; echo hi\nwrite a.txt b\nsay end", "end"),
    Scenario(
        "questions",
        "ask one\nwrite b.txt c\nchunks 40\nask two\nsay end",
        "end",
        {"permissions": "ask"},
    ),
    Scenario(
        "command",
        "the prompt\n",
        "the prompt\n" + "".join(f"line {n}\n" for n in range(1, 6)),
        {"agent": "command", "argv": ["sh", "-c", SLOW_LINES]},
    ),
)
CANCELLED = Scenario("cancelled", "say hi\nsleep 300", "hi", outcomes=("cancelled",))


@define
class Storm:
    """One daemon's state directory, its runs, and what its clients were promised."""

    daemon: DaemonProcess
    repo: Path
    chance: random.Random
    runs: dict[str, Scenario] = field(factory=dict)
    answers: dict[tuple[str, str], str] = field(factory=dict)
    cancelled: set[str] = field(factory=set)
    pids: set[int] = field(factory=set)
    kills: int = 0

    def start(self, scenario: Scenario) -> str:
        run = at.start(self.daemon, self.repo, scenario.prompt, **scenario.options)
        self.runs[run] = scenario
        return run

    def linger(self, most_s: float) -> None:
        """Let a random time pass; this is what the storm is about."""
        time.sleep(self.chance.uniform(0, most_s))

    def kill(self) -> None:
        """SIGKILL the daemon; now and then its successor too, while it is starting."""
        self._note_pids()
        self.daemon.kill()
        self.kills += 1
        self.linger(0.2)
        while self.chance.random() < 0.25:
            self._start_and_kill(self.chance.uniform(0.1, 0.8))
        self.daemon.start()

    def _start_and_kill(self, after_s: float) -> None:
        starting = threading.Thread(target=self._start_quietly)
        starting.start()
        time.sleep(after_s)
        if self.daemon.process is not None:
            self.daemon.process.kill()
        starting.join()
        assert self.daemon.process is not None
        self.daemon.process.kill()
        self.daemon.process.wait(STOP_LIMIT_S)
        self.kills += 1

    def _start_quietly(self) -> None:
        with contextlib.suppress(AssertionError):
            self.daemon.start()

    def meddle(self, client: coachman.Client) -> None:
        """Answer or cancel something: what was acknowledged must hold."""
        for asked in client.permission.list(pending=True)["permissions"]:
            kind = self._choice(asked["run"])
            with contextlib.suppress(coachman.CoachmanError):
                client.permission.answer(asked["request"], run=asked["run"], kind=kind)
                self.answers[asked["run"], asked["request"]] = kind
        for run, scenario in self.runs.items():
            if scenario is CANCELLED and run not in self.cancelled:
                client.run.cancel([run])
                self.cancelled.add(run)

    def _choice(self, run: str) -> str:
        demo = self.runs[run].options.get("agent", "demo") == "demo"
        return "deny" if demo and self.chance.random() < 0.3 else "allow"

    def settle(self) -> None:
        """Meddle until every run has ended."""
        ends = time.monotonic() + ENDS_WITHIN_S
        with self.daemon.client() as client:
            while True:
                self.meddle(client)
                waited = client.run.wait(list(self.runs), timeout_s=0.3)
                if waited["met"] == "ended":
                    return
                assert time.monotonic() < ends, [
                    (self.runs[r["run"]].name, r["state"]) for r in waited["runs"]
                ]

    def _note_pids(self) -> None:
        for path in self.daemon.state.glob("runs/*/attempts/*/keeper.json"):
            with contextlib.suppress(ValueError):
                state = json.loads(path.read_bytes())
                sandbox = state.get("sandbox") or {}
                found = (state.get("pid"), sandbox.get("pid"), sandbox.get("init_pid"))
                self.pids |= {pid for pid in found if pid}

    def check(self, eventually: Callable[..., object]) -> None:
        """Everything that must hold of every run, whatever befell its daemon."""
        self._note_pids()
        for run, scenario in self.runs.items():
            self._check_run(run, scenario)
        assert eventually(lambda: self.daemon.keepers() == [])
        assert eventually(lambda: processes_of(self.daemon.state, set(self.runs)) == [])
        assert not list((self.daemon.state / "live").iterdir())

    def _check_run(self, run: str, scenario: Scenario) -> None:
        result = at.result(self.daemon, run)
        events = self.daemon.events(run)
        told = f"{scenario.name} {run}: {result['outcome']} {result['error']}"
        assert result["outcome"] in scenario.outcomes, told
        if scenario.final is not None and scenario is not CANCELLED:
            assert result["final_message"] == scenario.final, told
        at.check_journal(events)
        for (of, request), kind in self.answers.items():
            if of == run:
                check_answer(events, request, kind)
        check_replay(self.daemon, run, events)


def check_answer(events: list[at.Event], request: str, kind: str) -> None:
    """An answer that was acknowledged is the one that counts, and the only one."""
    told = [
        event
        for event in events
        if event["type"] == "agent.input" and event.get("request") == request
    ]
    assert [event["option_kind"].startswith(kind.replace("deny", "reject")) for event in told] == [
        True
    ]


def check_replay(daemon: DaemonProcess, run: str, events: list[at.Event]) -> None:
    """Told again from its logs, the dialogue says every line and every byte, each once."""
    directory = RunDirectory(daemon.state / "runs" / run)
    record = Record.of_json(directory.read_request())
    adapter = ADAPTERS[record.adapter]
    for number in sorted({event["attempt"] for event in events if "attempt" in event}):
        own = [event for event in events if event.get("attempt") == number]
        began = next((e for e in own if e["type"] == "attempt.started"), {})
        conversation = adapter.converse(agent_request(record, adapter, began.get("subfolder", "")))
        dialogue = Dialogue(conversation, asked=began.get("asked", 0))
        outputs = _told_again(directory, number, dialogue, own)
        lines = [
            {"type": entry.type, "n": entry.n, **entry.members}
            for output in outputs
            for entry in output.entries
        ]
        kept = [event for event in own if "n" in event]
        assert [_bare(event) for event in kept] == [_bare(line) for line in lines]
        log = directory.attempt(number) / "stdin.log"
        taken, stdin = log.read_bytes() if log.exists() else b"", _said(outputs)
        if any(event.get("reason") in ENDED_BY_OTHERS for event in events):
            # Whatever it said behind the end of stdin, which came at any moment, was dropped.
            stdin = stdin[: len(taken)] if taken.endswith(b"\n") else stdin
        assert taken == stdin, f"taken: {taken[-300:]!r}, told again: {stdin[-300:]!r}"
        check_frames(stdin)


def _told_again(
    directory: RunDirectory, number: int, dialogue: Dialogue, own: list[at.Event]
) -> list[Output]:
    outputs = []
    stderr = rawlogs.tail(directory.segments(number, "stderr"), 4096)
    with SegmentReader(directory.attempt(number), "stdout") as reader:
        for event in own:
            if event["type"] != "agent.input":
                continue
            given = Input.of_event(event)
            while dialogue.fed < given.at:
                data = reader.read(dialogue.fed, given.at - dialogue.fed)
                assert data, "stdout is shorter than what was fed"
                outputs.append(dialogue.feed(data))
            ending = Ending(
                given.payload.get("exit_code"),
                given.payload.get("signal"),
                stderr,
                _epilogue(directory, number) if given.payload.get("epilogue") else None,
            )
            text = directory.read_prompt(given.prompt) if given.prompt else ""
            outputs.append(dialogue.apply(given, text, ending))
    return outputs


def _said(outputs: list[Output]) -> bytes:
    """All that was written before stdin was closed."""
    said = b""
    for output in outputs:
        said += bytes(output.write)
        if output.close_stdin:
            break
    return said


def _epilogue(directory: RunDirectory, number: int) -> bytes:
    with SegmentReader(directory.epilogue(number), "stdout") as reader:
        return reader.read(0, 1 << 28)


def _bare(event: at.Event) -> at.Event:
    envelope = ("seq", "g", "ts", "run", "attempt", "turn", "session", *TIMING)
    return {name: value for name, value in event.items() if name not in envelope}


def check_frames(stdin: bytes) -> None:
    """No request was told twice, no question answered twice."""
    if not stdin.startswith(b"{"):
        return
    frames = [json.loads(line) for line in stdin.splitlines()]
    asked = [frame["id"] for frame in frames if "method" in frame and "id" in frame]
    answered = [frame["id"] for frame in frames if "method" not in frame]
    assert asked == list(range(1, len(asked) + 1))
    assert len(answered) == len(set(answered))


def processes_of(state: Path, runs: set[str]) -> list[int]:
    """Every process whose environment names one of the runs, or an attempt of theirs.

    The latter alone names a sandbox whose keeper died before it could record it.
    """
    marks = [f"COACHMAN_RUN={run}".encode() for run in runs]
    for run in runs:
        locks = state.glob(f"runs/{run}/attempts/**/{keeper.LOCK_NAME}")
        marks += [
            f"{keeper.ATTEMPT_VARIABLE}={attempt_mark(lock.parent)}".encode() for lock in locks
        ]
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                environ = (path / "environ").read_bytes()
                if any(mark in environ for mark in marks):
                    found.append(int(path.name))
    return at.living(found)
