"""A hundred living runs and a daemon that is killed again and again: `scripts/soak restart`."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import frozen

import recovery_state as at
from daemon_process import DaemonProcess, make_repository
from recovery_storm import processes_of

pytestmark = pytest.mark.soak
RUNS = 100
REPOSITORIES = 10
ADOPTED_WITHIN_S = 2.0
GIVEN_UP_AFTER_S = 60.0
# Half of them say a word now and then, the others wait for an answer.
TALKS = "\n".join(f"say word {n}\nsleep 0.5" for n in range(2000))
ASKS = "say hi\nask one\nsay end"


@pytest.fixture
def roomy(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon with a place for each of the runs."""
    process = DaemonProcess(state_dir, python=sys.executable)
    config = state_dir / "config.toml"
    config.write_text(f"[capacity]\nmax_active = {RUNS}\n")
    process.env["COACHMAN_CONFIG"] = str(config)
    process.start()
    yield process
    process.tidy()


def adopted(daemon: DaemonProcess, runs: list[str]) -> int:
    """How many of the runs have a keeper that obeys the newest daemon."""
    newest = int((daemon.state / "generation").read_text())
    states = (json.loads((at.attempt(daemon, run) / "keeper.json").read_bytes()) for run in runs)
    return sum(state["generation"] == newest for state in states)


@frozen
class Restart:
    """Seconds until a daemon answered and until every run was adopted, and of the processor.

    ``stretch`` is how much longer than its time of the processor a start without runs took just
    then: 1 on a quiet machine.
    """

    answers_s: float
    adopted_s: float
    processor_s: float
    stretch: float

    @property
    def undisturbed_s(self) -> float:
        """Until all were adopted, had nobody else used the machine."""
        return self.adopted_s / self.stretch


def restart(daemon: DaemonProcess, bare: DaemonProcess, runs: list[str]) -> Restart:
    """Kill and start it, beside a start of a daemon that has no runs."""
    before = time.monotonic()
    bare.start()
    stretch = max(1.0, (time.monotonic() - before) / processor_s(bare))
    bare.kill()
    daemon.kill()
    before = time.monotonic()
    daemon.start()
    answers_s = time.monotonic() - before
    while adopted(daemon, runs) < len(runs):
        assert time.monotonic() - before < GIVEN_UP_AFTER_S, "some run was never adopted"
        time.sleep(0.01)
    return Restart(answers_s, time.monotonic() - before, processor_s(daemon), stretch)


def processor_s(daemon: DaemonProcess) -> float:
    """What the daemon has used of the processors since it was started."""
    assert daemon.process is not None
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check_words(daemon: DaemonProcess, run: str) -> int:
    """What was said is in the journal once, in order, without a hole; how much it was."""
    events = daemon.events(run)
    at.check_journal(events)
    said = [event["text"] for event in events if event["type"] == "agent.message_chunk"]
    assert said == [f"word {n}" for n in range(len(said))]
    return len(said)


def test_a_hundred_runs_are_adopted_each_time(
    roomy: DaemonProcess, state_dir: Path, times: int, eventually: Callable[..., object]
) -> None:
    """Whatever is alive when the daemon dies is its successor's within two seconds, whole."""
    (state_dir / "bare").mkdir()
    bare = DaemonProcess(state_dir / "bare", python=sys.executable)
    repos = [make_repository(state_dir / f"repo-{n}") for n in range(REPOSITORIES)]
    runs = []
    for number in range(RUNS):
        prompt, mode = ((TALKS, "allow"), (ASKS, "ask"))[number % 2]
        runs.append(at.start(roomy, repos[number % REPOSITORIES], prompt, permissions=mode))
    states = {"active", "waiting"}
    with roomy.client() as client:
        eventually(lambda: {client.run.get(run)["state"] for run in runs} <= states, 120)
    found = []
    for _ in range(times):
        found.append(restart(roomy, bare, runs))
        print(
            "answers after {0.answers_s:.2f} s, all adopted after {0.adopted_s:.2f} s; "
            "{0.processor_s:.2f} s of the processor, everything takes {0.stretch:.1f} times as long"
            " as it does alone".format(found[-1])
        )
    with roomy.client() as client:
        for asked in client.permission.list(pending=True)["permissions"]:
            client.permission.answer(asked["request"], run=asked["run"], kind="allow")
        client.run.cancel(runs[::2])
    outcomes = [at.result(roomy, run)["outcome"] for run in runs]
    words = [check_words(roomy, run) for run in runs[::2]]
    print(f"{sum(words)} words over {times} deaths")

    assert outcomes == ["cancelled", "succeeded"] * (RUNS // 2)
    assert eventually(lambda: processes_of(roomy.state, set(runs)) == [])
    assert max(restarted.undisturbed_s for restarted in found) <= ADOPTED_WITHIN_S
