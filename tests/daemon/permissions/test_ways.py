"""The user's own files: what leads to them, what they are, and what is put beside them."""

import json
import os
from pathlib import Path

import pytest

from coachmand.permissions.exchange import Exchanges, UnreadableError
from coachmand.permissions.programs import Programs, UntrustedError
from daemon_process import DaemonProcess


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What an agent may change; beside it lies what is the user's."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / "program").write_text("#!/bin/sh\n")
    (tmp_path / "mine" / "program").chmod(0o700)
    return tmp_path / "tree"


@pytest.mark.parametrize("way", ["tree/link", "over/link", "tree/../mine", "tree/deep/up"])
def test_what_an_agent_could_lead_elsewhere_is_not_trusted(tree: Path, way: str) -> None:
    """A link in its reach leads to the right place now, and wherever it likes later."""
    root = tree.parent
    (tree / "link").symlink_to(root / "mine")
    (tree / "deep").mkdir()
    (tree / "deep" / "up").symlink_to("../../mine")
    (root / "over").symlink_to(tree)
    with pytest.raises(UntrustedError, match="agents reach"):
        Exchanges().open(f"{root}/{way}/q", [str(tree)])
    with pytest.raises(UntrustedError, match="agents reach"):
        Programs().pin(f"{root}/{way}/program", [str(tree)])


def test_links_of_the_users_own_are_followed(tree: Path) -> None:
    """What no agent reaches leads where the user says."""
    (tree.parent / "other").symlink_to("mine")
    exchange = Exchanges().open(f"{tree.parent}/other/q", [str(tree)])
    program = Programs().pin(f"{tree.parent}/other/program", [str(tree)])

    assert os.path.samefile(f"/proc/self/fd/{exchange.fd}", tree.parent / "mine")
    assert program.holds()
    os.close(exchange.fd)
    os.close(program.fd)


def test_a_program_is_known_by_its_content(tree: Path) -> None:
    """Set times hide no change, and no change is one that only touches them."""
    path = tree.parent / "mine" / "program"
    programs = Programs()
    program = programs.pin(str(path), [])
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    touched = program.holds()
    same = programs.pin(str(path), [])
    path.write_text("#!/bin/ls")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = program.holds()
    another = programs.pin(str(path), [])

    assert (touched, changed) == (True, False)
    assert same is program
    assert another.sha256 != program.sha256
    programs.close()


def test_a_directory_in_an_answers_place_is_put_aside(tree: Path) -> None:
    """It is no answer; the one that comes after it is taken."""
    mine = tree.parent / "mine"
    exchange = Exchanges().open(str(mine / "q"), [])
    (mine / "q.req.response").mkdir()
    (mine / "q.req.response" / "kept").write_text("x")
    with pytest.raises(UnreadableError, match="no file of yours"):
        exchange.take()
    exchange.complain({"run": "r", "error": "no"})
    (mine / "q.req.response").write_text("{}")
    [aside] = mine.glob("q.req.response.refused-*")

    assert exchange.take() == b"{}"
    assert (aside / "kept").read_text() == "x"
    os.close(exchange.fd)


def test_an_answer_to_a_file_without_a_choice_is_told_the_choices(daemon: DaemonProcess) -> None:
    """The usage is that of the file form, and the choices are those that are offered."""
    options = [{"id": "a", "kind": "allow_once", "name": "Do it"}]
    asked = {"run": "261129-220417-k7q3x", "request": "p1", "options": options}
    (daemon.root / "q.req").write_text(json.dumps(asked))
    none = daemon.cli("answer", "--file", "q")
    two = daemon.cli("answer", "--file", "q", "k7q3x", "allow")
    bare = daemon.cli("answer")

    assert (none.returncode, two.returncode, bare.returncode) == (64, 64, 64)
    assert "answer --file BASE CHOICE; choose allow, or: 1 Do it" in none.stderr
    assert "answer --file BASE CHOICE" in two.stderr
    assert "usage: coachman answer X CHOICE|TEXT" in bare.stderr
