"""Sixteen demo agents at a time, and clients that come, go, stop reading and change their minds."""

import contextlib
import json
import random
import signal
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

import coachman
import recovery_state as at
from daemon_process import DaemonProcess
from recovery_storm import processes_of

AT_ONCE = 16
PLACES = 24
ENDS_WITHIN_S = 120.0
CONFIGURATION = f"[capacity]\nmax_active = {PLACES}\n"
# The client has to be told what went wrong, and never that the daemon does not know.
NEVER = frozenset({"InternalError", "Degraded", "DaemonNotRunning", "ConnectionLost"})


@frozen
class Kind:
    """What a run is asked, and how it may end."""

    prompt: str
    outcomes: frozenset[str]
    options: Mapping[str, Any] = field(factory=dict)


SUCCEEDED = frozenset({"succeeded"})
KINDS: Mapping[str, Kind] = {
    "talks": Kind("chunks 40\nsleep 0.4\n" * 15 + "say end", SUCCEEDED),
    "works": Kind("write made.txt x\nrun sleep 1; echo y >> made.txt\nsleep 3\nsay end", SUCCEEDED),
    "asks": Kind("ask one\nsleep 2\nask two\nsay end", SUCCEEDED, {"permissions": "ask"}),
    "kept": Kind("say hi", SUCCEEDED | {"cancelled"}, {"keep": True}),
    "sleeps": Kind("say hi\nsleep 600", frozenset({"cancelled"})),
    "fails": Kind("chunks 10\nsleep 2\nfail on purpose", frozenset({"failed"})),
}


