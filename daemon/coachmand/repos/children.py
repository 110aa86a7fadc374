"""One operation in one forked, confined child."""

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from typing import Any, NoReturn

from attrs import define, field

from coachmand.repos.deletion import delete_tree
from coachmand.repos.errors import CRASHED, FAILED, TIMED_OUT, RepoError
from coachmand.repos.landlock import confine
from coachmand.repos.lineage import die_with, forbid_tracing
from coachmand.repos.operations import OPERATIONS, Operation

_OPEN_FILES = 4096
_UMASK = 0o022
_SCRATCH_PREFIX = "coachman-git-"


@define
class Child:
    """A running operation; ``output`` is what it wrote to the descriptor so far."""

    request: int
    operation: str
    pid: int
    descriptor: int
    deadline_s: float
    scratch: str | None
    output: bytearray = field(factory=bytearray)
    killed_for: str | None = None

    def read(self) -> bool:
        """Take what is there; False when the child has written everything."""
        chunk = os.read(self.descriptor, 1 << 20)
        self.output += chunk
        return bool(chunk)

    def kill(self, why: str) -> None:
        """End it and what it forked at once. It is not reaped yet, so the number is its own."""
        self.killed_for = self.killed_for or why
        os.killpg(self.pid, signal.SIGKILL)

    def finish(self) -> tuple[dict[str, Any], bytes]:
        """Reap it and return the answer and the bytes that come with it."""
        os.close(self.descriptor)
        _, status = os.waitpid(self.pid, 0)
        if self.scratch:
            # What is left of it can only waste space; the answer counts.
            with contextlib.suppress(OSError):
                delete_tree(self.scratch)
        if self.killed_for:
            return _failure(RepoError(TIMED_OUT, f"{self._cannot}: {self.killed_for}")), b""
        head, newline, payload = bytes(self.output).partition(b"\n")
        if status or not newline:
            return _failure(RepoError(CRASHED, f"{self._cannot}: {_cause(status)}")), b""
        answer: dict[str, Any] = json.loads(head)
        return answer, payload

    @property
    def _cannot(self) -> str:
        return f"cannot {self.operation.replace('_', ' ')}"


def _cause(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"its process died of {signal.Signals(-code).name}"
    return f"its process ended with status {code} and no answer"


def start(request: int, name: str, params: dict[str, Any], limit_s: float | None) -> Child:
    """Fork a child for one operation. Raises RepoError."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise RepoError(FAILED, f"cannot run {name}: there is no such operation")
    scratch = tempfile.mkdtemp(prefix=_SCRATCH_PREFIX) if operation.scratch else None
    if scratch:
        params = {**params, "scratch": scratch}
    reading, writing = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(parent, operation, name, params, writing)
    os.close(writing)
    # Here and in the child: whichever comes first, it can be killed as a group from now on.
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)
    deadline_s = time.monotonic() + (limit_s or operation.limit_s)
    return Child(request, name, pid, reading, deadline_s, scratch)


def _be_child(
    parent: int, operation: Operation, name: str, params: dict[str, Any], writing: int
) -> NoReturn:
    status = 1
    try:
        _shed_parent(parent)
        answer, payload = _outcome(operation, name, params)
        with open(writing, "wb") as pipe:
            pipe.write(json.dumps(answer).encode() + b"\n" + payload)
        status = 0
    finally:
        os._exit(status)


def _shed_parent(parent: int) -> None:
    os.setpgid(0, 0)
    die_with(parent)
    nowhere = os.open(os.devnull, os.O_RDWR)
    # Nothing that a library prints may end up in the worker's own protocol.
    os.dup2(nowhere, sys.stdin.fileno())
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _outcome(
    operation: Operation, name: str, params: dict[str, Any]
) -> tuple[dict[str, Any], bytes]:
    try:
        confine(operation.grants(params))
        result = operation.run(**params)
    except RepoError as error:
        return _failure(error), b""
    except Exception as error:
        why = f"cannot {name.replace('_', ' ')}: {type(error).__name__}: {error}"
        return _failure(RepoError(FAILED, why)), b""
    payload = result if isinstance(result, bytes) else b""
    return {"ok": True, "result": None if payload or result == b"" else result}, payload


def _failure(error: RepoError) -> dict[str, Any]:
    return {"ok": False, "error": error.as_wire()}


def limit_process() -> None:
    """What every child inherits: no core dumps, no tracing, git's usual modes for files."""
    # The daemon's own mask would close objects to others in a repository that a group shares.
    os.umask(_UMASK)
    forbid_tracing()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
