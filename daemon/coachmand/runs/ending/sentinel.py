"""A file that says how a run ended, for callers who wait on files.

What is to be written stands in the run's directory before the run's end is over with, and how far
it came: a name beside the target holds the whole text before it is on record as ``ready``, and
whether that name is still there tells whether it was moved. So it is written once, whatever dies.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import define, field

from coachman.wire import exit_of_result

from ... import durable
from ...evidence.rundir import RunDirectory, encode_json, put_json, read_json
from ...evidence.state import StateDirectory
from ...failpoints import reach
from ...ownership import FencedError
from ...permissions.programs import tree_around

if TYPE_CHECKING:
    from ..reading.view import View

log = structlog.get_logger("sentinel")
DONE, BLOCKED, TIMEOUT, KILLED, FAILED = "DONE", "BLOCKED", "TIMEOUT", "KILLED", "FAILED"
WORDS = {
    "succeeded": DONE,
    "empty": DONE,
    "blocked": BLOCKED,
    "timed_out": TIMEOUT,
    "cancelled": KILLED,
}
MAX_VALUE_CHARACTERS = 128
MAX_BYTES = 4096
AGAIN_S = 5.0
WAITING, READY, WRITTEN = "waiting", "ready", "written"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SentinelError(Exception):
    """No sentinel can be written there; the text completes "PATH ..."."""


def text_of(run: str, view: "View") -> str:
    """What the file holds: one word for the outcome, then names and values that are safe."""
    outcome = view.outcome or "lost"
    values = {
        "SESSION": view.session,
        "STOP_REASON": view.stop_reason,
        "REASON": outcome,
        "EXIT_CODE": exit_of_result(outcome, view.stop_reason),
        "RUN": run,
    }
    lines = [f"{name}={_safe(value)}" for name, value in values.items()]
    return "\n".join([WORDS.get(outcome, FAILED), *lines, ""])


def _safe(value: object) -> str:
    return _UNSAFE.sub("_", "" if value is None else str(value))[:MAX_VALUE_CHARACTERS]


# --- where ---


def check(path: str, trees: Iterable[str]) -> str:
    """``path`` without a symlink in it, where a sentinel may be written. Blocks.

    Its directory must be the user's alone and outside of ``trees``, which agents write, and nothing
    but the sentinel of an earlier run may lie there. Raises SentinelError.
    """
    parent, name = os.path.split(path)
    if not name or name in (".", "..") or len(os.fsencode(name)) > 128:
        raise SentinelError("names no file")
    try:
        real = os.path.realpath(parent, strict=True)
    except OSError as error:
        raise SentinelError(f"has no directory: {error.strerror}") from error
    if (tree := tree_around(real, trees)) is not None:
        raise SentinelError(f"lies in {tree}, which agents write")
    with _opened(real) as directory:
        _check_old(directory, name)
    return os.path.join(real, name)


def clear(path: str) -> None:
    """Take an earlier run's sentinel away, so that it is not read as this one's. Blocks.

    Raises SentinelError.
    """
    parent, name = os.path.split(path)
    with _opened(parent) as directory:
        _check_old(directory, name)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """The directory at a path of which no part is a symlink, and which is the user's own."""
    fd = _walk(path)
    try:
        yield fd
    finally:
        os.close(fd)


def _walk(path: str) -> int:
    fd = os.open("/", _DIRECTORY)
    try:
        for part in filter(None, path.split("/")):
            deeper = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = deeper
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise SentinelError(f"has a directory of another user (uid {found.st_uid})")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SentinelError("has a directory that others may write")
    except OSError as error:
        os.close(fd)
        raise SentinelError(f"cannot be reached: {error.strerror}") from error
    except SentinelError:
        os.close(fd)
        raise
    return fd


def _check_old(directory: int, name: str) -> None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SentinelError(f"is there, and no sentinel ({error.strerror})") from error
    try:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        found = os.read(fd, MAX_BYTES) if is_file else b""
    finally:
        os.close(fd)
    first = found.partition(b"\n")[0].decode("utf-8", "replace")
    if first not in (DONE, BLOCKED, TIMEOUT, KILLED, FAILED):
        raise SentinelError("is there, and no sentinel of an earlier run")


# --- writing ---


def owe(state: StateDirectory, run: str, path: str, text: str) -> None:
    """Put on record that a sentinel is to be written, once. Blocks. Raises DiskError."""
    file = _file(state, run)
    if not file.exists():
        durable.mark(state.owed / run)
        put_json(file, {"path": path, "text": text, "state": WAITING})
        durable.sync_directory(file.parent)
    reach("sentinel.owed")


def write(state: StateDirectory, run: str) -> None:
    """Write what is owed, from wherever it came to. Blocks. Raises OSError, SentinelError."""
    file = _file(state, run)
    try:
        owed = read_json(file)
    except FileNotFoundError:
        return  # its run's end will come to it again
    if owed["state"] != WRITTEN:
        _bring(file, owed, run)
    durable.remove(state.owed / run)


def _bring(file: Path, owed: Mapping[str, Any], run: str) -> None:
    parent, name = os.path.split(owed["path"])
    with _opened(parent) as directory:
        there = Path(f"/proc/self/fd/{directory}")
        beside, target = there / f".{name}.{run}", there / name
        if owed["state"] == WAITING:
            durable.replace(beside, owed["text"].encode())
            reach("sentinel.written")
            _record(file, owed, READY)
            reach("sentinel.ready")
        with suppress(FileNotFoundError):
            os.lstat(beside)
            durable.move(beside, target)
        reach("sentinel.moved")
    _record(file, owed, WRITTEN)


def _record(file: Path, owed: Mapping[str, Any], state: str) -> None:
    durable.replace(file, encode_json({**owed, "state": state}))


def _file(state: StateDirectory, run: str) -> Path:
    return RunDirectory(state.run(run)).path / "sentinel.json"


@define
class Sentinels:
    """Writes what is owed, also what an earlier daemon owed, and again where the disk refuses."""

    state: StateDirectory
    _due: set[str] = field(factory=set)
    _refused: dict[str, str] = field(factory=dict)
    _wake: trio.Event = field(factory=trio.Event)

    def add(self, run: str) -> None:
        """A run's sentinel is on record as owed."""
        self._due.add(run)
        self._wake.set()

    async def keep(self) -> None:
        """Write them as they come."""
        self._due |= set(await trio.to_thread.run_sync(os.listdir, self.state.owed))
        while True:
            try:
                for run in sorted(self._due):
                    await self._write(run)
            except FencedError:
                return  # a newer daemon owes it
            with trio.move_on_after(AGAIN_S if self._due else float("inf")):
                await self._wake.wait()
            self._wake = trio.Event()

    async def _write(self, run: str) -> None:
        try:
            await trio.to_thread.run_sync(write, self.state, run)
        except FencedError:
            raise
        except (OSError, ValueError, KeyError, SentinelError) as error:
            if self._refused.get(run) != str(error):
                log.error("sentinel_not_written", run=run, error=str(error), again_s=AGAIN_S)
            self._refused[run] = str(error)
        else:
            self._due.discard(run)
            self._refused.pop(run, None)
