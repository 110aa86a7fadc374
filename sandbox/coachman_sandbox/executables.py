"""From an agent's name to the file that runs, and what must be bound for it to run inside."""

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping

from attrs import frozen

from . import elf
from .host import STORES
from .policy import AgentAccess, contains

HEAD_BYTES = 512
PACKAGE_JSON_LIMIT_BYTES = 1024 * 1024
# One script may name another as its interpreter; the kernel's own limit is 5.
INTERPRETER_DEPTH = 4

# What stands for a program of one of several versions, and asks which when it is run.
_SHIM = re.compile(rb"\b(pyenv|rbenv|nodenv|goenv|asdf)\b.* exec ")
_PYTHON = re.compile(r"(python|pypy)3(\.\d+)?t?")
_ELF = b"\x7fELF"
_SYSTEM = ("/usr", *STORES)

# An agent's binary may have hundreds of megabytes; it is hashed once per change.
# By path: what the file was when it was read, and its digest. One is read at a time, once.
_hashes: dict[str, tuple[tuple[int, ...], str]] = {}
_hashing = threading.Lock()


class ExecutableError(RuntimeError):
    """There is no usable executable; the text says what was looked at."""


@frozen
class Executable:
    """A program inside the sandbox.

    ``path`` is canonical and is argv[0]; ``binds`` are the host paths it needs,
    ``path_dirs`` what PATH inside must begin with so that its interpreter is found.
    ``found`` is the entry of PATH that led to it, ``version`` its npm package's.
    """

    path: str
    found: str
    binds: tuple[str, ...]
    path_dirs: tuple[str, ...]
    sha256: str
    version: str | None


@frozen
class _Closure:
    binds: tuple[str, ...] = ()
    path_dirs: tuple[str, ...] = ()

    def __add__(self, other: "_Closure") -> "_Closure":
        return _Closure(self.binds + other.binds, self.path_dirs + other.path_dirs)


def resolve(
    names: tuple[str, ...],
    env: Mapping[str, str],
    *,
    native: tuple[str, ...] = (),
    forbidden: tuple[str, ...] = (),
) -> Executable:
    """The first of ``names`` on an absolute entry of PATH that lies outside ``forbidden``.

    ``native`` are paths relative to the npm package of the program that hold the
    real binary behind a script. ``forbidden`` are canonical roots that an agent
    may write: repository, worktrees, state. Blocking. Raises ExecutableError.
    """
    refused: list[str] = []
    for found in _candidates(names, env.get("PATH", "")):
        try:
            return _examine(found, env, native, forbidden)
        except ExecutableError as error:
            refused.append(str(error))
    why = "; ".join(refused) or "no absolute directory of PATH has it"
    raise ExecutableError(f"cannot find {' or '.join(names)}: {why}")


def _examine(
    found: str, env: Mapping[str, str], native: tuple[str, ...], forbidden: tuple[str, ...]
) -> Executable:
    path = os.path.realpath(found)
    package = _package_root(path)
    path = _native(package, native) or path
    closure = _closure(path, package, env.get("PATH", ""), INTERPRETER_DEPTH)
    _check((found, path, *closure.binds), forbidden, env.get("HOME", ""))
    return Executable(
        path=path,
        found=found,
        binds=_needed(closure.binds),
        path_dirs=_needed(closure.path_dirs),
        sha256=fingerprint(path),
        version=_version(package),
    )


def python_runtime() -> Executable:
    """The interpreter that runs us, without the virtual environment: for guest programs."""
    path = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    prefix = os.path.realpath(sys.base_prefix)
    binds = (prefix,) if contains(prefix, path) else (prefix, path)
    version = ".".join(map(str, sys.version_info[:3]))
    return Executable(path, path, _needed(binds), (), fingerprint(path), version)


def agent_access(
    *programs: Executable | None,
    env: Mapping[str, str],
    credentials: Mapping[str, str],
    python: Executable | None = None,
) -> AgentAccess:
    """What an agent made of these programs needs; ``python`` is the guest programs' runtime."""
    needed = [program for program in (*programs, python) if program]
    return AgentAccess(
        binds=tuple(bind for program in needed for bind in program.binds),
        env=env,
        credentials=credentials,
        python=python.path if python else None,
        path=tuple(entry for program in needed for entry in program.path_dirs),
    )


def _candidates(names: tuple[str, ...], search: str) -> Iterator[str]:
    for name in names:
        for directory in dict.fromkeys(search.split(":")):
            path = os.path.join(directory, name)
            if directory.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK):
                yield os.path.normpath(path)


def _check(paths: tuple[str, ...], forbidden: tuple[str, ...], home: str) -> None:
    for path in paths:
        for root in forbidden:
            if contains(root, path):
                raise ExecutableError(f"{path} lies in {root}, which agents may write")
        if path == "/" or (home.startswith("/") and contains(path, os.path.realpath(home))):
            raise ExecutableError(f"{paths[0]} would need all of {path}")


