"""The worker's loop: requests on stdin, answers on stdout, one child each."""

import contextlib
import gc
import json
import os
import selectors
import time
from collections import deque
from typing import Any

from coachmand.repos import children, opening, serial
from coachmand.repos.errors import FAILED, RepoError

MAX_CHILDREN = 8

_STDIN, _STDOUT = 0, 1


class Serving:
    """Single-threaded: a fork must never copy a lock that some other thread holds."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(_STDIN, selectors.EVENT_READ)
        self._running: dict[int, children.Child] = {}
        self._waiting: deque[dict[str, Any]] = deque()
        self._input = bytearray()

    def run(self) -> None:
        """Serve until stdin ends, then kill what still runs."""
        try:
            while self._step():
                pass
        finally:
            for child in list(self._running.values()):
                child.kill("coachman went away")
                child.finish()

    def _step(self) -> bool:
        for key, _ in self._selector.select(self._patience_s()):
            if key.fd == _STDIN:
                if not self._read_requests():
                    return False
            elif not self._running[key.fd].read():
                self._end(self._running[key.fd])
        self._kill_late()
        while self._waiting and len(self._running) < MAX_CHILDREN:
            self._start(self._waiting.popleft())
        return True

    def _patience_s(self) -> float | None:
        deadlines = [child.deadline_s for child in self._running.values()]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _read_requests(self) -> bool:
        chunk = os.read(_STDIN, 1 << 16)
        self._input += chunk
        *lines, rest = self._input.split(b"\n")
        self._input = rest
        for line in lines:
            request = json.loads(line)
            if "cancel" in request:
                self._cancel(request["cancel"])
            else:
                self._waiting.append(request)
        return bool(chunk)

    def _cancel(self, request: int) -> None:
        self._waiting = deque(each for each in self._waiting if each["id"] != request)
        for child in self._running.values():
            if child.request == request:
                child.kill("it was cancelled")

    def _kill_late(self) -> None:
        now = time.monotonic()
        for child in self._running.values():
            if child.deadline_s <= now and not child.killed_for:
                child.kill("it took too long")

    def _start(self, request: dict[str, Any]) -> None:
        number = request["id"]
        try:
            child = children.start(number, request["op"], request["params"], request.get("limit_s"))
        except RepoError as error:
            _answer(number, {"ok": False, "error": error.as_wire()}, b"")
        except OSError as error:
            failed = RepoError(FAILED, f"cannot start {request['op']}: {error.strerror}")
            _answer(number, {"ok": False, "error": failed.as_wire()}, b"")
        else:
            self._running[child.descriptor] = child
            self._selector.register(child.descriptor, selectors.EVENT_READ)

    def _end(self, child: children.Child) -> None:
        self._selector.unregister(child.descriptor)
        del self._running[child.descriptor]
        _answer(child.request, *child.finish())


def _answer(request: int, answer: dict[str, Any], payload: bytes) -> None:
    head = json.dumps({"id": request, **answer, "size": len(payload)}).encode()
    rest = memoryview(head + b"\n" + payload)
    while rest:
        rest = rest[os.write(_STDOUT, rest) :]


def main() -> None:
    """Serve one repository until the daemon closes stdin."""
    children.limit_process()
    opening.isolate_library()
    serial.prepare()
    # Children share these pages; a collection there would copy them all.
    gc.freeze()
    with contextlib.suppress(BrokenPipeError):
        Serving().run()
