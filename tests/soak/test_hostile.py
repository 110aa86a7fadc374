"""Hostile agents that need minutes or a disk of their own: `scripts/soak hostile`."""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import recovery_state as at
from hostile_stage import Stage, own_bytes, staged

pytestmark = pytest.mark.soak
MEBIBYTE = 1024 * 1024
PEAK_BYTES = 25 * MEBIBYTE
GROWTH_BYTES = 10 * MEBIBYTE
KEEPER_BYTES = 24 * MEBIBYTE
RESULT_LIMIT_S = 1800.0
LOOK_EVERY_S = 0.05
SMALL_DISK = "160m"
SMALL_FLOOR = '[retention]\nfree_space_floor = "1MiB"\n'


@pytest.fixture
def stage(state_dir: Path) -> Iterator[Stage]:
    """A daemon that has had its first runs."""
    with staged(state_dir) as found:
        for wire in ("acp", "command"):
            found.result(found.start(wire, "nothing"))
        yield found


class Peaks(threading.Thread):
    """The most memory that the daemon and the keepers of ``stage`` ever have."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self._stage = stage
        self._over = threading.Event()
        self.daemon_bytes = self.keeper_bytes = 0

    def run(self) -> None:
        assert self._stage.daemon.process is not None
        while not self._over.wait(LOOK_EVERY_S):
            self.daemon_bytes = max(self.daemon_bytes, own_bytes(self._stage.daemon.process.pid))
            for pid in self._stage.daemon.keepers():
                try:
                    self.keeper_bytes = max(self.keeper_bytes, own_bytes(pid))
                except (OSError, StopIteration):
                    continue  # it has just left

    def stop(self) -> None:
        self._over.set()
        self.join()


@pytest.mark.parametrize(
    ("wire", "mode", "verdict"),
    [
        ("command", "flood 1200 text", ("failed", "output_limit")),
        ("acp", "flood 400 text", ("succeeded", "end_turn")),
        ("acp", "flood 150 frames", ("succeeded", "end_turn")),
        ("claude", "flood 150 frames", ("succeeded", "end_turn")),
        ("acp", "long_line 63", ("succeeded", "end_turn")),
        ("acp", "long_line 500", ("succeeded", "end_turn")),
        ("acp", "dense_line 60", ("succeeded", "end_turn")),
        ("acp", "asks 10000", ("succeeded", "end_turn")),
        ("acp", "litters 20000", ("succeeded", "end_turn")),
    ],
)
def test_a_long_flood_neither_swells_the_daemon_nor_its_keeper(
    stage: Stage,
    eventually: Callable[..., object],
    wire: str,
    mode: str,
    verdict: tuple[str, str],
) -> None:
    """While it lasts both stay within their bounds, and afterwards the daemon is as it was."""
    assert stage.daemon.process is not None
    pid = stage.daemon.process.pid
    before, peaks = own_bytes(pid), Peaks(stage)
    peaks.start()
    result = stage.result(stage.start(wire, mode), RESULT_LIMIT_S)
    peaks.stop()
    print(
        f"{wire} {mode}: {before / MEBIBYTE:.0f} MiB before, {peaks.daemon_bytes / MEBIBYTE:.0f}"
        f" at most, {own_bytes(pid) / MEBIBYTE:.0f} after, keeper {peaks.keeper_bytes >> 20}"
    )

    assert (result["outcome"], result["stop_reason"]) == verdict
    assert peaks.daemon_bytes - before <= PEAK_BYTES
    assert 0 < peaks.keeper_bytes <= KEEPER_BYTES
    assert eventually(lambda: own_bytes(pid) - before <= GROWTH_BYTES)


@contextmanager
def small_disk() -> Iterator[Path]:
    """A directory on a filesystem of its own; skips where nobody may mount one."""
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as path:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", path]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("a filesystem of its own needs a user who may mount one")
        try:
            yield Path(path)
        finally:
            subprocess.run(["umount", "-l", path], check=True)


def test_an_agent_that_fills_the_disk_does_not_fell_the_daemon(
    eventually: Callable[..., object],
) -> None:
    """Its run ends truthfully, its scratch is gone with it, and others begin again."""
    with small_disk() as root, staged(root, more=SMALL_FLOOR) as stage:
        run = stage.start("acp", "fills /scratch 200", timeouts={"wall_s": 30})
        result = stage.result(run)

        with stage.daemon.client() as client:
            eventually(lambda: client.daemon.status()["storage"]["state"] == "ok")
        again = stage.result(stage.start("acp", "exits"))
        at.check_journal(stage.daemon.events(run))

    assert (result["outcome"], result["final_message"]) == ("succeeded", "full: 28 filled")
    assert again["outcome"] == "failed"
