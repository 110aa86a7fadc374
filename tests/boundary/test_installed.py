"""Programs as they are installed by one tool or another run inside: what they need is found out."""

import os
import platform
import shutil
import sys
import venv
from pathlib import Path

import pytest

from coachman_sandbox.executables import ExecutableError, agent_access, resolve
from sandbox_launch import Box

SHELL = Path("/bin/sh").resolve()
PYTHON = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
LOADERS = {"x86_64": b"/lib64/ld-linux-x86-64.so.2", "aarch64": b"/lib/ld-linux-aarch64.so.1"}


def script(path: Path, interpreter: object, body: str) -> Path:
    """A script that its interpreter runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\n{body}\n")
    path.chmod(0o755)
    return path


def binary(path: Path) -> Path:
    """A real program of its own: the system's shell, copied."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SHELL, path)
    return path


def linked(path: Path, target: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def by_npm(root: Path) -> str:
    """A package below a prefix of nvm's, with what it depends on beside it; node on PATH."""
    version = root / ".nvm/versions/node/v22"
    modules = version / "lib/node_modules"
    script(modules / "tool/cli.js", "/usr/bin/env node", '. "$(dirname "$0")/../dep/index.js"')
    (modules / "tool/package.json").write_text('{"version": "1.0.0"}')
    script(modules / "dep/index.js", "x", "echo ran")
    linked(version / "bin/tool", "../lib/node_modules/tool/cli.js")
    binary(version / "bin/node")
    return f"{version}/bin"


def by_pyenv(root: Path) -> str:
    """A script of an interpreter that has its library beside it and no virtual environment."""
    script(root / "versions/3/bin/tool", PYTHON, "import json, ssl, sqlite3\nprint('ran')")
    return f"{root}/versions/3/bin"


def behind_a_shim(root: Path) -> str:
    """The same behind a shim, which stands first on PATH and cannot be followed."""
    body = 'export PYENV_ROOT="/p"\nexec "/p/libexec/pyenv" exec "tool" "$@"'
    script(root / "shims/tool", "/usr/bin/env bash", body)
    return f"{root}/shims:{by_pyenv(root)}"


def by_uv(root: Path) -> str:
    """A link to a script of an environment of its own."""
    venv.create(root / "share/uv/tools/tool", symlinks=True)
    python = root / "share/uv/tools/tool/bin/python"
    script(root / "share/uv/tools/tool/bin/tool", python, "import sys\nprint('ran')")
    linked(root / "bin/tool", "../share/uv/tools/tool/bin/tool")
    return f"{root}/bin"


def by_homebrew(root: Path) -> str:
    """Links into a cellar, and an interpreter that is named through another link."""
    binary(root / "Cellar/shell/2.0/bin/shell")
    linked(root / "opt/shell", "../Cellar/shell/2.0")
    script(root / "Cellar/tool/1.0/bin/tool", root / "opt/shell/bin/shell", "echo ran")
    linked(root / "bin/tool", "../Cellar/tool/1.0/bin/tool")
    return f"{root}/bin"


def in_a_store(root: Path) -> str:
    """A binary whose loader lies in the store as well, below a name that nobody could guess."""
    loader = LOADERS[platform.machine()]
    own = f"{root}/h-ld".encode()
    assert len(own) <= len(loader)
    shutil.copy(os.fsdecode(loader), own)
    path = binary(root / "h-tool/bin/real")
    path.write_bytes(path.read_bytes().replace(loader + b"\0", own.ljust(len(loader) + 1, b"\0")))
    script(root / "h-tool/bin/tool", path, "echo ran")
    return f"{root}/h-tool/bin"


def alone(root: Path) -> str:
    """One binary, and a script that it runs as."""
    script(root / "bin/tool", binary(root / "bin/alone"), "echo ran")
    return f"{root}/bin"


def over_a_link(root: Path) -> str:
    """The same in a home that is a link to another disk's."""
    alone(root / "disk/home")
    linked(root / "home", "disk/home")
    return f"{root}/home/bin"


@pytest.mark.parametrize(
    "install",
    [by_npm, by_pyenv, behind_a_shim, by_uv, by_homebrew, in_a_store, alone, over_a_link],
    ids=lambda install: install.__name__,
)
def test_an_installed_program_runs_inside(own_box: Box, tmp_path: Path, install: object) -> None:
    """What it needs is bound, and nothing else of where it lies is seen."""
    assert callable(install)
    root = tmp_path / "i"
    root.mkdir()
    (root / "secret").write_text("of the user")
    path = install(root)
    found = resolve(("tool",), {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(tmp_path)})
    access = agent_access(found, env={}, credentials={})
    done = own_box.run(found.path, access=access)
    seen = own_box.sh(f"cat {root}/secret", access=access)

    assert (done.stdout, done.stderr) == ("ran\n", "")
    assert "No such file" in seen


def test_a_shim_alone_is_refused(tmp_path: Path) -> None:
    """It would ask inside for what nobody bound: said at once, and why."""
    behind_a_shim(tmp_path)
    with pytest.raises(ExecutableError, match="is a shim, which finds the program where nothing"):
        resolve(("tool",), {"PATH": f"{tmp_path}/shims:/usr/bin"})
