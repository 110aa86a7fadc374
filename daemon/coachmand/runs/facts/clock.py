"""Time that survives a restart: a boot's id and its clock, which counts suspends in."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

from attrs import define, frozen


def boottime_s() -> float:
    """Seconds since boot, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def asleep_s() -> float:
    """Seconds that the machine was suspended since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def stamp(boot: str) -> dict[str, Any]:
    """This moment as an event carries it: with its ``ts`` it is a `Moment`."""
    return {"boot": boot, "boottime_s": boottime_s(), "asleep_s": round(asleep_s(), 3)}


def reset_ms(told: Mapping[str, Any]) -> int | None:
    """When a limit ends, in ms of the epoch, of the members of `coachman_adapters`' ``Reset``."""
    if told["at_s"] is not None:
        return int(told["at_s"] * 1000)
    if told["in_s"] is not None:
        return epoch_ms() + int(told["in_s"] * 1000)
    return _local_ms(told["local"])


def _local_ms(text: str) -> int | None:
    """A moment on this machine's clock; of a time of day the one that is nearest by now."""
    try:
        if len(text) > len("HH:MM"):
            return int(datetime.fromisoformat(text).timestamp() * 1000)
        now, at = datetime.now(), time_of_day.fromisoformat(text)
    except ValueError:
        return None
    found = datetime.combine(now.date(), at)
    if now - found > timedelta(hours=12):
        found += timedelta(days=1)
    return int(found.timestamp() * 1000)


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

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> "Moment | None":
        """When an event with a stamp was; None for one without."""
        clock = event.get("clock")
        return clock and cls(clock["boot"], clock["boottime_s"], event["ts"])

    def later(self, by_s: float) -> "Moment":
        """The moment ``by_s`` seconds after this one."""
        return Moment(self.boot, self.boottime_s + by_s, self.epoch_ms + int(by_s * 1000))

    def s_since(self, other: "Moment") -> float:
        """The seconds from ``other`` to this one, never fewer than none."""
        if other.boot == self.boot:
            return max(0.0, self.boottime_s - other.boottime_s)
        return max(0.0, (self.epoch_ms - other.epoch_ms) / 1000)


@define
class Stopwatch:
    """Time that counts now and then: ``spent_s`` until ``since``, from when on it runs again."""

    spent_s: float = 0.0
    since: Moment | None = None

    def run(self, at: Moment) -> None:
        """Count from here on."""
        self.since = self.since or at

    def pause(self, at: Moment) -> None:
        """Count no more, until it runs again."""
        if self.since is not None:
            self.spent_s += at.s_since(self.since)
            self.since = None

    def skip(self, by_s: float) -> None:
        """Seconds that just went by do not count."""
        self.since = self.since and self.since.later(by_s)

    def due_boottime_s(self, boot: str, limit_s: float) -> float | None:
        """When ``limit_s`` will have been spent; None while it does not run."""
        if self.since is None:
            return None
        return self.since.later(limit_s - self.spent_s).due_boottime_s(boot)
