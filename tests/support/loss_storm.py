"""A storm over a few tasks: runs, edits by hand, cancels, cleanups and deaths of the daemon."""

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from coachman.errors import CoachmanError
from daemon_process import DaemonProcess
from loss_edits import Inventory, Person, inventory, lost, unnest
from repos_fixtures import git

TASKS = ("one", "two", "three")
AGENT = "write agent-{0}.txt {0}\nrun mkdir -p sub; echo {0} >> sub/agent-{0}.txt"
ENDS_WITHIN_S = 60
KILL_WITHIN_S = 0.12
# How often a person takes away what would keep a worktree from going.
TIDY_SHARE = 0.7


@define
class LossStorm:
    """One repository of a daemon; ``refused`` counts worktrees that had to stay."""

    daemon: DaemonProcess
    repo: Path
    chance: random.Random
    did: list[str] = field(factory=list)
    kills: int = 0
    cleanups: int = 0
    removed: int = 0
    salvaged: int = 0
    refused: int = 0

    def round(self) -> None:
        """Do a few things in any order; after each cleanup nothing may be lost."""
        self.did.clear()
        for _ in range(self.chance.randrange(3, 8)):
            action = self.chance.choice(ACTIONS)
            self.did.append(action.__name__)
            action(self)

    def trees(self) -> dict[str, Path]:
        """The worktrees that tasks may have, there or not."""
        return {task: self._folder / task for task in TASKS}

    @property
    def _folder(self) -> Path:
        found = list((self.daemon.state / "worktrees").glob(f"{self.repo.name}-*"))
        return found[0] if found else self.daemon.state / "worktrees/none"

    def start(self, task: str, prompt: str) -> str | None:
        """The run that was started; None where the task has one that lives."""
        try:
            with self.daemon.client() as client:
                return client.run.start(prompt, dir=str(self.repo), agent="demo", task=task)["run"]
        except CoachmanError as error:
            if error.name not in ("Conflict", "Busy"):
                raise
            return None

    def wait(self, run: str | None) -> None:
        if run is not None:
            with self.daemon.client() as client:
                met = client.run.wait([run], timeout_s=ENDS_WITHIN_S)["met"]
                assert met == "ended", (run, met)

    def living(self) -> list[str]:
        with self.daemon.client() as client:
            rows = client.run.list(all=True, limit=1000)["runs"]
            return [row["run"] for row in rows if row["state"] != "ended"]

    def records(self) -> dict[str, dict[str, Any]]:
        """The repository's tasks as they are on record."""
        paths = self.daemon.state.glob(f"tasks/{self.repo.name}-*/*.json")
        return {path.stem: json.loads(path.read_bytes()) for path in paths}

    def going(self) -> bool:
        """Whether a worktree is on its way out: what is written there now is written in vain."""
        return any(record["going"] for record in self.records().values())

    def made(self) -> list[Path]:
        """The worktrees that are there and whole."""
        done = {task for task, record in self.records().items() if record["admin"]}
        return [tree for task, tree in self.trees().items() if task in done]

    def before(self) -> dict[str, Inventory]:
        whole = self.made()
        return {task: inventory(tree) for task, tree in self.trees().items() if tree in whole}

    def check(self, before: dict[str, Inventory]) -> None:
        """Whatever was in a worktree is in it still, or a ref leads to it."""
        for task, held in before.items():
            missing = lost(held, self.trees()[task], self.repo)
            assert missing == {}, (task, missing, self.did)

    def count(self, done: Mapping[str, Any]) -> None:
        for task in done["tasks"]:
            self.removed += task["state"] == "removed"
            self.salvaged += task["salvage"] is not None
            self.refused += task["state"] == "kept"


def work(storm: LossStorm) -> None:
    """A run to its end."""
    storm.wait(storm.start(storm.chance.choice(TASKS), AGENT.format(_number(storm))))


def live(storm: LossStorm) -> None:
    """A run that goes on; it is cancelled by whoever comes to it."""
    storm.start(storm.chance.choice(TASKS), AGENT.format(_number(storm)) + "\nsleep 300")


def cancel(storm: LossStorm) -> None:
    runs = storm.living()
    with storm.daemon.client() as client:
        client.run.cancel(runs)
    for run in runs:
        storm.wait(run)


def edit(storm: LossStorm) -> None:
    """By hand, also while an agent works there."""
    if there := storm.made():
        person = Person(storm.chance.choice(there), storm.chance)
        for _ in range(storm.chance.randrange(1, 5)):
            person.edit()
        if storm.chance.random() < TIDY_SHARE:
            unnest(person)
        storm.did += person.did


@contextlib.contextmanager
def unknown_names() -> Iterator[None]:
    """A task that this repository does not have yet is no failure, though others may have it."""
    try:
        yield
    except CoachmanError as error:
        if error.name not in ("NotFound", "InvalidParams"):
            raise


def selectors(storm: LossStorm) -> dict[str, Any]:
    task = storm.chance.choice(TASKS)
    only = storm.chance.choice([None, None, None, "logs", "worktrees"])
    old = {"all": True, "older_than_s": 0.001}
    which = storm.chance.choice([{"all": True}, {"runs": [task]}, old])
    return {**which, "only": only, "dir": str(storm.repo)}


def clean_up(storm: LossStorm) -> None:
    before = storm.before()
    with storm.daemon.client() as client, unknown_names():
        storm.count(client.daemon.cleanup(**selectors(storm)))
        storm.cleanups += 1
    storm.check(before)


def clean_up_and_kill(storm: LossStorm) -> None:
    """The daemon dies somewhere in the middle."""
    before = storm.before()
    chosen = selectors(storm)

    def ask() -> None:
        with contextlib.suppress(CoachmanError), storm.daemon.client() as client:
            client.daemon.cleanup(**chosen)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(storm.chance.uniform(0, KILL_WITHIN_S))
    kill(storm)
    asking.join()
    storm.cleanups += 1
    storm.check(before)


def kill(storm: LossStorm) -> None:
    storm.daemon.restart()
    storm.kills += 1
    ends = time.monotonic() + ENDS_WITHIN_S
    while storm.going():
        assert time.monotonic() < ends, "a removal is not finished"
        time.sleep(0.01)


def collect(storm: LossStorm) -> None:
    """A person has git throw away whatever nothing leads to."""
    if not storm.living():
        before = storm.before()
        git(storm.repo, "gc", "-q", "--prune=now")
        storm.check(before)


def _number(storm: LossStorm) -> str:
    return f"{storm.chance.getrandbits(64):016x}"


ACTIONS = (
    *(work, work, edit, edit, edit, edit, clean_up, clean_up, clean_up, clean_up),
    *(clean_up_and_kill, clean_up_and_kill, live, cancel, cancel, kill, collect),
)
