"""A daemon whose installed build changed goes on as the new one: in place, in the same process.

The listening socket and the state's lock stay open across the re-execution, so that no client is
refused and no other daemon gets in between. Runs live on in their keepers and are found again.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import structlog
import trio
from attrs import field, frozen

from . import handover
from .build import installed_mark
from .lifetime import Lifetime
from .runs.supervisor import Supervisor
from .service import Service

# How long requests that are being carried out may take; run.start checks a tree out.
ANSWER_LIMIT_S = 30.0
CHECK_LIMIT_S = 30.0
LOOK_EVERY_S = 1.0
# What keeps a daemon that is told to end from ending: a thread on a disk that does not answer.
# The kernel ends it then.
END_LIMIT_S = 20

log = structlog.get_logger("upgrade")


class BuildError(Exception):
    """The build on disk cannot take over; the text says why."""


async def check_build(env: Mapping[str, str]) -> None:
    """Let the build on disk load itself and read the configuration. Raises BuildError."""
    command = [sys.executable, "-I", "-m", "coachmand", "--check"]
    with trio.move_on_after(CHECK_LIMIT_S):
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, env=env, cwd="/"
        )
        if done.returncode == 0:
            return
        raise BuildError(_reason(done.stdout) or _last_line(done.stderr))
    raise BuildError(f"it did not answer within {CHECK_LIMIT_S:.0f} s")


def _reason(stdout: bytes) -> str | None:
    try:
        return str(json.loads(stdout)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return None


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"


class Leavable(Protocol):
    """Where requests come in."""

    async def leave(self, limit_s: float) -> None: ...


class Leaving:
    """How this daemon ends: ``stop`` it, or ``restart`` it in place."""

    def __init__(
        self,
        scope: trio.CancelScope,
        doors: Sequence[Leavable],
        supervisor: Supervisor,
        service: Service,
        lifetime: Lifetime,
    ) -> None:
        self.restarts = False
        self._lifetime = lifetime
        self._scope = scope
        self._doors = doors
        self._supervisor = supervisor
        self._service = service

    def __repr__(self) -> str:
        return f"<Leaving {'to come back' if self.restarts else 'for good'}>"

    async def stop(self, mode: str, by: Mapping[str, Any]) -> None:
        """Let the answer out first, then end the daemon; runs go on in their keepers."""
        log.info("shutdown", mode=mode, by=by)
        await trio.sleep(0.05)
        self.end("stopped", mode=mode, by=dict(by))

    def end(self, how: str, **members: Any) -> None:
        """End the daemon now, also one that was about to restart; ``how`` is written down."""
        self.restarts = False
        signal.alarm(END_LIMIT_S)
        self._service.tell(STOPPING=1)
        self._lifetime.end(how, **members)
        self._scope.cancel()

    def fenced(self) -> None:
        """End the daemon now: another one has the state directory, and its record."""
        self.restarts = False
        signal.alarm(END_LIMIT_S)
        self._service.tell(STOPPING=1)
        self._scope.cancel()

    async def restart(self) -> None:
        """Answer what was asked, save where each run stands, and come back as the build on disk."""
        if self.restarts:
            return
        self.restarts = True
        log.info("restart")
        self._service.tell(RELOADING=1, STATUS="Restarting in place")
        async with trio.open_nursery() as nursery:
            for door in self._doors:
                nursery.start_soon(door.leave, ANSWER_LIMIT_S)
        await self._supervisor.checkpoint()
        self._lifetime.end("restarting")
        self._scope.cancel()


class Upgrades:
    """Notices that another build was installed and restarts the daemon into it.

    A client's hello is the occasion to look: a new client is what a new build most often brings.
    """

    def __init__(self, env: Mapping[str, str], restart: Callable[[], Any]) -> None:
        self._env = env
        self._restart = restart
        self._mark = installed_mark()
        self._due = trio.Event()

    def __repr__(self) -> str:
        return f"<Upgrades from {self._mark}>"

    def look(self) -> None:
        """Look soon; costs nothing now."""
        self._due.set()

    async def watch(self) -> None:
        """Look whenever asked to, at most once a second."""
        while True:
            await self._due.wait()
            self._due = trio.Event()
            mark = await trio.to_thread.run_sync(installed_mark)
            # None: an installation is under way, or there is none to follow.
            if mark not in (None, self._mark):
                self._mark = mark
                await self._take_over()
            await trio.sleep(LOOK_EVERY_S)

    async def _take_over(self) -> None:
        try:
            await check_build(self._env)
        except BuildError as error:
            log.error("new_build_refused", cause=str(error), next="coachman daemon restart")
        else:
            log.info("new_build_found")
            self._restart()


@frozen
class Left:
    """What a daemon leaves to the one that it becomes.

    The listening socket, whether that is ours and not a service manager's, and what shells have
    lent, by run.
    """

    listener_fd: int
    owned: bool
    lent: Mapping[str, Mapping[str, str]] = field(repr=lambda lent: repr(sorted(lent)))


def reexecute(left: Left, lock_fd: int, service: Service) -> NoReturn:
    """Become the build on disk. Raises OSError where that cannot be executed."""
    kept = ["--lock-fd", str(lock_fd)]
    if left.owned:
        kept += ["--listener-fd", str(left.listener_fd)]
    for passed in (left.listener_fd, lock_fd):
        os.set_inheritable(passed, True)
    env = {**os.environ, **service.variables, **handover.leave(left.lent)}
    os.execve(sys.executable, [sys.executable, "-I", "-m", "coachmand", *kept], env)  # noqa: S606
