"""Let git pack what a commit reaches: the one use of its own program, on nothing but objects.

It runs in a git directory of ours, so that it reads neither the repository's configuration nor
its hooks or refs, and inherits the confinement of the operation's process.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from coachmand.repos import landlock
from coachmand.repos.beneath import raw
from coachmand.repos.errors import FAILED, RepoError

# Deltas that are there are used again, and no others are looked for: that took most of the time.
_OPTIONS = ("-q", "--revs", "--window=0", "--threads=1", "--delta-base-offset")
_PACK = re.compile(r"[0-9a-f]{40}")
_SHOWN_CHARACTERS = 300

# Where a program and its libraries lie, below which it is executed and read.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_STORES = ("/nix/store", "/gnu/store")
_LIBRARY_CACHE = "/etc/ld.so.cache"


def program_paths(git: str) -> Iterator[str]:
    """What has to be readable for git to run: existing canonical paths, each once."""
    path = os.path.realpath(git)
    own = () if path.startswith("/usr/") else (os.path.dirname(os.path.dirname(path)), path)
    named = (*_PROGRAMS, *_STORES, _LIBRARY_CACHE, *own)
    found = dict.fromkeys(os.path.realpath(each) for each in named)
    yield from (each for each in found if each != "/" and os.path.exists(each))


def grants(git: str, sources: Sequence[str], *written: str) -> list[tuple[str, int]]:
    """All that git needs: objects to read, a place to write, and itself."""
    return [
        *((path, landlock.READ) for path in sources),
        *((path, landlock.READ | landlock.EXECUTE) for path in program_paths(git)),
        # It opens the one at its start, whatever it is to do; the other names its files.
        (os.devnull, landlock.READ_FILE | landlock.WRITE_FILE),
        ("/dev/urandom", landlock.READ_FILE),
        *((path, landlock.WRITE) for path in written),
    ]


def git_directory(path: Path, head: str, shallow: bytes) -> Path:
    """Make a git directory without any object, configuration or ref; ``path``."""
    for part in ("refs", "objects"):
        (path / part).mkdir(parents=True)
    (path / "HEAD").write_text(f"{head}\n")
    if shallow:
        (path / "shallow").write_bytes(shallow)
    return path


def pack(
    git: str, git_dir: Path, into: Path, sources: Sequence[str], tip: str, known: str | None
) -> str:
    """Pack what ``tip`` reaches and ``known`` does not, below ``into``/pack; the pack's name.

    ``sources`` are the object directories that it is read from. Raises RepoError.
    """
    # It is in the operation's process group and killed with it. Code of ours to run between fork
    # and exec would cost a copy of this process.
    wanted = f"{tip}\n" + (f"^{known}\n" if known else "")
    try:
        done = subprocess.run(
            [git, "pack-objects", *_OPTIONS, str(into / "pack" / "pack")],
            input=wanted.encode(),
            capture_output=True,
            check=False,
            cwd=git_dir,
            env=_environment(git_dir, into, sources),
        )
    except OSError as error:
        raise _failed(f"{git} does not start: {error.strerror}") from error
    name = done.stdout.decode("ascii", "replace").strip()
    if done.returncode or not _PACK.fullmatch(name):
        said = done.stderr.decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:]
        raise _failed(said or f"{git} ended with status {done.returncode}")
    return f"pack-{name}"


def _environment(git_dir: Path, into: Path, sources: Sequence[str]) -> dict[bytes, bytes]:
    borrowed = b":".join(_quoted(raw(each)) for each in sources)
    return {
        b"PATH": b"/usr/bin:/bin",
        b"LANG": b"C.UTF-8",
        b"HOME": b"/nonexistent",
        b"GIT_CONFIG_NOSYSTEM": b"1",
        b"GIT_CONFIG_GLOBAL": b"/nonexistent/gitconfig",
        b"GIT_ATTR_NOSYSTEM": b"1",
        b"GIT_NO_REPLACE_OBJECTS": b"1",
        b"GIT_NO_LAZY_FETCH": b"1",
        b"GIT_TERMINAL_PROMPT": b"0",
        b"GIT_DIR": raw(str(git_dir)),
        b"GIT_OBJECT_DIRECTORY": raw(str(into)),
        b"GIT_ALTERNATE_OBJECT_DIRECTORIES": borrowed,
    }


def _quoted(path: bytes) -> bytes:
    """As git reads one of several paths that colons part, whatever it holds."""
    escaped = (b"\\%03o" % byte if byte in b'"\\:' or byte < 32 else bytes([byte]) for byte in path)
    return b'"' + b"".join(escaped) + b'"'


def _failed(why: str) -> RepoError:
    return RepoError(
        FAILED,
        f"cannot pack what the base reaches: {why}",
        "look whether `git fsck` finds the repository whole",
    )
