"""What is read of ELF files: loader and libraries, wherever a file says they lie."""

import struct
from pathlib import Path

import pytest

from coachman_sandbox import elf

HEADERS = 64 + 3 * 56


def made(path: Path, *needed: str, runpath: str = "", loader: str = "") -> Path:
    """A file with these in its dynamic section, loaded at an address of its own."""
    strings = b"\0"
    tags = []
    for tag, text in [*((1, name) for name in needed), *([(29, runpath)] if runpath else [])]:
        tags.append((tag, len(strings)))
        strings += text.encode() + b"\0"
    at = HEADERS + len(loader) + 1
    dynamic = b"".join(struct.pack("<qQ", *each) for each in [*tags, (5, 0x1000 + at), (0, 0)])
    end = at + len(strings) + len(dynamic)
    parts = [
        (1, 0, 0x1000, end),
        (2, at + len(strings), 0x1000 + at + len(strings), len(dynamic)),
        (3, HEADERS, 0x1000 + HEADERS, len(loader) + 1) if loader else (0, 0, 0, 0),
    ]
    table = b"".join(struct.pack("<IIQQQQQQ", p[0], 0, p[1], p[2], 0, p[3], p[3], 0) for p in parts)
    head = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack(
        "<QQIHHHHHH", 64, 0, 0, 64, 56, 3, 0, 0, 0
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + table + loader.encode() + b"\0" + strings + dynamic)
    return path


def test_libraries_are_followed_from_one_to_the_next(tmp_path: Path) -> None:
    """By the directories that each file names, its own place among them; a circle ends."""
    store = tmp_path / "store"
    made(store / "b/lib/libb.so", "liba.so", "libc.so.6", runpath=f"{store}/a/lib")
    made(store / "a/lib/liba.so", "libb.so", runpath="/nowhere:${ORIGIN}/../../b/lib")
    made(store / "ld/ld.so")
    made(store / "ld/libplain.so")
    tool = made(
        store / "t/bin/tool",
        "liba.so",
        "libplain.so",
        "libnone.so",
        runpath="$ORIGIN/../../a/lib",
        loader=f"{store}/ld/ld.so",
    )
    names = ("ld/ld.so", "a/lib/liba.so", "b/lib/libb.so", "ld/libplain.so")

    assert set(elf.closure(str(tool))) == {f"{store}/{name}" for name in names}


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01"])
def test_what_is_no_such_file_needs_nothing(tmp_path: Path, content: bytes) -> None:
    """Scripts, empty and torn files, and those of another machine say nothing."""
    (tmp_path / "x").write_bytes(content + b"\xff" * (len(content) > 9) * 100)

    assert elf.linked(str(tmp_path / "x")) == elf.Linked()
    assert elf.closure(str(tmp_path / "missing")) == ()


def test_the_system_is_read(tmp_path: Path) -> None:
    """A program that is there for sure has a loader, and a library that is looked for."""
    found = elf.linked("/bin/sh")

    assert found.loader is not None
    assert any(name.startswith("libc.") for name in found.needed)
