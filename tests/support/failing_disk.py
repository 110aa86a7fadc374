"""One run and one more while the N-th call of a disk is refused, and what must hold then."""

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

import coachman
import recovery_state as at
from coachmand import failpoints
from daemon_process import DaemonProcess
from looking import pauses
from recovery_storm import processes_of

ENDS_WITHIN_S = 120.0
STUCK_S = 15.0
PROMPT = "ask one\nsay end"
STATES = ("ok", "full", "degraded")
COUNTED = frozenset({"succeeded", "lost", "failed", "empty"})


@define
class FailingDisk:
    """A state directory whose daemons and keepers meet a refusal, each once."""

    daemon: DaemonProcess
    repo: Path
    struck: dict[str, int] = field(factory=dict)
    outcomes: dict[str, int] = field(factory=dict)
    _started: list[str] = field(factory=list)

    def loop(self, calls: str, action: str, first: int = 1, step: int = 1) -> int:
        """Refuse the N-th of ``calls`` for N = first, first + step, …; the N that met none."""
        for number in itertools.count(first, step):
            if not self.once(f"{calls}:{action}@{number}"):
                return number
        raise AssertionError

    def once(self, point: str) -> bool:
        """Whether ``point`` was met; what must hold was held to it."""
        log = self.daemon.root / "strikes"
        log.unlink(missing_ok=True)
        before = {path.name for path in self._runs()}
        self._started.clear()
        armed = {failpoints.VARIABLE: point, failpoints.LOG_VARIABLE: str(log)}
        self.daemon.env |= armed
        with contextlib.suppress(AssertionError):
            self.daemon.start()
            self._work()
        self.daemon.kill()
        for name in armed:
            del self.daemon.env[name]
        self.daemon.start()
        self._check({path.name for path in self._runs()} - before, point)
        self.daemon.kill()
        for line in log.read_text().splitlines() if log.exists() else []:
            self.struck[line] = self.struck.get(line, 0) + 1
        return log.exists()

    def _runs(self) -> Iterator[Path]:
        runs = self.daemon.state / "runs"
        yield from (p for p in runs.glob("*") if not p.name.startswith("."))

    def _work(self) -> None:
        run = self._ask(self._start)
        if run is None:
            return
        request = self._ask(lambda client: self._question(client, run))
        if request is not None:
            self._ask(lambda c: c.permission.answer(request, run=run, kind="allow"))
        self._ask(lambda client: client.run.wait([run], timeout_s=STUCK_S))
        state = self._ask(lambda client: client.daemon.status()["storage"]["state"])
        assert state in (*STATES, None)
        again = self._ask(lambda c: c.run.start("say hi", dir=str(self.repo), agent="demo"))
        assert state != "degraded" or again is None, "a degraded daemon took a run"
        if again is not None:
            self._started.append(again["run"])
            self._ask(lambda client: client.run.wait([again["run"]], timeout_s=STUCK_S))

    def _start(self, client: coachman.Client) -> str:
        told = client.run.start(PROMPT, dir=str(self.repo), agent="demo", permissions="ask")
        self._started.append(told["run"])
        return str(told["run"])

    def _question(self, client: coachman.Client, run: str) -> str | None:
        ends, pause_s = time.monotonic() + STUCK_S, pauses()
        while True:
            row = client.run.wait([run], until="attention", timeout_s=STUCK_S)["runs"][0]
            assert row["met"] is not None, f"{run} is stuck: {row}"
            asked = row["attention"]
            # Room on the disk is waited for as well: it comes, and then the question.
            if asked is None or asked["request"] or time.monotonic() > ends:
                return asked and asked["request"] and str(asked["request"])
            time.sleep(next(pause_s))

    def _ask(self, ask: Callable[[coachman.Client], Any]) -> Any:
        """What came of it, None for a refusal, which has to be one that a client can read."""
        try:
            with self.daemon.client() as client:
                return ask(client)
        except coachman.CoachmanError as error:
            text = json.dumps([str(error), str(error.detail)])
            assert "Traceback" not in text, text
            assert "Errno" not in text, text
            return None

    def _check(self, new: set[str], point: str) -> None:
        """The next daemon finds what was acknowledged, and brings it to a truthful end."""
        assert set(self._started) <= new, f"{point}: an accepted run is gone"
        ends = time.monotonic() + ENDS_WITHIN_S
        with self.daemon.client() as client:
            while new and client.run.wait(sorted(new), timeout_s=0.3)["met"] != "ended":
                for asked in client.permission.list(pending=True)["permissions"]:
                    client.permission.answer(asked["request"], run=asked["run"], kind="allow")
                assert time.monotonic() < ends, f"{point}: a run is stuck"
            assert client.daemon.status()["storage"]["state"] == "ok"
        for run in new:
            self._check_run(run, point)
        assert not list((self.daemon.state / "live").iterdir()), point
        while self.daemon.keepers() or processes_of(self.daemon.state, new):
            assert time.monotonic() < ends, f"{point}: something of a run is left"
            time.sleep(0.02)

    def _check_run(self, run: str, point: str) -> None:
        events, result = self.daemon.events(run), at.result(self.daemon, run)
        at.check_journal(events)
        assert result["outcome"] in COUNTED, f"{point}: {result['outcome']} {result['error']}"
        if result["outcome"] == "succeeded":
            assert result["final_message"] in ("end", "hi"), point
        told = f"{result['outcome']} ({result['stop_reason']})"
        self.outcomes[told] = self.outcomes.get(told, 0) + 1

    def table(self) -> str:
        """What was refused how often, and how runs ended then."""
        rows = [f"  {name:<32}{count:>5}" for name, count in sorted(self.struck.items())]
        rows += [f"  {how:<32}{count:>5}" for how, count in sorted(self.outcomes.items())]
        return "\n".join(rows)
