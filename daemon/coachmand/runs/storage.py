"""Whether the disk can be trusted and has room; every write of a run goes through here.

Full, it is waited for: a reserve is given up so that what ends can still be told, and the
runs are held until there is room again. Degraded, it took something not, or not for sure:
that is so until a daemon starts anew.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
import trio
from attrs import define, field

from .. import durable, ownership
from ..failpoints import reach
from ..rpc.errors import RpcError

log = structlog.get_logger("storage")
LOOK_AGAIN_S = 2.0
# Without a reserve, so much has to be free before runs go on.
ROOM_BYTES = 16 * 1024 * 1024
OK, FULL, DEGRADED = "ok", "full", "degraded"

T = TypeVar("T")


@define
class Storage:
    """The disk below ``root`` and the state that it is in; ``reason`` says why it is not ok."""

    root: Path
    reserve_bytes: int = 0
    state: str = OK
    reason: str | None = None
    on_change: Callable[[], None] = lambda: None
    on_fenced: Callable[[], None] = lambda: None
    _given_up: bool = field(default=False, init=False)
    _wake: trio.Event = field(factory=trio.Event, init=False)

    @property
    def ok(self) -> bool:
        """Whether new work may be taken on."""
        return self.state == OK

    @property
    def is_full(self) -> bool:
        """Whether living runs are held until there is room."""
        return self.state == FULL

    @property
    def degraded(self) -> bool:
        """Whether this daemon will not trust the disk again."""
        return self.state == DEGRADED

    @property
    def reserve(self) -> Path:
        """The file that is given up when the disk is full."""
        return self.root / "reserve"

    @property
    def needed_bytes(self) -> int:
        """How much has to be free before held runs go on, the reserve included."""
        return 2 * (self.reserve_bytes or ROOM_BYTES)

    def check(self, verb: str) -> None:
        """Raise RpcError Degraded unless new work may be taken on."""
        if self.ok:
            return
        free = shutil.disk_usage(self.root).free
        detail = {"state": self.state, "free_bytes": free}
        if self.is_full:
            detail["needed_bytes"] = self.needed_bytes
        hint = "make room on the disk" if self.is_full else "mend it: coachman daemon restart"
        text = f"cannot {verb}: {self.reason} ({free >> 20} MiB are free)"
        retry_s = LOOK_AGAIN_S if self.is_full else None
        raise RpcError("Degraded", text, hint, self.is_full, retry_s, detail)

    def degrade(self, error: OSError, what: str) -> None:
        """A write or a sync failed: no new runs; what it means is told by status."""
        if not self.degraded:
            self._become(DEGRADED, f"cannot write {what}: {error.strerror or error}")

    def fill(self, what: str) -> None:
        """There was no room for something, which will be asked for again."""
        if self.ok:
            needed = f"{self.needed_bytes >> 20} MiB"
            text = f"the disk is full: no room for {what}; runs go on once {needed} are free"
            self._become(FULL, text)

    def refused(self, error: OSError, what: str) -> None:
        """The disk refused something: it is full, or worse."""
        if error.errno in durable.NO_ROOM:
            self.fill(what)
        else:
            self.degrade(error, what)

    def _become(self, state: str, reason: str | None) -> None:
        self.state, self.reason = state, reason
        self._wake.set()
        (log.info if state == OK else log.error)("storage", state=state, reason=reason)
        self.on_change()

    # --- writing ---

    async def write(self, function: Callable[..., T], *args: Any) -> T:
        """Run in a thread what writes for a run; where the disk is full, until there is room.

        Raises DiskError where waiting would not help.
        """
        while True:
            try:
                return await trio.to_thread.run_sync(partial(function, *args))
            except durable.FullError as error:
                await self._make_room(error)

    async def _make_room(self, error: OSError) -> None:
        self.fill(Path(str(error.filename or "a journal")).name)
        if self._given_up or self.degraded:
            await trio.sleep(LOOK_AGAIN_S)
        else:
            await self._give_up_reserve()

    async def _give_up_reserve(self) -> None:
        self._given_up = True
        await trio.to_thread.run_sync(durable.remove, self.reserve)
        reach("storage.reserve_given_up")

    # --- looking after it ---

    async def keep(self) -> None:
        """Hold the reserve, look for room while the disk is full, and leave it to a successor."""
        try:
            await self._have_reserve()
            while True:
                with trio.move_on_after(LOOK_AGAIN_S):
                    await self._wake.wait()
                self._wake = trio.Event()
                await trio.to_thread.run_sync(ownership.check)
                if self.is_full and not self._given_up:
                    await self._give_up_reserve()
                elif self.is_full:
                    await self._have_reserve()
        except ownership.FencedError:
            self.on_fenced()

    async def _have_reserve(self) -> None:
        try:
            has_room = await trio.to_thread.run_sync(self._take_reserve)
        except durable.FullError:
            has_room = False
        except OSError as error:
            self.degrade(error, "the reserve")
            return
        if not has_room:
            self.fill("the reserve")
        elif self.is_full:
            self._given_up = False
            reach("storage.room_again")
            self._become(OK, None)

    def _take_reserve(self) -> bool:
        """Whether there is room again, and the reserve is ours with as much left. Blocks."""
        held = _size(self.reserve)
        if shutil.disk_usage(self.root).free + held < self.needed_bytes:
            return False
        if self.reserve_bytes and held != self.reserve_bytes:
            durable.reserve(self.reserve, self.reserve_bytes)
        return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