def _needed(binds: tuple[str, ...]) -> tuple[str, ...]:
    """What is not there anyway, each once, in its order."""
    outside = (path for path in binds if not any(contains(root, _seen(path)) for root in _SYSTEM))
    return tuple(dict.fromkeys(outside))


def _seen(path: str) -> str:
    """By which directories it is there: /bin/sh is in /usr where /bin is a link."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _package_root(path: str) -> str | None:
    """The npm package that a file belongs to: only ever a directory below a node_modules."""
    directory = os.path.dirname(path)
    while "/node_modules/" in directory:
        if os.path.isfile(os.path.join(directory, "package.json")):
            return directory
        directory = os.path.dirname(directory)
    return None


def _native(package: str | None, native: tuple[str, ...]) -> str | None:
    for relative in native if package else ():
        path = os.path.realpath(os.path.join(package or "", relative))
        if _head(path).startswith(_ELF) and os.access(path, os.X_OK):
            return path
    return None


def _closure(path: str, package: str | None, search: str, depth: int) -> _Closure:
    head = _head(path)
    if not head.startswith(b"#!"):
        # A package's own directory holds what its binary brings along.
        own = package if package and contains(package, path) else _package_root(path)
        return _Closure((own or path, *_libraries(path)))
    if os.path.basename(os.path.dirname(path)) == "shims" and _SHIM.search(head):
        raise ExecutableError(f"{path} is a shim, which finds the program where nothing is bound")
    own_dir = f"{path.partition('/node_modules/')[0]}/node_modules" if package else path
    interpreter = _interpreter(head, search)
    if interpreter is None or depth == 0:
        raise ExecutableError(f"the interpreter of {path} is not to be found")
    return _Closure((own_dir,)) + _interpreter_closure(interpreter, search, depth - 1)


def _interpreter_closure(interpreter: str, search: str, depth: int) -> _Closure:
    """The literal path is what the kernel opens, so it is bound besides the real one."""
    directory = os.path.dirname(interpreter)
    environment = os.path.dirname(directory)
    real = os.path.realpath(interpreter)
    closure = _closure(real, None, search, depth) + _Closure((), (directory,))
    if os.path.isfile(os.path.join(environment, "pyvenv.cfg")):
        closure += _Closure((environment, _base_prefix(real)))
    elif interpreter != real:
        closure += _Closure((interpreter,))
    return closure + _Closure(_standard_library(real))


def _libraries(path: str) -> tuple[str, ...]:
    """The loader and libraries of a binary, where these are not the system's."""
    found = [each for each in elf.closure(path) if not _is_system(each)]
    # What links lead to counts as well: it is not to be what agents write.
    return tuple(dict.fromkeys(name for each in found for name in (each, os.path.realpath(each))))


def _standard_library(python: str) -> tuple[str, ...]:
    """The installation of an interpreter that has its library beside it, as pyenv's and uv's do."""
    prefix = _base_prefix(python)
    name = os.path.basename(python)
    there = _PYTHON.fullmatch(name) and os.path.isfile(f"{prefix}/lib/{name}/os.py")
    return (prefix,) if there else ()


def _is_system(path: str) -> bool:
    real = os.path.realpath(path)
    return any(contains(root, real) for root in _SYSTEM)


def _base_prefix(python: str) -> str:
    return os.path.dirname(os.path.dirname(python))


def _interpreter(head: bytes, search: str) -> str | None:
    words = head[2:].split(b"\n", 1)[0].decode(errors="surrogateescape").split()
    if not words:
        return None
    if os.path.basename(words[0]) != "env":
        return os.path.normpath(words[0]) if os.path.isfile(words[0]) else None
    name = next((word for word in words[1:] if not re.match(r"-|\w+=", word)), "")
    return next(_candidates((name,), search), None) if name else None


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def _version(package: str | None) -> str | None:
    if package is None:
        return None
    try:
        with open(os.path.join(package, "package.json"), "rb") as file:
            document = json.loads(file.read(PACKAGE_JSON_LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else None


def fingerprint(path: str) -> str:
    """The SHA-256 of a regular file in hex, read once for as long as the file is the same.

    The same is what lies on the same place of the disk with the same size and times; nobody can
    set the time of the last change. Who asks while it is being read waits for that.
    """
    with open(path, "rb") as file:
        facts = _facts(file.fileno())
        if (digest := _known(path, facts)) is not None:
            return digest
        with _hashing:
            if (digest := _known(path, facts)) is None:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                # What was written to meanwhile is read again the next time.
                if _facts(file.fileno()) == facts:
                    _hashes[path] = facts, digest
            return digest


def _known(path: str, facts: tuple[int, ...]) -> str | None:
    found, digest = _hashes.get(path, (None, None))
    return digest if found == facts else None


def _facts(descriptor: int) -> tuple[int, ...]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
