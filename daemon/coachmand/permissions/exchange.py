"""Questions and answers as files: ``BASE.req``, and ``BASE.req.response`` by whoever decides."""

import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from .. import durable
from .programs import OPENING, UntrustedError, check_owned, check_way

MAX_ANSWER_BYTES = 64 * 1024
MAX_SHOWN_BYTES = 1024 * 1024
# How a question and an error of ours begin, whichever version wrote them.
_OURS = re.compile(rb'\s*\{\s*(?:"format":\s*\d+,\s*)?"run":')
_BEGINNING_BYTES = 256


class UnreadableError(Exception):
    """What lies there is no answer; the text says why."""


@define(eq=False)
class Exchange:
    """The files of one BASE. ``fd`` is its directory; ``turn`` is had by one question at a time."""

    base: str
    fd: int
    turn: trio.Lock = field(factory=trio.Lock)

    @property
    def _directory(self) -> Path:
        return Path(f"/proc/self/fd/{self.fd}")

    @property
    def _request(self) -> Path:
        return self._directory / f"{os.path.basename(self.base)}.req"

    @property
    def response_name(self) -> str:
        """What an answer is called in the directory."""
        return f"{self._request.name}.response"

    @property
    def _taken(self) -> Path:
        return self._directory / f".{self.response_name}.taken"

    @property
    def _error(self) -> Path:
        return self._directory / f"{self._request.name}.error"

    def check(self) -> None:
        """Raise UntrustedError where what lies there is none of ours. Blocks.

        It would be overwritten by a question, or removed with it.
        """
        for path in (self._request, self._error):
            if not _is_ours(path):
                shown = os.path.join(os.path.dirname(self.base), path.name)
                raise UntrustedError(
                    f"cannot be used: {shown} is there already, and is no file of coachman's",
                    f"name another BASE, or move {shown} away",
                )

    def show(self, document: Mapping[str, Any]) -> None:
        """Put a question there, whole. Blocks. Raises DiskError, and UntrustedError as `check`."""
        self.check()
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        durable.put(self._request, text.encode("utf-8", "replace"))

    def shown(self) -> Mapping[str, Any] | None:
        """The question that lies there, None where there is none of ours. Blocks."""
        with suppress(OSError, UnreadableError, ValueError):
            found = json.loads(_read(self._request, MAX_SHOWN_BYTES))
            return found if isinstance(found, dict) else None
        return None

    def is_answered(self) -> bool:
        """Whether an answer lies there. Blocks."""
        return _is_there(self._taken) or _is_there(self._directory / self.response_name)

    def take(self) -> bytes | None:
        """The answer that lies there; it stays ours until it is `done` with. Blocks.

        Raises UnreadableError for what is no file of the user's.
        """
        if not _is_there(self._taken):
            try:
                os.rename(self._directory / self.response_name, self._taken)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise UnreadableError(f"cannot be taken: {error.strerror}") from error
        try:
            return _read(self._taken, MAX_ANSWER_BYTES)
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror}") from error

    def done(self) -> None:
        """The answer that was taken is of no more use; a directory is put aside. Blocks."""
        if self._taken.is_dir() and not self._taken.is_symlink():
            aside = f"{self.response_name}.refused-{time.time_ns()}"
            with suppress(OSError):
                os.rename(self._taken, self._directory / aside)
        _remove(self._taken)

    def complain(self, document: Mapping[str, Any]) -> None:
        """Say what is wrong with an answer; the question stays. Blocks. Raises DiskError."""
        durable.put(self._error, (json.dumps(document, ensure_ascii=False) + "\n").encode())
        self.done()

    def clear(self) -> None:
        """Take the question away, with whatever there is for it. Blocks."""
        self.done()
        for path in filter(_is_ours, (self._request, self._error)):
            _remove(path)


@define
class Exchanges:
    """Every BASE that is in use: questions of several runs take turns there."""

    _known: dict[tuple[int, int, str], Exchange] = field(factory=dict)

    def open(self, base: str, trees: Iterable[str]) -> Exchange:
        """The exchange at ``base``, whose directory must be the user's alone. Blocks.

        Raises UntrustedError.
        """
        directory, name = os.path.split(base)
        try:
            real = os.path.realpath(directory, strict=True)
            fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise UntrustedError(
                f"has no directory: {error.strerror}", f"make it: mkdir -m 700 {directory}"
            ) from error
        try:
            found = os.fstat(fd)
            check_owned(found)
            check_way(directory, trees)
            key = (found.st_dev, found.st_ino, name)
            known = self._known.setdefault(key, Exchange(base, fd))
        except BaseException:
            os.close(fd)
            raise
        if known.fd != fd:
            os.close(fd)
        return known

    def close(self) -> None:
        """Let go of all."""
        for exchange in self._known.values():
            os.close(exchange.fd)
        self._known.clear()


def _read(path: Path, most: int) -> bytes:
    fd = os.open(path, OPENING)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), 0):
            raise UnreadableError("is no file of yours")
        data = os.read(fd, most + 1)
    finally:
        os.close(fd)
    if len(data) > most:
        raise UnreadableError(f"has more than {most >> 10} KiB")
    return data


def _is_ours(path: Path) -> bool:
    """Whether there is nothing, or a file that was written here."""
    try:
        fd = os.open(path, OPENING)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        return is_file and _OURS.match(os.read(fd, _BEGINNING_BYTES)) is not None
    finally:
        os.close(fd)


def _is_there(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _remove(path: Path) -> None:
    try:
        durable.remove(path)
    except durable.DiskError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            raise
