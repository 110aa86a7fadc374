"""A storm of deaths: of daemon, keeper and agent, at every named step and at random moments.

What may be lost is counted, not asserted, so that a storm tells all that it found.
"""

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

import coachman
import recovery_state as at
from coachmand import failpoints
from crash_runs import AGAIN, House, Kind, Watched
from daemon_process import DaemonProcess
from recovery_storm import processes_of

ENDS_WITHIN_S = 60.0
STRIKES_WITHIN_S = 12.0
TRIES = 3
# Reached on a full disk, in cleanups and behind a torn tail only, which tests of their own hold.
ELSEWHERE = ("storage.", "cleanup.", "disk.truncate")
FAULTS = ("orphans", "lost events", "lost promises", "false successes", "stuck runs", "broken")


@define
class CrashStorm:
    """One daemon's state directory; ``faults`` is the table of what must not be."""

    daemon: DaemonProcess
    make_repository: Callable[[], Path]
    chance: random.Random
    kills: dict[str, int] = field(factory=dict)
    faults: dict[str, list[str]] = field(factory=lambda: {name: [] for name in FAULTS})
    outcomes: dict[str, int] = field(factory=dict)
    missed: dict[str, int] = field(factory=dict)
    house: House = field(init=False)
    repo: Path = field(factory=Path)
    _log: Path = field(factory=Path)
    _struck: int = 0
    _words: int = 0

    @house.default
    def _make_house(self) -> House:
        return House(self.daemon)

    # --- striking ---

    def strike(self, target: str, nth: int = 1, *, again: bool = False) -> None:
        """One round: runs are under way, ``target`` strikes, and every run comes to its end."""
        self.repo, before = self.make_repository(), self.kills.get(target, 0)
        self._log = self.daemon.root / "strikes"
        point = f"{target}:kill@{nth}" if "." in target else None
        self._begin(point)
        runs = self._start_runs(target)
        watching = [
            threading.Thread(target=run.watch, args=(self.daemon.socket,), daemon=True)
            for run in runs
        ]
        for thread in watching:
            thread.start()
        if point is None:
            self._kill_at_random(target, runs)
        ends = time.monotonic() + STRIKES_WITHIN_S
        while not self._has_struck(point) and time.monotonic() < ends:
            self._meddle(runs)
            if not self._living(runs) and self._alive():
                break
        if again:
            self._die("daemon")
        self._settle(runs)
        # What struck late belongs to this round as well.
        self._has_struck(point)
        if point is not None and self.kills.get(target, 0) == before:
            self.missed[target] = self.missed.get(target, 0) + 1
        self._check(runs, watching)

    def _begin(self, point: str | None) -> None:
        """A daemon in which ``point`` is armed; one that dies while it starts is followed."""
        # Also where nothing is armed: the repository's own configuration is new.
        if self._alive():
            self.daemon.kill()
        self._start(point)

    def _start(self, point: str | None = None) -> None:
        env = self.daemon.env
        env.pop(failpoints.VARIABLE, None)
        if point is not None:
            env |= {failpoints.VARIABLE: point, failpoints.LOG_VARIABLE: str(self._log)}
        if self.daemon.process is not None:
            # Dead already, as a rule: it is waited for.
            self.daemon.kill()
        try:
            self.daemon.start()
        except AssertionError:
            if point is None:
                raise
            self._start()

    def _alive(self) -> bool:
        process = self.daemon.process
        return process is not None and process.poll() is None

    def _has_struck(self, point: str | None) -> bool:
        """Whether the armed point killed somebody since this was last asked."""
        if point is None:
            return True
        told = self._log.read_text().splitlines() if self._log.exists() else []
        for line in told[self._struck :]:
            name = line.split()[0]
            self.kills[name] = self.kills.get(name, 0) + 1
        found, self._struck = len(told) > self._struck, len(told)
        return found

    def _kill_at_random(self, target: str, runs: list[Watched]) -> None:
        time.sleep(self.chance.uniform(0, 0.7))
        self._meddle(runs)
        time.sleep(self.chance.uniform(0, 0.2))
        self._die(target, runs)

    def _die(self, target: str, runs: list[Watched] | None = None) -> None:
        if target == "daemon":
            if self._alive():
                self.daemon.kill()
                self.kills["daemon"] = self.kills.get("daemon", 0) + 1
            self._start()
            return
        for run in runs or ():
            pid = self._pid_of(target, run.run)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.kills[target] = self.kills.get(target, 0) + 1
                return

    def _pid_of(self, target: str, run: str) -> int | None:
        for path in sorted((at.directory(self.daemon, run) / "attempts").glob("*/keeper.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
                state = json.loads(path.read_bytes())
                pid = int(state["pid"])
                if b"keeper" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    continue
                if target == "keeper":
                    return pid
                init = state["sandbox"]["init_pid"]
                children = Path(f"/proc/{init}/task/{init}/children").read_text().split()
                return int(children[0])
        return None

    # --- what clients do ---

    def _start_runs(self, target: str) -> list[Watched]:
        kinds = self.house.kinds_for(target, self.chance)
        found = (self._tried(kind) for kind in kinds)
        return [run for run in found if run is not None]

    def _tried(self, begin: Kind) -> Watched | None:
        """What came of asking; who got no answer asks again with the key, which is that run's."""
        self._words += 1
        for _ in range(TRIES):
            with contextlib.suppress(coachman.CoachmanError), self._client() as client:
                return begin(client, self.repo, f"word-{self._words}")
            time.sleep(0.2)  # one that was killed is not dead at once
        return None

    @contextlib.contextmanager
    def _client(self) -> Iterator[coachman.Client]:
        if not self._alive():
            self._start()
        with self.daemon.client() as client:
            yield client

    def _meddle(self, runs: list[Watched]) -> None:
        """Answer what is asked, steer what is kept; what is answered to us is a promise."""
        with contextlib.suppress(coachman.CoachmanError), self._client() as client:
            for asked in client.permission.list(pending=True)["permissions"]:
                self._answer(client, runs, asked)
            for run in runs:
                self._reply(client, run)
                if run.kept and self.chance.random() < 0.3:
                    self._steer(client, run)
        time.sleep(0.05)

    def _answer(self, client: coachman.Client, runs: list[Watched], asked: dict[str, Any]) -> None:
        with contextlib.suppress(coachman.CoachmanError):
            client.permission.answer(asked["request"], run=asked["run"], kind="allow")
            for run in runs:
                if run.run == asked["run"]:
                    run.answers[asked["request"]] = "allow"

    def _reply(self, client: coachman.Client, run: Watched) -> None:
        """Answer what the agent asks in words."""
        with contextlib.suppress(coachman.CoachmanError):
            attention = client.run.get(run.run)["attention"] if run.asks_in_words else None
            if attention and attention["kind"] == "question":
                client.run.answer(attention["request"], run.word, run=run.run)
                run.replies.add(attention["request"])

    def _steer(self, client: coachman.Client, run: Watched) -> None:
        with contextlib.suppress(coachman.CoachmanError):
            if self.chance.random() < 0.2:
                client.run.interrupt(run.run, keep_queue=True)
            elif len(run.prompts) < 4:
                self._words += 1
                word = f"word-{self._words}"
                # Not answered, it may have been taken all the same.
                run.words.add(word)
                told = client.run.prompt(run.run, AGAIN.format(word=word))
                run.prompts[told["prompt"]] = word

    # --- how it ended ---

    def _living(self, runs: list[Watched]) -> bool:
        with contextlib.suppress(coachman.CoachmanError), self._client() as client:
            return any(client.run.get(run.run)["state"] != "ended" for run in runs)
        return True

    def _settle(self, runs: list[Watched]) -> None:
        ends = time.monotonic() + ENDS_WITHIN_S
        left = {run.run for run in runs}
        while left and time.monotonic() < ends:
            self._meddle([run for run in runs if not run.kept])
            with contextlib.suppress(coachman.CoachmanError), self._client() as client:
                client.run.close([run.run for run in runs if run.kept])
                rows = client.run.wait(list(left), timeout_s=0.2)["runs"]
                left -= {row["run"] for row in rows if row["met"] == "ended"}
        self.faults["stuck runs"] += sorted(left)

    def _check(self, runs: list[Watched], watching: list[threading.Thread]) -> None:
        for thread in watching:
            thread.join(10)
        for run in runs:
            if run.run not in self.faults["stuck runs"]:
                self._check_run(run)
        ends = time.monotonic() + 10
        while (left := self._orphans(runs)) and time.monotonic() < ends:
            time.sleep(0.05)
        self.faults["orphans"] += left

    def _orphans(self, runs: list[Watched]) -> list[str]:
        keepers = [f"keeper {pid}" for pid in self.daemon.keepers()]
        ids = {run.run for run in runs}
        return keepers + [f"process {pid}" for pid in processes_of(self.daemon.state, ids)]

    def _check_run(self, run: Watched) -> None:
        events = self.daemon.events(run.run)
        result = at.result(self.daemon, run.run)
        by_seq = {event["seq"]: event for event in events}
        changed = [seq for seq, event in run.seen.items() if by_seq.get(seq) != event]
        if changed:
            self.faults["lost events"].append(f"{run.run} {changed[:3]}")
        how = f"{result['outcome']} ({result['stop_reason']})"
        self.outcomes[how] = self.outcomes.get(how, 0) + 1
        self._check_promises(run, events)
        if result["outcome"] == "succeeded" and not self._is_true(run, events, result):
            self.faults["false successes"].append(run.run)
        self.faults["lost promises"] += self.house.broken_promises(run, events, result)
        self.faults["orphans"] += self._children_left(run)
        try:
            at.check_journal(events)
        except AssertionError as error:
            self.faults["broken"].append(f"{run.run} {str(error)[:80]}")

    def _children_left(self, run: Watched) -> list[str]:
        """What it started and did not take along."""
        with self._client() as client:
            below = client.run.list(ancestor=run.run, all=True)["runs"] if run.has_family else []
        return [f"child {row['run']} {row['state']}" for row in below if row["state"] != "ended"]

    def _check_promises(self, run: Watched, events: list[dict[str, Any]]) -> None:
        inputs = [event for event in events if event["type"] == "agent.input"]
        told = {event["prompt"] for event in inputs if "prompt_turn" in event}
        dropped = {event["prompt"] for event in events if event["type"] == "prompt.dropped"}
        answered = {event["request"] for event in inputs if event["kind"] == "answer"}
        # A first prompt that no agent was ever there for is the run's own failure.
        promised = {number for number in run.prompts if number > 1}
        if not promised <= told | dropped or not set(run.answers) <= answered:
            self.faults["lost promises"].append(run.run)

    def _is_true(self, run: Watched, events: list[dict[str, Any]], result: dict[str, Any]) -> bool:
        """Whether a success has all that makes one: an end of the turn, and its last words."""
        ended = [event for event in events if event["type"] == "turn.ended"]
        exits = (at.directory(self.daemon, run.run) / "attempts").glob("*/exit.json")
        well = bool(ended) and ended[-1]["stop_reason"] == "end_turn"
        spoken = result["final_message"] in run.words | {run.word}
        return well and any(exits) and spoken and run.has_left(result)

    def table(self) -> str:
        """What was killed, how runs ended, and what must not be."""
        rows = [f"{sum(self.kills.values())} kills at {len(self.kills)} places"]
        rows += [f"  {name:<28}{count:>5}" for name, count in sorted(self.kills.items())]
        rows += ["not reached"] * bool(self.missed)
        rows += [f"  {name:<28}{count:>5}" for name, count in sorted(self.missed.items())]
        rows += ["runs"] + [f"  {how:<28}{n:>5}" for how, n in sorted(self.outcomes.items())]
        rows += [f"  {name:<28}{len(found):>5}" for name, found in self.faults.items()]
        return "\n".join(rows)

    @property
    def found(self) -> dict[str, list[str]]:
        """The faults, by kind."""
        return {name: found for name, found in self.faults.items() if found}


def targets(chance: random.Random) -> Iterator[str]:
    """What to kill, over and over: each named step once a round, and as many random moments."""
    while True:
        named = sorted(name for name in failpoints.NAMES if not name.startswith(ELSEWHERE))
        deaths = chance.choices(("daemon", "keeper", "agent"), k=len(named) // 2)
        yield from chance.sample([*named, *deaths], len(named) + len(deaths))
