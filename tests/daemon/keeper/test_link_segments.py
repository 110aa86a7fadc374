"""Reading raw output by offset, whichever segments hold it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachmand.runs.keepers.segments import SegmentReader


def store(directory: Path, content: bytes, sizes: list[int]) -> None:
    start = 0
    for size in sizes:
        (directory / f"stdout.{start}").write_bytes(content[start : start + size])
        start += size


@given(
    sizes=st.lists(st.integers(1, 50), max_size=8),
    reads=st.lists(st.tuples(st.integers(0, 450), st.integers(0, 450)), max_size=10),
)
def test_any_range_reads_as_from_one_file(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], reads: list[tuple[int, int]]
) -> None:
    """A read gives what a single file would give at that offset."""
    directory = tmp_path_factory.mktemp("attempt")
    content = bytes(number % 251 for number in range(sum(sizes)))
    store(directory, content, sizes)
    with SegmentReader(directory, "stdout") as reader:
        for offset, size in reads:
            assert reader.read(offset, size) == content[offset : offset + size]


def test_a_stream_that_grows_is_followed(tmp_path: Path) -> None:
    """New bytes and new segments are seen by a reader that reached the end before."""
    with SegmentReader(tmp_path, "stdout") as reader:
        assert reader.read(0, 10) == b""
        (tmp_path / "stdout.0").write_bytes(b"")
        assert reader.read(0, 10) == b""
        (tmp_path / "stdout.0").write_bytes(b"abc")
        assert reader.read(0, 10) == b"abc"
        (tmp_path / "stdout.3").write_bytes(b"de")
        (tmp_path / "stderr.0").write_bytes(b"no")
        (tmp_path / "stdout.5.tmp").write_bytes(b"no")
        assert reader.read(2, 10) == b"cde"
        assert reader.read(5, 10) == b""


def test_a_link_in_place_of_a_segment_is_not_followed(tmp_path: Path) -> None:
    """Only files that a keeper could have made are read."""
    (tmp_path / "elsewhere").write_bytes(b"key")
    (tmp_path / "stdout.0").symlink_to(tmp_path / "elsewhere")
    with SegmentReader(tmp_path, "stdout") as reader, pytest.raises(OSError, match="symbolic"):
        reader.read(0, 10)
