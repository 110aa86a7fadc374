"""One git worker process: start it, talk to it, end it."""

import json
import math
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from coachmand import failpoints
from coachmand.repos.errors import TIMED_OUT, WORKER_LOST, RepoError

WORKER_FILE = Path(__file__).with_name("worker.py")

# An operation has its own limit in the worker; this bounds the wait for its turn, too.
_ANSWER_S = 3600.0
_END_GRACE_S = 2.0


@define(eq=False)
class _Pending:
    done: trio.Event = field(factory=trio.Event)
    answer: dict[str, Any] | None = None
    payload: bytes = b""


class WorkerProcess:
    """Requests may be made at once: they wait for the process to be up.

    ``ended`` turns true before the process is told to go, so that nobody hands
    a request to a worker that is leaving.
    """

    def __init__(self, python: str, idle_s: float) -> None:
        self.ended = False
        self._python = python
        self._idle_s = idle_s
        self._last_used_s = trio.current_time()
        self._pending: dict[int, _Pending] = {}
        self._next_id = 1
        self._outbox, self._unsent = trio.open_memory_channel[bytes](math.inf)
        self._process: trio.Process | None = None

    def __repr__(self) -> str:
        pid = self._process.pid if self._process else None
        return f"<WorkerProcess {pid} {len(self._pending)} pending{' ended' * self.ended}>"

    @property
    def pid(self) -> int | None:
        """The process, once there is one."""
        return self._process.pid if self._process else None

    async def request(
        self, operation: str, params: Mapping[str, Any], limit_s: float | None = None
    ) -> tuple[Any, bytes]:
        """The operation's result and the bytes that came with it. Raises RepoError."""
        number, self._next_id = self._next_id, self._next_id + 1
        pending = self._pending[number] = _Pending()
        self._send({"id": number, "op": operation, "params": dict(params), "limit_s": limit_s})
        try:
            with trio.move_on_after(_ANSWER_S):
                await pending.done.wait()
        finally:
            self._forget(number, answered=pending.done.is_set())
        if pending.answer is None:
            name = WORKER_LOST if pending.done.is_set() else TIMED_OUT
            raise RepoError(
                name, f"cannot {operation.replace('_', ' ')}: the git worker is gone", "try again"
            )
        if not pending.answer["ok"]:
            raise RepoError.from_wire(pending.answer["error"])
        return pending.answer["result"], pending.payload

    def _forget(self, number: int, *, answered: bool) -> None:
        self._pending.pop(number, None)
        self._last_used_s = trio.current_time()
        if not answered:
            self._send({"cancel": number})

    def _send(self, message: Mapping[str, Any]) -> None:
        if not self.ended:
            self._outbox.send_nowait(json.dumps(message).encode() + b"\n")

    async def run(self) -> None:
        """Be the process until it ends, is idle for long, or this is cancelled."""
        try:
            self._process = await self._start()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, self._process)
                nursery.start_soon(self._watch_idleness, nursery.cancel_scope)
                await self._read(self._process)
                nursery.cancel_scope.cancel()
        except OSError:
            # It could not be started; whoever asked learns that it is gone.
            pass
        finally:
            self._fail_pending()
            if self._process:
                await _end(self._process)

    async def _start(self) -> trio.Process:
        path, lang = os.environ.get("PATH", os.defpath), os.environ.get("LANG", "C.UTF-8")
        return await trio.lowlevel.open_process(
            [self._python, "-I", "-X", "utf8", str(WORKER_FILE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={"PATH": path, "LANG": lang, **_armed()},
            start_new_session=True,
        )

    async def _write(self, process: trio.Process) -> None:
        assert process.stdin
        try:
            async for message in self._unsent:
                await process.stdin.send_all(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The reader sees the end of the process and says so to everyone.
            return

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout
        received = bytearray()
        async for chunk in process.stdout:
            received += chunk
            while answer := _take_answer(received):
                self._settle(*answer)

    def _settle(self, answer: dict[str, Any], payload: bytes) -> None:
        pending = self._pending.get(answer["id"])
        if pending:
            pending.answer, pending.payload = answer, payload
            pending.done.set()

    async def _watch_idleness(self, scope: trio.CancelScope) -> None:
        while True:
            left_s = self._last_used_s + self._idle_s - trio.current_time()
            if left_s <= 0 and not self._pending:
                self.ended = True
                scope.cancel()
                return
            await trio.sleep(max(left_s, self._idle_s / 4))

    def _fail_pending(self) -> None:
        self.ended = True
        for pending in self._pending.values():
            pending.done.set()


def _armed() -> dict[str, str]:
    """What arms a test's failpoints, which strike in the worker as well."""
    names = (failpoints.VARIABLE, failpoints.LOG_VARIABLE)
    return {name: os.environ[name] for name in names if name in os.environ}


def _take_answer(received: bytearray) -> tuple[dict[str, Any], bytes] | None:
    """Remove one whole answer from the bytes received, None when it is not all there."""
    end = received.find(b"\n")
    if end < 0:
        return None
    answer = json.loads(received[:end])
    stop = end + 1 + answer["size"]
    if len(received) < stop:
        return None
    payload = bytes(received[end + 1 : stop])
    del received[:stop]
    return answer, payload


async def _end(process: trio.Process) -> None:
    """Close its stdin, which ends it; kill it when that takes too long."""
    with trio.CancelScope(shield=True):
        assert process.stdin
        assert process.stdout
        await process.stdin.aclose()
        with trio.move_on_after(_END_GRACE_S):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.stdout.aclose()
