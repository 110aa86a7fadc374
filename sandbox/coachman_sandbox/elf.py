"""What an ELF program needs to be loaded: loader and libraries, as they are looked for."""

import os
import struct
from collections.abc import Iterator

from attrs import field, frozen

# Nothing that is read is larger: headers, the dynamic section, names of libraries.
MOST_BYTES = 1 << 20
# Libraries that are looked at for one program; a loop of them ends by itself.
MOST_LIBRARIES = 400
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29


@frozen
class Linked:
    """A file's ``loader``, the names it needs, and the directories that it says they lie in."""

    loader: str | None = None
    needed: tuple[str, ...] = ()
    directories: tuple[str, ...] = field(default=())


def closure(path: str) -> tuple[str, ...]:
    """The loader and all libraries of a program that are found where it says, each once.

    What is not found there is the system's own. Blocks.
    """
    first = linked(path)
    found: dict[str, None] = {}
    beside = [os.path.dirname(each) for each in _spellings(first.loader)] if first.loader else []
    if first.loader and os.path.isfile(first.loader):
        found[first.loader] = None
    pending = [(path, first)]
    while pending and len(found) < MOST_LIBRARIES:
        where, needs = pending.pop()
        for name in needs.needed:
            library = _find(name, where, needs.directories, beside)
            if library is not None and library not in found:
                found[library] = None
                pending.append((library, linked(library)))
    return tuple(found)


def linked(path: str) -> Linked:
    """What one file says; nothing where it is no 64-bit ELF of this machine's byte order."""
    try:
        with open(path, "rb") as file:
            return _linked(file.fileno())
    except (OSError, ValueError, struct.error):
        return Linked()


def _find(name: str, where: str, directories: tuple[str, ...], beside: list[str]) -> str | None:
    for directory in directories:
        for own in _spellings(where):
            there = directory.replace("${ORIGIN}", "$ORIGIN")
            there = there.replace("$ORIGIN", os.path.dirname(own))
            if os.path.isfile(path := os.path.normpath(os.path.join(there, name))):
                return path
    paths = (os.path.join(directory, name) for directory in beside)
    return next((path for path in paths if os.path.isfile(path)), None)


def _spellings(path: str) -> tuple[str, ...]:
    """As it is named, and where links lead."""
    return tuple(dict.fromkeys((path, os.path.realpath(path))))


def _linked(fd: int) -> Linked:
    head = os.pread(fd, 64, 0)
    if head[:6] != b"\x7fELF\x02\x01":
        return Linked()
    at, size, count = (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
    table = os.pread(fd, min(size * count, MOST_BYTES), at)
    # kind, offset in the file, address, bytes in the file
    parts = [
        (*struct.unpack_from("<I", table, place), *struct.unpack_from("<8xQQ8xQ", table, place))
        for place in range(0, len(table) - size + 1, size)
    ]
    loader = next((_text(fd, part[1], part[3]) for part in parts if part[0] == _INTERPRETER), None)
    tags = [tag for part in parts if part[0] == _DYNAMIC for tag in _tags(fd, part[1], part[3])]
    strings = next((value for tag, value in tags if tag == _STRINGS), None)
    if strings is None:
        return Linked(loader)
    offset = next((part[1] + strings - part[2] for part in parts if _holds(part, strings)), None)
    if offset is None:
        return Linked(loader)

    def named(*kinds: int) -> list[str]:
        return [_text(fd, offset + value, 4096) for tag, value in tags if tag in kinds]

    directories = [each for text in named(_RPATH, _RUNPATH) for each in text.split(":") if each]
    return Linked(loader, tuple(named(_NEEDED)), tuple(directories))


def _holds(part: tuple[int, ...], address: int) -> bool:
    kind, _, start, size = part
    return kind == _LOAD and start <= address < start + size


def _tags(fd: int, at: int, size: int) -> Iterator[tuple[int, int]]:
    section = os.pread(fd, min(size, MOST_BYTES), at)
    for place in range(0, len(section) - 15, 16):
        tag, value = struct.unpack_from("<qQ", section, place)
        if tag == 0:
            return
        yield tag, value


def _text(fd: int, at: int, limit: int) -> str:
    return os.fsdecode(os.pread(fd, min(limit, 4096), at).partition(b"\0")[0])
