"""The launcher finds its package from wherever it is installed and linked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from client_daemon import ROOT

LAUNCHER = ROOT / "client/sh/coachman"
SITE = f"lib/python3.{sys.version_info.minor}/site-packages"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A virtual environment as installers leave it, in a directory with a blank in its name."""
    made = tmp_path / "a venv"
    (made / "bin").mkdir(parents=True)
    (made / SITE).mkdir(parents=True)
    shutil.copy(LAUNCHER, made / "bin/coachman")
    home = Path(sys.base_prefix) / "bin"
    (made / "bin/python").symlink_to(home / f"python3.{sys.version_info.minor}")
    (made / "pyvenv.cfg").write_text(f"home = {home}\n")
    return made


def install(prefix: Path) -> None:
    shutil.copytree(ROOT / "client/coachman", prefix / SITE / "coachman")


def install_editable(prefix: Path) -> None:
    roots = [ROOT / name for name in ("daemon", "client", "sandbox")]
    (prefix / SITE / "_coachman.pth").write_text("\n".join(map(str, roots)))


def version(
    *argv: str | Path, cwd: Path | str = "/", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, argv), "version"],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": "/", **(env or {})},
    )


def test_a_regular_installation_is_found(prefix: Path) -> None:
    """The package lies in site-packages beside the launcher."""
    install(prefix)

    assert version(prefix / "bin/coachman").stdout.startswith("coachman ")


def test_an_editable_installation_is_found(prefix: Path) -> None:
    """The package lies in a source root that a .pth file names, also without a last newline."""
    install_editable(prefix)

    assert version(prefix / "bin/coachman").stdout.startswith("coachman ")


def test_links_lead_back_to_the_installation(prefix: Path, tmp_path: Path) -> None:
    """Chains of absolute and relative links, as pipx and uv make them, are followed."""
    install(prefix)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/first").symlink_to(prefix / "bin/coachman")
    (tmp_path / "bin/coachman").symlink_to("first")

    assert version(tmp_path / "bin/coachman").returncode == 0
    assert version("bin/coachman", cwd=tmp_path).returncode == 0
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert version("coachman", env={"PATH": path}).returncode == 0
    assert version("sh", "coachman", cwd=tmp_path / "bin").returncode == 0


def test_nothing_around_can_be_imported(prefix: Path, tmp_path: Path) -> None:
    """Neither the current directory nor PYTHON* variables nor site-packages shadow a module."""
    install(prefix)
    evil = tmp_path / "evil"
    evil.mkdir()
    for place in (evil, prefix / SITE):
        (place / "json.py").write_text("raise SystemExit('shadowed')")
    (evil / "coachman").mkdir()
    (evil / "coachman/__init__.py").write_text("raise SystemExit('shadowed')")
    done = version(prefix / "bin/coachman", cwd=evil, env={"PYTHONPATH": str(evil)})

    assert (done.returncode, done.stderr) == (0, "")


def test_no_interpreter_of_a_repository_is_taken(prefix: Path, tmp_path: Path) -> None:
    """An installation without one of its own finds it on PATH, but for what lies where we are."""
    install(prefix)
    (prefix / "bin/python").unlink()
    name, ran = f"python3.{sys.version_info.minor}", tmp_path / "ran"
    repo = tmp_path / "repo"
    places = [repo, repo / ".venv/bin", repo / "sub"]
    for place in places:
        place.mkdir(parents=True)
        (place / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (place / name).chmod(0o755)
    (repo / ".git").mkdir()
    named = [*map(str, places), ".", "", "sub", ".venv/bin"]
    path = ":".join([*named, f"{sys.base_prefix}/bin", os.environ["PATH"]])
    done = version(prefix / "bin/coachman", cwd=repo / "sub", env={"PATH": path})

    assert (done.returncode, done.stderr) == (0, "")
    assert not ran.exists()


def test_a_broken_installation_says_so(prefix: Path) -> None:
    """Without a package the launcher exits 70 and tells where it looked."""
    done = version(prefix / "bin/coachman")

    assert done.returncode == 70
    assert "cannot start coachman: its package is not beside" in done.stderr


def test_arguments_arrive_as_they_were_given(prefix: Path) -> None:
    """Blanks, empty words and leading dashes survive the launcher."""
    install(prefix)
    done = subprocess.run(
        [prefix / "bin/coachman", "wait", "a b", "", "--bo gus"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 64
    assert "there is no option --bo gus" in done.stderr


def test_the_launcher_forks_nothing(prefix: Path) -> None:
    """On the way to the interpreter no process is started, hence no time lost."""
    install(prefix)
    # Without anything on PATH, only builtins can have been used.
    done = version(prefix / "bin/coachman", env={"PATH": "/nonexistent"})

    assert done.returncode == 0, done.stderr
