"""A keeper in a scope of its own, where a user manager of systemd runs the daemon.

A scope is a cgroup with a name. Without one, keepers and agents share the daemon's: their memory
is counted together, and whoever ends a cgroup that took too much (systemd-oomd) ends them all.
Never needed for a run to work: what does not succeed is logged once and left.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
import trio

from coachman.paths import TOOLS_PATH
from coachman_sandbox.policy import Caps

from ...keeper.caps import OWN_TASKS
from .starting import Starting

LIMIT_S = 2.0
LOOK_AGAIN_S = 0.002
# The signature of StartTransientUnit, and where it is.
_CALL = (
    "--user",
    "call",
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "StartTransientUnit",
    "ssa(sv)a(sa(sv))",
)

log = structlog.get_logger("scopes")


class Scopes:
    """Makes scopes with ``busctl``, or none where that is None."""

    def __init__(self, busctl: str | None = None, env: Mapping[str, str] | None = None) -> None:
        self._busctl = busctl
        self._env = env

    def __repr__(self) -> str:
        return f"<Scopes by {self._busctl or 'nobody'}>"

    @classmethod
    def of(cls, env: Mapping[str, str], *, is_service: bool) -> "Scopes":
        """Those of the user manager that ``env`` leads to, for a daemon that it started."""
        reachable = is_service and env.get("XDG_RUNTIME_DIR")
        return cls(shutil.which("busctl", path=TOOLS_PATH) if reachable else None, env)

    def enclose(
        self, starting: Starting, name: str, caps: Caps | None, spawn: Callable[..., None]
    ) -> None:
        """Move a keeper that has not begun: it waits for that, at most LIMIT_S.

        ``caps`` are the scope's where its manager has the controllers; the keeper looks.
        """
        if self._busctl is not None:
            starting.settled = trio.Event()
            spawn(self._enclose, starting, f"coachman-{name}.scope", caps)

    async def _enclose(self, starting: Starting, unit: str, caps: Caps | None) -> None:
        try:
            with trio.move_on_after(LIMIT_S) as limit:
                await self._start(unit, starting.pid, caps)
        finally:
            starting.settled.set()
        if limit.cancelled_caught:
            self._give_up(unit, "it took too long")

    async def _start(self, unit: str, pid: int, caps: Caps | None) -> None:
        limits: tuple[str, ...] = ()
        if caps is not None:
            limits = ("MemoryMax", "t", str(caps.memory_bytes))
            limits += ("TasksMax", "t", str(caps.tasks + OWN_TASKS))
        properties = (
            "2" if caps is None else "4",
            *("PIDs", "au", "1", str(pid)),
            *("Description", "s", "A run of coachman"),
            *limits,
            "0",
        )
        done = await trio.run_process(
            [str(self._busctl), *_CALL, unit, "fail", *properties],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=self._env,
        )
        if done.returncode != 0:
            self._give_up(unit, done.stderr.decode(errors="replace").strip())
            return
        # The answer is that of a job, whose end is seen here; what began before would stay behind.
        while unit not in await trio.to_thread.run_sync(_cgroups, pid):  # noqa: ASYNC110 - see above
            await trio.sleep(LOOK_AGAIN_S)

    def _give_up(self, unit: str, cause: str) -> None:
        log.warning("no_scopes", unit=unit, cause=cause)
        self._busctl = None


def _cgroups(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text() if os.path.exists(f"/proc/{pid}") else ""
