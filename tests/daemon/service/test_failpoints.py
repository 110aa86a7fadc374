"""Failpoints: every name is a place, every place has a name, and unarmed they are nothing."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sourcetree
from coachmand import durable, failpoints

ROOT = Path(__file__).parents[3]


def places() -> set[str]:
    """The names that the daemon's source marks."""
    found = set()
    for path in sourcetree.modules("coachmand"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="reach" | "guard"), args=[first, *_]):
                    found |= {n.value for n in ast.walk(first) if isinstance(n, ast.Constant)}
    return found


def run(spec: str, code: str, log: Path) -> subprocess.CompletedProcess[str]:
    """Run a snippet in a process in which ``spec`` is armed."""
    env = {**os.environ, failpoints.VARIABLE: spec, failpoints.LOG_VARIABLE: str(log)}
    env["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("daemon", "client"))
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )


def test_the_registry_names_every_place_and_nothing_else() -> None:
    """A test that goes through the registry goes through the whole source."""
    assert places() == failpoints.NAMES


def test_unarmed_a_call_of_the_disk_is_the_systems_own() -> None:
    """Nothing stands between the daemon and its disk unless a test asked for it."""
    assert durable._fdatasync is os.fdatasync
    assert failpoints.guard("disk.write", os.write) is os.write


@pytest.mark.parametrize("spec", ["nowhere:kill", "disk.write:explode", "nothing*:eio"])
def test_what_names_no_failpoint_is_refused(spec: str, tmp_path: Path) -> None:
    """A typing error in a test must not look like a test that passed."""
    done = run(spec, "import coachmand.failpoints", tmp_path / "log")

    assert done.returncode == 1
    assert f"cannot arm {spec!r}" in done.stderr


def test_the_nth_time_is_counted_and_told(tmp_path: Path) -> None:
    """A step kills at its second time only, and the log says where."""
    code = "from coachmand.failpoints import reach\nfor n in range(3): print(n, flush=True); "
    code += "reach('start.marked')"
    done = run("start.marked:kill@2,start.*:note", code, tmp_path / "log")

    assert (done.returncode, done.stdout.split()) == (-signal.SIGKILL, ["0", "1"])
    told = (tmp_path / "log").read_text().splitlines()
    assert told == ["start.marked note", "start.marked kill"]


@pytest.mark.parametrize(
    ("action", "left", "said"), [("eio", b"old", "OSError 5"), ("short", b"old", "OSError 28")]
)
def test_a_call_that_is_refused_leaves_the_old_content(
    action: str, left: bytes, said: str, tmp_path: Path
) -> None:
    """A write that fails, or that takes half and then fails, changes no file that was there."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = f"""
from pathlib import Path
from coachmand import durable
try:
    durable.put(Path({str(path)!r}), b"something new")
except durable.DiskError as error:
    print("OSError", error.errno)
"""
    done = run(f"disk.write:{action}", code, tmp_path / "log")

    assert done.stdout.strip() == said, done.stderr
    assert path.read_bytes() == left
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "log"]


def test_a_later_line_follows_one_that_was_refused_halfway(tmp_path: Path) -> None:
    """Half a line of a full disk is taken back, so that the next one is whole."""
    path = tmp_path / "log.ndjson"
    code = f"""
from pathlib import Path
from coachmand import durable
file = durable.AppendFile(Path({str(path)!r}))
file.append(b"first\\n", sync=True)
try:
    file.append(b"second\\n", sync=True)
except durable.FullError:
    file.append(b"third\\n", sync=True)
"""
    done = run("disk.write:short@2", code, tmp_path / "log")

    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == b"first\nthird\n"


def test_a_change_in_place_that_is_cut_short_is_a_full_disk(tmp_path: Path) -> None:
    """Half of it is in its place, and asked again the whole is."""
    path = tmp_path / "log"
    path.write_bytes(b"one secret, two")
    code = f"""
import os
from coachmand import durable
fd = os.open({str(path)!r}, os.O_RDWR)
try:
    durable.overwrite(fd, b"******", 4)
except durable.FullError:
    print(os.pread(fd, 99, 0).decode())
    durable.overwrite(fd, b"******", 4)
"""
    done = run("disk.write:short@1", code, tmp_path / "strikes")

    assert done.stdout == "one ***ret, two\n", done.stderr
    assert path.read_bytes() == b"one ******, two"


def test_a_sync_that_finds_no_room_is_no_full_disk(tmp_path: Path) -> None:
    """Nobody knows what reached the disk then: it is not tried again as a full one is."""
    code = f"""
from pathlib import Path
from coachmand import durable
file = durable.AppendFile(Path({str(tmp_path / "x")!r}))
try:
    file.append(b"line\\n", sync=True)
except durable.DiskError as error:
    print(type(error).__name__)
"""
    done = run("disk.sync:enospc@2", code, tmp_path / "log")

    assert done.stdout.strip() == "DiskError", done.stderr
