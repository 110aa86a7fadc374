"""What reaches the disk, whole or not at all, and how a refusal is told."""

import socket
import subprocess
import threading
from pathlib import Path

import pytest

from coachmand import durable
from coachmand.ownership import Lock, LockHeldError


def test_a_replaced_file_is_the_old_or_the_new(tmp_path: Path) -> None:
    """A replace leaves nothing beside the file; one that is refused leaves the old content."""
    path = tmp_path / "record.json"
    durable.replace(path, b"old")
    (tmp_path / "folder").mkdir()

    durable.replace(path, b"new")
    with pytest.raises(durable.DiskError):
        durable.replace(tmp_path / "missing" / "record.json", b"x")

    assert path.read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "record.json"]


def test_a_claim_is_given_once(tmp_path: Path) -> None:
    """The first claim wins; a second changes nothing and leaves nothing beside it."""
    path = tmp_path / "key.json"

    assert durable.claim(path, b"first")
    assert not durable.claim(path, b"second")
    assert path.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["key.json"]


def test_files_and_folders_are_the_users_alone(tmp_path: Path) -> None:
    """Whatever is created cannot be read by others."""
    durable.make_directory(tmp_path / "a" / "b")
    durable.put(tmp_path / "a" / "b" / "file", b"x")
    durable.mark(tmp_path / "a" / "mark")

    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a" / "mark").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_a_disk_error() -> None:
    """/dev/full refuses what is written: the error says so and is an OSError as well."""
    file = durable.AppendFile.__new__(durable.AppendFile)
    file.path = Path("/dev/full")
    file._fd = durable.os.open("/dev/full", durable.os.O_WRONLY)

    with pytest.raises(durable.DiskError) as refused:
        file.append(b"x\n", sync=False)
    file.close()

    assert isinstance(refused.value, OSError)
    assert "No space left" in str(refused.value)


def test_a_torn_tail_is_cut_when_the_file_is_opened(tmp_path: Path) -> None:
    """Half a line at the end is cut and counted; whole lines stay."""
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthr")
    file = durable.AppendFile(path)
    file.append(b"three\n", sync=True)
    file.close()

    assert file.cut_bytes == 3
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_a_lock_names_its_holder(tmp_path: Path) -> None:
    """The second one is told who holds it, and gets it once that one let go."""
    first = Lock.take(tmp_path / "lock", "pid 1 on here")
    with pytest.raises(LockHeldError, match="pid 1 on here"):
        Lock.take(tmp_path / "lock", "pid 2 on here")
    first.release()

    Lock.take(tmp_path / "lock", "pid 2 on here").release()


def test_a_lock_that_a_killed_holders_child_is_about_to_drop_is_waited_for(
    tmp_path: Path,
) -> None:
    """Between fork and exec a child has all of its parent's descriptors, and may outlive it."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    lock = Lock.take(tmp_path / "lock", f"pid {gone.pid} on {socket.gethostname()}")
    drop = threading.Timer(0.3, lock.release)
    drop.start()
    Lock.take(tmp_path / "lock", "pid 2 on here").release()
    drop.join()
