"""Programs of the user that the daemon runs itself: whose they are, and opened only once.

What runs is what was opened: whatever becomes of the path later, and whoever did it, the
descriptor leads to the file that was looked at.
"""

import hashlib
import os
import shlex
import stat
from collections.abc import Iterable
from contextlib import suppress

from attrs import define, field, frozen

MAX_BYTES = 64 * 1024 * 1024
MAX_LINKS = 40
CHECK_PATH = "check the path: a program has to be there that you may read"
NO_INTERPRETER = "begin it with a line that names one, as #!/bin/sh"
_CHUNK_BYTES = 1 << 20
# Any program that is no text has a zero byte in its header.
_HEAD_BYTES = 256
# A symlink is not followed at the last step, and a FIFO keeps nobody waiting.
OPENING = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Who may have made what is trusted: the user, and whoever installs programs for everybody.
_ROOT_UID = 0


class UntrustedError(Exception):
    """A program or a directory cannot be trusted; the text completes "PATH ...".

    ``hint`` says what to do where the usual one does not fit.
    """

    def __init__(self, text: str, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint


@frozen
class Program:
    """An open program, known by its content; ``path`` is only what it is called.

    While ``mark`` is the same nothing of it was changed; where it is not, the content is read.
    """

    path: str
    fd: int
    sha256: str
    mark: tuple[int, ...]

    def check(self) -> None:
        """Raise UntrustedError where it was changed in place since it was opened. Blocks."""
        found = os.fstat(self.fd)
        if _mark(found) == self.mark:
            return
        check_owned(found)
        if found.st_size > MAX_BYTES or _digest(self.fd) != self.sha256:
            raise UntrustedError("was changed since it was opened")

    def holds(self) -> bool:
        """Whether it is what was opened still. Blocks."""
        with suppress(UntrustedError):
            self.check()
            return True
        return False


@define
class Programs:
    """What was opened so far, by path and content."""

    _known: dict[tuple[str, str], Program] = field(factory=dict)

    def pin(self, path: str, trees: Iterable[str], sha256: str | None = None) -> Program:
        """The program at ``path`` as it is now, or as it was when it was opened before. Blocks.

        ``trees`` are those that agents write or are given: it must lie outside of them.
        ``sha256`` is what it is to be. Raises UntrustedError.
        """
        if (path, sha256) in self._known:
            return self._known[path, str(sha256)]
        check_way(path, trees)
        program = _open(path)
        known = self._known.get((path, program.sha256))
        if sha256 not in (None, program.sha256):
            os.close(program.fd)
            raise UntrustedError("is not the program any more that the run was started with")
        if known is not None and known.holds():
            os.close(program.fd)
            return known
        self._known[path, program.sha256] = program
        return program

    def close(self) -> None:
        """Let go of all."""
        for program in self._known.values():
            os.close(program.fd)
        self._known.clear()


def check_way(path: str, trees: Iterable[str]) -> None:
    """Raise UntrustedError where an absolute path leads through such a tree, or into one. Blocks.

    A link that an agent can change leads to wherever it likes, though not just now.
    """
    trees, steps = tuple(trees), path.split("/")[::-1]
    at, links = "/", 0
    while steps:
        step = steps.pop()
        if step in ("", "."):
            continue
        at = os.path.normpath(os.path.join(at, step))
        if (tree := tree_around(at, trees)) is not None:
            raise UntrustedError(f"lies in {tree}, or leads through it, which agents reach")
        if os.path.islink(at):
            links += 1
            if links > MAX_LINKS:
                raise UntrustedError("leads over too many links")
            target = os.readlink(at)
            steps += target.split("/")[::-1]
            at = "/" if target.startswith("/") else os.path.dirname(at)


def tree_around(path: str, trees: Iterable[str]) -> str | None:
    """The first of ``trees`` in which a canonical path lies, canonical as well."""
    for tree in map(os.path.realpath, trees):
        if (path + "/").startswith(tree.rstrip("/") + "/"):
            return tree
    return None


def check_owned(found: os.stat_result) -> None:
    """Raise UntrustedError for what others than the user may change."""
    if found.st_uid not in (os.geteuid(), _ROOT_UID):
        raise UntrustedError(f"belongs to another user (uid {found.st_uid})")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UntrustedError("may be written by others than its owner")


def _open(path: str) -> Program:
    try:
        fd = os.open(os.path.realpath(path), OPENING)
    except OSError as error:
        raise UntrustedError(f"cannot be opened: {error.strerror}", CHECK_PATH) from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise UntrustedError("is no executable file", CHECK_PATH)
        if not found.st_mode & stat.S_IXUSR:
            raise UntrustedError("is no executable file", f"chmod +x {shlex.quote(path)}")
        check_owned(found)
        if found.st_size > MAX_BYTES:
            raise UntrustedError(f"has more than {MAX_BYTES >> 20} MiB")
        if _names_no_interpreter(fd):
            raise UntrustedError("is a script that names no interpreter", NO_INTERPRETER)
        return Program(path, fd, _digest(fd), _mark(found))
    except BaseException:
        os.close(fd)
        raise


def _names_no_interpreter(fd: int) -> bool:
    """Whether it is text that the kernel refuses to execute. A shell would guess; nobody else."""
    head = os.pread(fd, _HEAD_BYTES, 0)
    return not head.startswith(b"#!") and b"\0" not in head


def _mark(found: os.stat_result) -> tuple[int, ...]:
    # Whoever may write a file may set its times, but for the one of the last change.
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _digest(fd: int) -> str:
    digest, at = hashlib.sha256(), 0
    while data := os.pread(fd, _CHUNK_BYTES, at):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()
