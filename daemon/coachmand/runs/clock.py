"""Time that survives a restart: a boot's id and its clock, which counts suspends in."""

import time
from pathlib import Path

from attrs import frozen


def boottime_s() -> float:
    """Seconds since boot, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def epoch_ms() -> int:
    """Milliseconds since 1970, for people and for journals."""
    return time.time_ns() // 1_000_000


def boot_id() -> str:
    """The kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@frozen
class Moment:
    """A point in time as it is persisted: exact within one boot, by the wall clock beyond."""

    boot: str
    boottime_s: float
    epoch_ms: int

    @classmethod
    def now(cls, boot: str, in_s: float = 0.0) -> "Moment":
        """The moment ``in_s`` seconds from now."""
        return cls(boot, boottime_s() + in_s, epoch_ms() + int(in_s * 1000))

    def due_boottime_s(self, boot: str) -> float:
        """When this is, on the clock of boot ``boot`` (the running one)."""
        if boot == self.boot:
            return self.boottime_s
        return boottime_s() + (self.epoch_ms - epoch_ms()) / 1000
