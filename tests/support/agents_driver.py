"""Drives a real agent process with a conversation, and records what went in.

The smallest honest host: one thread, select, no deadline but a total one.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import agents_replay
from agents_replay import Step
from coachman_adapters.conversation import (
    Action,
    Ask,
    CloseStdin,
    Conversation,
    Event,
    SetTimer,
    TurnEnded,
    Usage,
    Write,
)

READ_BYTES = 65536
TOTAL_LIMIT_S = 180.0
STDERR_TAIL_BYTES = 4096

Decide = Callable[[Ask], Step]
Trigger = Callable[[Action], bool]


def choose(kind: str, message: str | None = None) -> Decide:
    """Answer every question with the option of ``kind``, and maybe with words."""

    def decide(ask: Ask) -> Step:
        option = next(option.id for option in ask.options if option.kind == kind)
        return {"option": option, **({"message": message} if message else {})}

    return decide


def choose_option(option: str, message: str | None = None) -> Decide:
    """Answer every question with one option, by its id, and maybe with words."""
    return lambda _ask: {"option": option, **({"message": message} if message else {})}


def never(action: Action) -> bool:
    """No action cancels the turn."""
    return False


class Drive:
    """One agent process from start to end. ``steps`` and ``actions`` are what happened.

    ``heard_s``: how long after its start it first said something.
    """

    def __init__(
        self,
        conversation: Conversation,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        decide: Decide | None = None,
        cancel_when: Trigger = never,
    ) -> None:
        self.conversation = conversation
        self.steps: list[Step] = []
        self.actions: list[Action] = []
        self.decide = decide
        self.cancel_when = cancel_when
        self.heard_s: float | None = None
        self._begun = time.monotonic()
        self._timers: dict[str, float] = {}
        self._todo: list[Step] = []
        self._stderr = (cwd.parent / f"{cwd.name}.stderr").open("w+b")
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )

    def run(self, prompts: Sequence[str], epilogue: Callable[[], str | None] | None = None) -> None:
        """Start, prompt once per turn that ended, and see the agent out."""
        waiting = list(prompts)
        try:
            self._apply({"start": True})
            self._apply({"prompt": waiting.pop(0)})
            while self._pump():
                turns = len(agents_replay.ended(self.actions))
                if waiting and turns == len(prompts) - len(waiting):
                    self._apply({"prompt": waiting.pop(0), "turn": turns + 1})
                elif not waiting and turns == len(prompts):
                    self._close()
            self._finish(epilogue() if epilogue else None)
        finally:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._stderr):
                stream.close()

    @property
    def session_counters(self) -> Mapping[str, float] | None:
        """What whoever resumes the session must be told of its counters."""
        known = [action for action in self.actions if isinstance(action, Usage)]
        return known[-1].session_counters if known else None

    def _pump(self) -> bool:
        """One wait; False when stdout has ended."""
        now = time.monotonic()
        for name in [name for name, due in self._timers.items() if due <= now]:
            del self._timers[name]
            self._apply({"timer": name})
        due = min(self._timers.values(), default=now + TOTAL_LIMIT_S)
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, due - now))
        if not ready:
            if not self._timers:
                raise TimeoutError(f"the agent said nothing for {TOTAL_LIMIT_S} s")
            return True
        data = os.read(self._process.stdout.fileno(), READ_BYTES)
        if self.heard_s is None:
            self.heard_s = time.monotonic() - self._begun
        if data:
            self._apply({"stdout": self._decode(data)})
        return bool(data)

    def _decode(self, data: bytes) -> str:
        # A transcript is text; a character must not be cut by a read.
        while True:
            try:
                return data.decode()
            except UnicodeDecodeError:
                data += os.read(self._process.stdout.fileno(), 1)

    def _apply(self, step: Step) -> None:
        self._todo.append(step)
        while self._todo:
            step = self._todo.pop(0)
            self.steps.append(step)
            for action in agents_replay.feed(self.conversation, step):
                self.actions.append(action)
                self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Write):
            self._process.stdin.write(action.data)
            self._process.stdin.flush()
        elif isinstance(action, CloseStdin):
            self._close()
        elif isinstance(action, SetTimer):
            self._timers.pop(action.name, None)
            if action.seconds is not None:
                self._timers[action.name] = time.monotonic() + action.seconds
        elif isinstance(action, Ask) and self.decide is not None:
            self._todo.append({"answer": action.request, **self.decide(action)})
        if self.cancel_when(action):
            self.cancel_when = never
            self._todo.append({"cancel": True})

    def _close(self) -> None:
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def _finish(self, epilogue: str | None) -> None:
        code = self._process.wait(TOTAL_LIMIT_S)
        self._stderr.seek(0)
        told: dict[str, Any] = {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "stderr": self._stderr.read()[-STDERR_TAIL_BYTES:].decode("utf-8", "replace"),
            "epilogue": epilogue,
        }
        self._apply({"finish": told})


def is_event(kind: str, **members: object) -> Trigger:
    """True for an event of ``kind`` with these members."""

    def matches(action: Action) -> bool:
        return (
            isinstance(action, Event)
            and action.type == kind
            and all(action.members.get(name) == value for name, value in members.items())
        )

    return matches


def is_ask(action: Action) -> bool:
    """True for a question."""
    return isinstance(action, Ask)


__all__ = ["Drive", "TurnEnded", "choose", "is_ask", "is_event", "never"]
