"""What a daemon writes about its own life, for whoever finds none: `coachman.lifetime` reads it."""

import contextlib
import faulthandler
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import structlog
import trio

from coachman.lifetime import (
    ALIVE,
    ALIVE_EVERY_S,
    CRASH,
    RECORD,
    boot,
    last_end,
    oom_kills,
    start_ticks,
)

from . import durable
from .ownership import FencedError

FORMAT = 1
# So many bytes the sign of life has, whatever it says: written over, it needs no room.
_ALIVE_BYTES = 48

log = structlog.get_logger("lifetime")


class Lifetime:
    """The record of this daemon's life. ``before`` is how the one before it ended, if any did."""

    def __init__(self, state: Path, version: str) -> None:
        self.before = last_end(str(state))
        self._state = state
        self._record: dict[str, Any] = {
            "format": FORMAT,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot": boot(),
            "version": version,
            "started_ms": _now_ms(),
            "ended": None,
        }

    def __repr__(self) -> str:
        return f"<Lifetime since {self._record['started_ms']}>"

    def begin(self) -> None:
        """Write down that this daemon lives. Blocks; a disk without room for it is no reason."""
        before = self.before
        if before is not None and not before["orderly"]:
            log.warning("daemon_died_before", how=before["how"], message=before["message"])
        self._sign = _open(self._state / ALIVE)
        # The interpreter's own last words, where it breaks.
        crash = _open(self._state / CRASH)
        os.ftruncate(crash, 0)
        faulthandler.enable(crash, all_threads=False)
        self._write(None)
        self.give_sign()

    def end(self, how: str, **members: Any) -> None:
        """Write down how it ends. Blocks for a moment."""
        self._write({"how": how, "at": _now_ms(), **members})

    def give_sign(self) -> None:
        """Leave the moment, and how often the kernel killed for want of memory."""
        text = f"{_now_ms()} {oom_kills()}".ljust(_ALIVE_BYTES - 1) + "\n"
        with contextlib.suppress(durable.DiskError, FencedError):
            durable.overwrite(self._sign, text.encode(), 0)

    async def keep(self) -> None:
        """Give a sign of life as long as it lasts."""
        while True:
            await trio.sleep(ALIVE_EVERY_S)
            self.give_sign()

    def _write(self, ended: dict[str, Any] | None) -> None:
        self._record["ended"] = ended
        try:
            durable.replace(self._state / RECORD, msgspec.json.encode(self._record))
        except (durable.DiskError, FencedError) as error:
            log.warning("life_not_recorded", error=str(error))


def refused(state: Path, why: str, how: str = "refused") -> None:
    """Write down what kept this daemon from going on, or from coming back in place. Blocks."""
    try:
        record = msgspec.json.decode((state / RECORD).read_bytes())
        if record["pid"] != os.getpid():
            return
        record["ended"] = {"how": how, "at": _now_ms(), "why": why}
        durable.replace(state / RECORD, msgspec.json.encode(record))
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError, FencedError) as error:
        log.warning("life_not_recorded", error=str(error))


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
