"""A real agent on stage: its daemon, its scripted model, its user's repository.

A `Stage` serves all scenarios of one part. A `Play` is one run on it, looked at through its
journal and the socket, as a user would.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents_model import CACHED_TOKENS, ModelServer
from agents_parts import Part
from coachman import CoachmanError
from coachmand.runs.keepers.starting import keeper_alive
from daemon_process import DaemonProcess, git, make_repository
from looking import pauses
from sleepers import sleeping

WORKSPACE = "/workspace"
LIMIT_S = 180.0
SOON_S = 30.0
# Tools of the scenarios: one says a word, one goes on for so many seconds, one until it is told.
NOTE = "#!/bin/sh\necho it ran\n"
LINGER = "#!/bin/sh\nexec sleep $1\n"
AWAIT = "#!/bin/sh\n: >begun\nuntil [ -e go ]; do sleep 0.05; done\necho went on >went.txt\n"

Event = dict[str, Any]


def eventually(condition: Callable[[], Any], what: str, within_s: float = LIMIT_S) -> Any:
    """What ``condition`` returns once it is true; AssertionError names what never was."""
    ends, pause_s = time.monotonic() + within_s, pauses()
    while not (value := condition()):
        assert time.monotonic() < ends, f"{what}: not within {within_s:.0f} s"
        time.sleep(next(pause_s))
    return value


class Stage:
    """One part, installed for a user whose daemon runs."""

    def __init__(self, part: Part, agents: Path, root: Path, model: ModelServer) -> None:
        self.part = part
        self.model = model
        self.root = root
        self.version: str | None = None
        self.daemon = DaemonProcess(root, part.env(model))
        self.daemon.env["PATH"] = f"{agents / 'node_modules' / '.bin'}:{os.environ['PATH']}"
        for name, text in part.files(model).items():
            path = self.daemon.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        config = self.daemon.home / ".config/coachman/config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        with config.open("a") as file:
            file.write(f'\n[storage]\nsealed = "{root}/neutral"\n')
        self.repo = make_repository(root / "repo")
        (self.repo / "note.sh").write_text(NOTE)
        (self.repo / "linger.sh").write_text(LINGER)
        (self.repo / "await.sh").write_text(AWAIT)
        git(self.repo, "add", ".")
        git(self.repo, "commit", "-q", "-m", "tools")
        self._sessions: dict[str, Play] = {}
        self._resumed: tuple[Play, Play] | None = None

    def __repr__(self) -> str:
        return f"<Stage {self.part.name}>"

    def __enter__(self) -> "Stage":
        self.daemon.start()
        self.client = self.daemon.client()
        return self

    def __exit__(self, *_exc: object) -> None:
        """End what still runs, and the daemon."""
        self.client.close()
        self.daemon.tidy()

    def start(self, prompt: str, **members: Any) -> "Play":
        """Start a run in a task of its own."""
        asked = len(self.model.requests)
        prompt = self.part.prompt(prompt, "/workspace")
        started = self.client.run.start(
            prompt, dir=str(self.repo), agent=self.part.adapter, model=self.part.model, **members
        )
        return Play(self, started["run"], asked)

    def once(self, prompt: str, **members: Any) -> "Play":
        """A run of one prompt, with everything allowed.

        Of a part that is to be asked, it is one that is kept and then closed: the CLI has
        another way for runs that take one prompt and ask for nothing.
        """
        keep = self.part.permissions == "ask"
        play = self.start(prompt, keep=keep, permissions="allow", **members)
        if keep:
            play.close()
        return play

    def session(self, permissions: str = "ask") -> "Play":
        """The run that is kept for scenarios that leave it as it was, parked."""
        play = self._sessions.get(permissions)
        if play is None or not play.is_through():
            play = self.start("SAY ready", keep=True, permissions=permissions)
            play.turn(1)
            play.parked()
            self._sessions[permissions] = play
        return play

    def tools(self) -> "Play":
        """The kept run in which commands can be run."""
        return self.session("ask" if self.part.asked_commands else "allow")

    def resumed(self) -> tuple["Play", "Play"]:
        """A run of one turn, and one of two turns that took up its session; both have ended."""
        if self._resumed is None:
            first = self.once("SAY first")
            first.result()
            keeps = not self.part.bounded
            asked = len(self.model.requests)
            started = self.client.run.resume(first.run, "SAY second", keep=keeps)
            second = Play(self, started["run"], asked)
            if keeps:
                second.turn(1)
                second.prompt("SAY third")
                second.turn(2)
                second.close()
            second.result()
            self._resumed = first, second
        return self._resumed

    def lose_session(self, play: "Play") -> None:
        """Empty the agent's private home: what it kept of its sessions is gone."""
        task = self.client.run.get(play.run)["task"]
        for home in self.daemon.state.glob(f"agents/*/{task}/*"):
            for path in home.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class Play:
    """One run. ``asked``: how many requests the model had when it began."""

    def __init__(self, stage: Stage, run: str, asked: int) -> None:
        self.stage = stage
        self.run = run
        self.asked = asked
        self.tree = Path(stage.client.run.get(run)["worktree"])

    def __repr__(self) -> str:
        return f"<Play {self.run} of {self.stage.part.name}>"

    # --- what is asked of it ---

    def prompt(self, text: str) -> int:
        """Another prompt; the number of its turn."""
        text = self.stage.part.prompt(text, "/workspace")
        prompt = self.stage.part.prompt(text, WORKSPACE)
        return int(self.stage.client.run.prompt(self.run, prompt)["turn"])

    def interrupt(self) -> None:
        self.stage.client.run.interrupt(self.run)

    def cancel(self) -> None:
        self.stage.client.run.cancel([self.run])

    def close(self) -> None:
        self.stage.client.run.close([self.run])

    def answer(self, kind: Any, turn: int) -> Event:
        """Answer the first question of a turn, once it is asked; the question."""
        asked = eventually(lambda: self._questions(turn), f"{self} asks")[0]
        self.stage.client.permission.answer(asked["request"], run=self.run, kind=kind)
        return dict(asked)

    def question(self, turn: int) -> Event:
        """The first question of a turn, once it is asked."""
        return dict(eventually(lambda: self._questions(turn), f"{self} asks")[0])

    def refused(self, asked: Event, **answer: Any) -> CoachmanError:
        """What an answer is refused with; it must, and the question has to stay."""
        try:
            self.stage.client.permission.answer(asked["request"], run=self.run, **answer)
        except CoachmanError as error:
            assert [each["request"] for each in self._waiting()] == [asked["request"]]
            return error
        raise AssertionError(f"{answer} to {asked} was taken")

    def settle(self, asked: Event, **answer: Any) -> None:
        """Answer a question."""
        self.stage.client.permission.answer(asked["request"], run=self.run, **answer)

    def tool_runs(self, turn: int, seconds: str) -> None:
        """Return once ``linger.sh`` of this turn runs, whatever is asked before."""

        def runs() -> bool:
            self._allow(self._questions(turn))
            return bool(sleeping(seconds))

        eventually(runs, f"{self} runs its tool")

    def allow_all(self, turn: int) -> None:
        """Allow whatever is asked until a turn is over."""

        def ended() -> bool:
            over = bool(self._ended(turn))
            self._allow([] if over else self._waiting())
            return over

        eventually(ended, f"turn {turn} of {self} ends")

    def _allow(self, questions: list[Any]) -> None:
        for asked in questions:
            request = asked["request"]
            try:
                self.stage.client.permission.answer(request, run=self.run, kind="allow_once")
            except CoachmanError as error:
                # Where policy allows, it may have been seen before policy's own answer was.
                if error.name != "Conflict":
                    raise

    def _questions(self, turn: int) -> list[Any]:
        over = self._ended(turn)
        assert not over, f"{self} ended turn {turn} before that: {over}"
        return self._waiting()

    def _waiting(self) -> list[Any]:
        return list(self.stage.client.permission.list(self.run)["permissions"])

    def _ended(self, turn: int) -> list[Event]:
        return [event for event in self.events("turn.ended") if event["turn"] == turn]

    # --- what came of it ---

    @property
    def state(self) -> str:
        return self.stage.client.run.get(self.run)["state"]

    def parked(self) -> None:
        """Return once it waits for prompts."""
        assert self.is_through(), f"{self} is {self.state}: {self.events()[-5:]}"

    def is_through(self) -> bool:
        """Whether it waits for prompts, now or soon; one that does not is cancelled."""
        ends, pause_s = time.monotonic() + SOON_S, pauses()
        while (state := self.state) not in ("parked", "ended"):
            if time.monotonic() > ends:
                self.cancel()
                return False
            time.sleep(next(pause_s))
        return state == "parked"

    def result(self, within_s: float = LIMIT_S) -> dict[str, Any]:
        """Its result, once it has ended."""
        waited = self.stage.client.run.wait([self.run], timeout_s=within_s)
        assert waited["met"] == "ended", f"{self} has not ended: {self.events()[-5:]}"
        result = dict(self.stage.client.run.result(self.run))
        executable = result["executable"] or {}
        self.stage.version = executable.get("version") or result["agent_version"]
        return result

    def events(self, *types: str) -> list[Event]:
        """Its journal as it lies on disk, of some types or all."""
        found = self.stage.daemon.events(self.run)
        return [event for event in found if not types or event["type"] in types]

    def turn(self, number: int, within_s: float = LIMIT_S) -> Event:
        """The end of a turn, once it is there."""

        def ended() -> list[Event]:
            found = self._ended(number)
            if not found and self.state == "ended":
                raise AssertionError(f"{self} ended before turn {number}: {self.result()}")
            return found

        return dict(eventually(ended, f"turn {number} of {self} ends", within_s)[0])

    def said(self, number: int) -> str:
        """What the agent said in a turn."""
        text, turn = "", 0
        for event in self.events("turn.started", "agent.message_chunk"):
            turn = event.get("turn", turn) if event["type"] == "turn.started" else turn
            if turn == number and event["type"] == "agent.message_chunk":
                text += event["text"]
        return text

    def file(self, name: str, within_s: float = LIMIT_S) -> Path:
        """A file of its worktree, once it is there."""
        path = self.tree / name
        eventually(path.exists, f"{name} in the worktree of {self}", within_s)
        return path

    def keepers(self) -> list[Path]:
        """The attempts whose keepers live."""
        directories = self.stage.daemon.state.glob(f"runs/{self.run}/attempts/*/")
        return [directory for directory in directories if keeper_alive(directory)]

    def requests(self) -> list[dict[str, Any]]:
        """What the model was asked since this run began."""
        return self.stage.model.requests[self.asked :]


def totals(requests: list[dict[str, Any]], titles: bool = False) -> dict[str, int]:
    """The tokens that the model reported for these requests, without those for titles or with."""
    counted = [r["tokens"] for r in requests if r["tokens"] and (titles or not r["title"])]
    cached = CACHED_TOKENS * len(counted)
    return {
        "input": sum(given for given, _ in counted) - cached,
        "cached_input": cached,
        "output": sum(output for _, output in counted),
    }
