"""The journal of one run: appended, torn, read by cursors slow and fast."""

import threading
from pathlib import Path

import pytest
import trio

from coachmand import durable
from coachmand.durable import AppendFile
from coachmand.journal.cursors import Cursor, FileCursor
from coachmand.journal.lines import Entry, decode
from coachmand.journal.log import Journal, last_seq_of

NOTICE = "agent.notice"
# More than a journal keeps in memory.
LINES, TEXT = 6000, "x" * 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.ndjson"


async def write(journal: Journal, count: int, text: str = "") -> None:
    """So many lines, several to a batch."""
    for start in range(0, count, 7):
        size = min(7, count - start)
        await journal.append([Entry(NOTICE, {"text": text}) for _ in range(size)], {})


async def appended(path: Path, members: list[dict[str, str]]) -> None:
    """One line for each of the members, by a journal of its own."""
    journal = Journal(path, "r")
    await journal.append([Entry(NOTICE, each) for each in members], {})
    journal.close()


async def read_all(cursor: Cursor | FileCursor) -> list[int]:
    """Every seq from the cursor on, to the journal's end."""
    found: list[int] = []
    while lines := await cursor.next():
        found += [line.seq for line in lines]
    return found


async def test_every_reader_gets_every_line_once_whatever_its_pace(path: Path) -> None:
    """Readers from the start, from the middle, late and slow: all see all, in order."""
    journal, total = Journal(path, "r"), LINES
    found: dict[str, list[int]] = {}

    async def slow(cursor: Cursor) -> None:
        found["slow"] = []
        while lines := await cursor.next():
            found["slow"] += [line.seq for line in lines]
            with trio.move_on_after(0.001):
                await trio.sleep_forever()

    async def read(name: str, cursor: Cursor) -> None:
        found[name] = await read_all(cursor)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, "fast", Cursor(journal, 0))
        nursery.start_soon(slow, Cursor(journal, 0))
        await write(journal, total // 2, TEXT)
        nursery.start_soon(read, "late", Cursor(journal, 0))
        nursery.start_soon(read, "middle", Cursor(journal, total // 4))
        await write(journal, total // 2, TEXT)
        journal.close()

    assert found["fast"] == found["late"] == found["slow"] == list(range(1, total + 1))
    assert found["middle"] == list(range(total // 4 + 1, total + 1))
    assert await read_all(FileCursor(path, 5)) == list(range(6, total + 1))


async def test_a_reader_waits_for_what_does_not_exist_yet(
    path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A cursor at the head, or beyond it, sleeps until there is a line behind it."""
    journal = Journal(path, "r")
    await write(journal, 3)
    seen: list[int] = []

    async def read(cursor: Cursor) -> None:
        seen.extend(line.seq for line in await cursor.next())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, Cursor(journal, 3))
        nursery.start_soon(read, Cursor(journal, 4))
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        await write(journal, 2)

    assert sorted(seen) == [4, 5, 5]
    journal.close()


async def test_nobody_sees_a_line_before_it_is_on_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decisive line that is written but not yet synced is shown to no reader, nor by the file."""
    before = Journal(path, "r")
    await write(before, 8)
    before.close()
    # Its tail is empty, as after a crash: readers take the file.
    journal = Journal(path, "r")
    behind, written, go_on = Cursor(journal, 0), threading.Event(), threading.Event()
    fdatasync = durable._fdatasync

    def slow_sync(fd: int) -> None:
        written.set()
        go_on.wait(10)
        fdatasync(fd)

    monkeypatch.setattr(durable, "_fdatasync", slow_sync)
    seen = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.append, [Entry("run.ended")], {})
        await trio.to_thread.run_sync(written.wait, 10)
        while lines := await behind.take():
            seen = lines[-1].seq
        assert seen == journal.head == 8
        go_on.set()

    assert [line.seq for line in await behind.take()] == [9]
    journal.close()


def test_a_tail_torn_at_any_byte_is_cut_to_the_last_whole_line(path: Path) -> None:
    """Wherever the last record breaks off, the lines before it stay and the next one follows."""
    trio.run(appended, path, [{"text": "é" * 20}] * 3)
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        torn = Journal(path, "r")
        torn.close()
        assert (torn.head, torn.cut_bytes, torn.size) == (2, end - start, start)
        trio.run(appended, path, [{}])
        assert [decode(line)["seq"] for line in path.read_bytes().splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, 70_000, 200_000])
def test_a_first_line_that_is_torn_leaves_nothing(path: Path, size: int) -> None:
    """A journal without a single whole line starts anew."""
    path.write_bytes(b"x" * size)
    journal = Journal(path, "r")

    assert (journal.head, journal.cut_bytes, journal.size) == (0, size, 0)
    journal.close()


async def test_long_lines_are_read_whole_from_the_file(path: Path) -> None:
    """Lines longer than a block of reading come through, and their seq is found at the end."""
    journal = Journal(path, "r")
    for _ in range(3):
        await journal.append([Entry(NOTICE, {"text": "x" * 261_000})], {})
    journal.close()

    assert last_seq_of(path) == 3
    assert await read_all(FileCursor(path, 0)) == [1, 2, 3]


async def test_a_refusing_disk_shows_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that could not be written is an OSError for its writer and seen by nobody."""
    journal = Journal(path, "r")
    await write(journal, 2)

    def refuse(self: AppendFile, data: bytes, *, sync: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AppendFile, "append", refuse)
    with pytest.raises(OSError, match="No space"):
        await journal.append([Entry(NOTICE)], {})

    assert journal.head == 2
    assert await Cursor(journal, 2).take() == []
    journal.close()


async def test_what_decides_is_synced_before_it_returns_and_the_rest_within_a_second(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only decisive lines cost a sync of their own; others are owed one by a known moment."""
    syncs: list[bool] = []
    append = AppendFile.append

    def watched(self: AppendFile, data: bytes, *, sync: bool) -> None:
        syncs.append(sync)
        append(self, data, sync=sync)

    monkeypatch.setattr(AppendFile, "append", watched)
    journal = Journal(path, "r")
    for types in (["turn.ended"], [NOTICE], [NOTICE, "permission.requested"]):
        await journal.append([Entry(type_) for type_ in types], {})
    assert syncs == [True, False, True]
    assert journal.sync_due_s is None

    await journal.append([Entry(NOTICE)], {})
    assert journal.sync_due_s is not None
    await journal.sync()
    assert journal.sync_due_s is None
    journal.close()
