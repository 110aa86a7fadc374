"""Storms of SIGKILL: `scripts/soak crash`. A run does not notice that its daemon died."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import recovery_state as at
from agents_model import ModelServer
from crash_runs import COPIED, set_up
from crash_storm import CrashStorm, targets
from daemon_process import DaemonProcess, make_repository
from recovery_storm import CANCELLED, SCENARIOS, Scenario, Storm
from recovery_streams import message

pytestmark = pytest.mark.soak
RUNS_AT_ONCE = 3
LONG_CHUNKS = 100_000
LONG_KILLS = 6
# What is counted is counted in each process: a keeper comes to a step once, a run to these.
ONCE = ("keeper", "view.", "inputs.", "question.", "family.", "feed.owed", "sentinel.")
OPENCODE = Scenario(
    "opencode",
    "WRITE made.txt text\nRUN sleep 0.5\nSLOW 1 slowly said",
    "slowly said",
    {"agent": "opencode", "permissions": "ask"},
)


def test_no_run_notices_that_its_daemon_was_killed(
    daemon: DaemonProcess, state_dir: Path, rounds: int, eventually: Callable[..., object]
) -> None:
    """Killed at any moment, starting or concluding, every run ends as if it had not been."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    kills = 0
    for number in range(rounds):
        repo = make_repository(state_dir / f"repo-{number}")
        storm = Storm(daemon, repo, chance)
        for scenario in chance.sample([*SCENARIOS, CANCELLED], RUNS_AT_ONCE):
            storm.start(scenario)
            storm.linger(0.2)
        for _ in range(chance.choice([1, 1, 2, 3])):
            storm.linger(1.0)
            if chance.random() < 0.5:
                with daemon.client() as client:
                    storm.meddle(client)
                storm.linger(0.1)
            storm.kill()
        storm.settle()
        storm.check(eventually)
        kills += storm.kills
    print(f"{kills} kills over {rounds * RUNS_AT_ONCE} runs")
    assert kills >= rounds


@pytest.fixture
def opencode(state_dir: Path, opencode_bin: Path) -> Iterator[tuple[DaemonProcess, ModelServer]]:
    """A daemon whose user has the real opencode, configured for a scripted model."""
    with ModelServer() as model:
        process = DaemonProcess(state_dir)
        process.env["PATH"] = f"{opencode_bin}:{process.env['PATH']}"
        config = process.home / ".config" / "opencode"
        config.mkdir(parents=True)
        (config / "opencode.json").write_text(json.dumps(model.opencode_config()))
        process.start()
        yield process, model
        process.tidy()


@pytest.mark.real_agent
def test_no_run_of_opencode_notices_that_its_daemon_was_killed(
    opencode: tuple[DaemonProcess, ModelServer],
    state_dir: Path,
    rounds: int,
    eventually: Callable[..., object],
) -> None:
    """The real agent is told nothing twice; its work, last words and usage are whole."""
    daemon, model = opencode
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(max(1, rounds // 5)):
        before = model.totals()
        storm = Storm(daemon, make_repository(state_dir / f"repo-{number}"), chance)
        run = storm.start(OPENCODE)
        for _ in range(chance.choice([1, 2, 3])):
            storm.linger(3.0)
            if chance.random() < 0.3:
                with daemon.client() as client:
                    storm.meddle(client)
            storm.kill()
        storm.settle()
        storm.check(eventually)
        used = {name: count - before[name] for name, count in model.totals().items()}
        result = at.result(daemon, run)
        assert {name: result["usage"][name] for name in used} == used
        assert [change["path"] for change in result["changed_files"]] == ["made.txt"]


def test_a_long_stream_is_whole_behind_its_checkpoints(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Many MiB of output, a checkpoint every four: each crash goes on from the last one."""
    chance = random.Random(11)
    storm = Storm(daemon, repo, chance)
    run = storm.start(Scenario("long", f"chunks {LONG_CHUNKS}", None))
    for _ in range(LONG_KILLS):
        storm.linger(1.5)
        storm.kill()
    storm.settle()
    storm.check(eventually)
    texts = [e["text"] for e in daemon.events(run) if e["type"] == "agent.message_chunk"]

    assert "".join(texts) == message(LONG_CHUNKS)
    assert (at.directory(daemon, run) / "final.md").read_text() == message(LONG_CHUNKS)


def test_every_death_is_survived(daemon: DaemonProcess, state_dir: Path, kills: int) -> None:
    """Daemon, keeper and agent die at every named step: nothing is orphaned, lost or untrue."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, numbers = random.Random(seed), count()

    def repository() -> Path:
        number = next(numbers)
        repo = make_repository(state_dir / f"repo-{number}")
        if number % 2:
            (repo / COPIED).write_text("not of git\n")
        set_up(daemon, [repo] if number % 2 else [])
        return repo

    storm = CrashStorm(daemon, repository, chance)
    for target in targets(chance):
        nth = 1 if target.startswith(ONCE) else chance.choice((1, 1, 2, 3))
        storm.strike(target, nth, again=chance.random() < 0.2)
        found = sum(storm.kills.values())
        print(f"{found} of {kills}, {sum(map(len, storm.faults.values()))} faults", flush=True)
        if found >= kills:
            break
    print(storm.table())
    assert storm.found == {}