@define
class RunStorm:
    """One daemon's load, as a context manager; what befell clients is counted in ``refused``."""

    daemon: DaemonProcess
    repos: Sequence[Path]
    seed: int
    kinds: dict[str, str] = field(factory=dict)
    did: Counter[str] = field(factory=Counter)
    refused: Counter[str] = field(factory=Counter)
    faults: list[str] = field(factory=list)
    veteran: str = ""
    _living: list[str] = field(factory=list)
    _over: threading.Event = field(factory=threading.Event)
    _threads: list[threading.Thread] = field(factory=list)

    def __enter__(self) -> "RunStorm":
        # One that is never let go: whatever a run keeps of each of its turns adds up in it.
        self.veteran = at.start(self.daemon, self.repos[0], "say hi", keep=True)
        deeds = [self._keep_up, self._answer, self._steer, *VISITS * 2]
        for number, deed in enumerate(deeds):
            chance = random.Random(f"{self.seed} {number}")
            thread = threading.Thread(target=self._repeat, args=(deed, chance), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(ENDS_WITHIN_S)

    def _repeat(self, deed: Callable[..., None], chance: random.Random) -> None:
        name = deed.__name__.strip("_")
        arguments = (chance,) if deed.__name__.startswith("_") else (self, chance)
        while not self._over.wait(chance.uniform(0.05, 0.5)):
            try:
                deed(*arguments)
                self.did[name] += 1
            except coachman.CoachmanError as error:
                self.refused[f"{name}: {error.name}"] += 1
                if error.name in NEVER or "Traceback" in f"{error} {error.detail}":
                    self.faults.append(f"{name}: {error} {error.detail}")
            except Exception:
                self.faults.append(f"{name}: {traceback.format_exc()}")

    # --- what keeps it up ---

    def _keep_up(self, chance: random.Random) -> None:
        """Start as many runs as have ended."""
        with self.daemon.client() as client:
            rows = client.run.list(state=["queued", "preparing", "active", "waiting", "parked"])
            self._living = [row["run"] for row in rows["runs"] if row["run"] != self.veteran]
            for _ in range(AT_ONCE - len(self._living)):
                name = chance.choice(list(KINDS))
                kind = KINDS[name]
                told = client.run.start(
                    kind.prompt, dir=str(chance.choice(self.repos)), agent="demo", **kind.options
                )
                self.kinds[told["run"]] = name

    def _answer(self, chance: random.Random) -> None:
        with self.daemon.client() as client:
            for asked in client.permission.list(pending=True)["permissions"]:
                kind = chance.choice(("allow", "allow", "deny"))
                client.permission.answer(asked["request"], run=asked["run"], kind=kind)

    def _steer(self, chance: random.Random) -> None:
        """Prompt, interrupt and close the kept, cancel the sleeping."""
        with self.daemon.client() as client:
            client.run.prompt(self.veteran, "chunks 5\nsay again")
            for run in list(self._living):
                if self.kinds.get(run) == "sleeps" and chance.random() < 0.1:
                    client.run.cancel([run])
                elif self.kinds.get(run) == "kept":
                    self._steer_kept(client, run, chance)
        self._over.wait(1.0)

    def _steer_kept(self, client: coachman.Client, run: str, chance: random.Random) -> None:
        dice = chance.random()
        if dice < 0.3:
            text = chance.choice(("chunks 20\nsay more", "sleep 2\nsay more"))
            # Of one that has just ended, another run goes on with the session.
            self.kinds.setdefault(client.run.prompt(run, text)["run"], "kept")
        elif dice < 0.4:
            client.run.interrupt(run, chance.choice(("say instead", None)))
        elif dice < 0.5:
            client.run.close([run])

    def some_run(self, chance: random.Random) -> str:
        """Any run, more often one that lives."""
        everyone = list(self.kinds) if chance.random() < 0.1 else self._living
        return chance.choice(everyone or [self.veteran])

    # --- what must hold ---

    def finish(self) -> None:
        """End whatever still lives, and wait for it."""
        runs = [*self.kinds, self.veteran]
        ends = time.monotonic() + ENDS_WITHIN_S
        with self.daemon.client() as client:
            client.run.close([r for r in runs if r == self.veteran or self.kinds[r] == "kept"])
            client.run.cancel([run for run in runs if self.kinds.get(run) == "sleeps"])
            while client.run.wait(runs, timeout_s=0.5)["met"] != "ended":
                for asked in client.permission.list(pending=True)["permissions"]:
                    client.permission.answer(asked["request"], run=asked["run"], kind="allow")
                assert time.monotonic() < ends, "a run is stuck"

    def check(self, eventually: Callable[..., object]) -> None:
        """Every run came to a truthful end, each journal is whole, and nothing is left of any."""
        for run, kind in self.kinds.items():
            result = at.result(self.daemon, run)
            told = f"{kind} {run}: {result['outcome']} {result['error']}"
            assert result["outcome"] in KINDS[kind].outcomes, told
            at.check_journal(self.daemon.events(run))
        at.check_journal(self.daemon.events(self.veteran))
        assert eventually(lambda: self.daemon.keepers() == [])
        assert eventually(
            lambda: processes_of(self.daemon.state, {*self.kinds, self.veteran}) == []
        )
        assert self.faults == []

    def told(self) -> str:
        """How much it was."""
        runs = Counter(self.kinds.values())
        return f"runs {dict(runs)}\nvisits {dict(self.did)}\nrefused {dict(self.refused)}"


# --- clients, each a visit ---


def follows(storm: RunStorm, chance: random.Random) -> None:
    """Reads a run's events for some time, or to the end."""
    _read(storm, storm.some_run(chance), chance.uniform(0, 10))


def stands_still(storm: RunStorm, chance: random.Random) -> None:
    """Follows a run without reading for a while; then hangs up, or reads all that it missed."""
    with coachman.connect(storm.daemon.socket) as client:
        stream = client.events(storm.some_run(chance))
    with stream:
        time.sleep(chance.uniform(1, 10))
        if chance.random() < 0.5:
            _check_numbers(stream, chance.uniform(0, 10))


def _read(storm: RunStorm, run: str, limit_s: float) -> None:
    with storm.daemon.client() as client, client.events(run) as stream:
        _check_numbers(stream, limit_s)


def _check_numbers(stream: coachman.events.EventStream, limit_s: float) -> None:
    ends, before = time.monotonic() + limit_s, 0
    while (left := ends - time.monotonic()) > 0 and (event := stream.read(left)) is not None:
        assert event["seq"] == before + 1, (event, before)
        before = event["seq"]


def looks(storm: RunStorm, chance: random.Random) -> None:
    """Asks this and that."""
    with coachman.connect(storm.daemon.socket, name="storm") as client:
        for _ in range(chance.randrange(1, 20)):
            chance.choice(LOOKS)(client, storm.some_run(chance))


LOOKS: tuple[Callable[[coachman.Client, str], Any], ...] = (
    lambda client, run: client.run.get(run),
    lambda client, run: client.run.list(limit=20),
    lambda client, run: client.run.wait([run], timeout_s=0.2),
    lambda client, run: client.event.read(run, limit=50),
    lambda client, run: client.run.diff(run),
    lambda client, run: client.daemon.status(),
    lambda client, run: client.daemon.ping(),
)


def hangs_up(storm: RunStorm, chance: random.Random) -> None:
    """Asks for what takes long, and is gone before it is answered; or closes half of the line."""
    run = storm.some_run(chance)
    asked = (
        ("run.wait", {"runs": [storm.veteran]}),
        ("event.read", {"run": storm.veteran, "after_seq": 0, "wait_s": 30}),
        ("event.subscribe", {"run": run}),
        ("run.diff", {"run": run}),
        ("run.cancel", {"runs": ["none"]}),
    )
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(storm.daemon.socket)
        for number, (method, params) in enumerate(chance.choices(asked, k=3), 1):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            line.sendall(json.dumps(message).encode() + b"\n")
        if chance.random() < 0.5:
            line.shutdown(socket.SHUT_WR)
            line.settimeout(2)
            with contextlib.suppress(TimeoutError):
                line.recv(4096)
        time.sleep(chance.uniform(0, 2))


def tails(storm: RunStorm, chance: random.Random) -> None:
    """The command line's tail, stopped or with nobody who reads it, and killed in the end."""
    tail = storm.daemon.spawn("tail", storm.some_run(chance))
    time.sleep(chance.uniform(0, 3))
    if chance.random() < 0.5:
        tail.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(1, 8))
    tail.kill()
    tail.communicate()


VISITS: list[Callable[[RunStorm, random.Random], None]] = [
    follows,
    stands_still,
    looks,
    hangs_up,
    tails,
]
