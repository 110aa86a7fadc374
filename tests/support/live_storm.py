"""A storm of daemon deaths over kept runs that are prompted, interrupted and closed meanwhile."""

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field

import coachman
import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess
from recovery_storm import check_replay, processes_of

ENDS_WITHIN_S = 90
WORK = ("say {n}", "say {n}\nsleep 0.3", "chunks 40\nsay {n}", "run sleep 0.2\nsay {n}")
LONG = "say {n}\nsleep 300"


@define
class KeptRun:
    """One run, and what its clients were promised of it."""

    run: str
    promised: dict[int, str] = field(factory=dict)
    dropped: set[int] = field(factory=set)
    unsure: set[str] = field(factory=set)
    closed: bool = False


@define
class LiveStorm:
    """One daemon's state directory and its kept runs."""

    daemon: DaemonProcess
    repo: Path
    chance: random.Random
    runs: list[KeptRun] = field(factory=list)
    asked: int = 0
    kills: int = 0

    def start(self) -> None:
        text = self._text()
        run = live.keep(self.daemon, self.repo, text, task=f"t{len(self.runs)}")
        self.runs.append(KeptRun(run, {1: text}))

    def _text(self) -> str:
        self.asked += 1
        return self.chance.choice((*WORK, LONG)).format(n=f"prompt {self.asked}")

    def steer(self, kept: KeptRun) -> None:
        """Ask something of a run; what is answered is a promise."""
        with self.daemon.client() as client, contextlib.suppress(coachman.CoachmanError):
            if self.chance.random() < 0.6:
                self._prompt(client, kept)
            else:
                self._interrupt(client, kept)

    def _prompt(self, client: coachman.Client, kept: KeptRun) -> None:
        text = self._text()
        kept.unsure.add(text)
        kept.promised[client.run.prompt(kept.run, text)["prompt"]] = text
        kept.unsure.discard(text)

    def _interrupt(self, client: coachman.Client, kept: KeptRun) -> None:
        text = self._text() if self.chance.random() < 0.5 else None
        keep_queue = self.chance.random() < 0.5
        if text is not None:
            kept.unsure.add(text)
        told = client.run.interrupt(kept.run, text, keep_queue=keep_queue)
        if text is not None and told["prompt"] is not None:
            kept.promised[told["prompt"]] = text
            kept.unsure.discard(text)
        kept.dropped |= {prompt["prompt"] for prompt in told["dropped"]}

    def kill_amid(self, deed: Callable[[], None]) -> None:
        """SIGKILL the daemon, half of the time right behind what was just asked of it."""
        deed()
        time.sleep(self.chance.choice((0, 0, 0.02, 0.2, self.chance.uniform(0, 0.8))))
        self.daemon.kill()
        self.kills += 1
        time.sleep(self.chance.uniform(0, 0.2))
        self.daemon.start()

    def settle(self) -> None:
        """Interrupt whatever takes too long, close, and wait for every end."""
        ends = time.monotonic() + ENDS_WITHIN_S
        names = [kept.run for kept in self.runs]
        with self.daemon.client() as client:
            client.run.close(names)
            while client.run.wait(names, timeout_s=0.5)["met"] != "ended":
                assert time.monotonic() < ends, client.run.list(state=["active", "parked"])
                for name in names:
                    with contextlib.suppress(coachman.CoachmanError):
                        client.run.interrupt(name, keep_queue=True)

    def check(self, eventually: Callable[..., object]) -> None:
        """Every promise was kept, of each run."""
        for kept in self.runs:
            self._check(kept)
        assert eventually(lambda: self.daemon.keepers() == [])
        assert eventually(
            lambda: processes_of(self.daemon.state, {kept.run for kept in self.runs}) == []
        )
        assert not list((self.daemon.state / "live").iterdir())

    def _check(self, kept: KeptRun) -> None:
        events = self.daemon.events(kept.run)
        result = at.result(self.daemon, kept.run)
        live.check(self.daemon, kept.run)
        check_replay(self.daemon, kept.run, events)
        told = [e["prompt"] for e in events if e["type"] == "agent.input" and "prompt_turn" in e]
        why = {e["prompt"]: e["why"] for e in events if e["type"] == "prompt.dropped"}

        assert result["outcome"] in ("succeeded", "cancelled"), result["error"]
        assert set(kept.promised) <= {*told, *why}
        assert kept.dropped <= set(why)
        assert set(why.values()) <= {"interrupt"}
        for number, text in kept.promised.items():
            path = at.directory(self.daemon, kept.run) / "prompts" / f"{number}.md"
            assert path.read_text() == text
        self._check_words(kept, events, told)

    def _check_words(self, kept: KeptRun, events: list[dict[str, Any]], told: list[int]) -> None:
        """The agent said each prompt's word once at most, and where its turn went well, once."""
        said = [e["text"] for e in events if e["type"] == "agent.message_chunk"]
        words = [text for text in said if text.startswith("prompt ")]
        began = {e["turn"]: e["prompt"] for e in events if e["type"] == "turn.started"}
        well = [
            began[e["turn"]]
            for e in events
            if e["type"] == "turn.ended" and e["stop_reason"] == "end_turn"
        ]
        sure = [word_of(kept.promised[number]) for number in well if number in kept.promised]

        assert len(set(words)) == len(words)
        assert set(sure) <= set(words)
        assert len(told) >= len(words)


def word_of(text: str) -> str:
    """What a prompt lets the agent say about itself."""
    [line] = [line for line in text.splitlines() if line.startswith("say ")]
    return line.removeprefix("say ")
