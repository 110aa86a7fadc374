"""Finding an agent's program and what it needs."""

import hashlib
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coachman_sandbox.executables import (
    ExecutableError,
    agent_access,
    fingerprint,
    python_runtime,
    resolve,
)

LARGE_BYTES = 32_000_000
ASKERS = 4
# The kernel's clock of files may stand still for this long.
CLOCK_STEP_S = 0.05
ELF = b"\x7fELF" + b"\0" * 60


def program(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def package(root: Path, name: str, version: str = "1.2.3") -> Path:
    directory = root / "node_modules" / name
    directory.mkdir(parents=True)
    (directory / "package.json").write_text(json.dumps({"version": version}))
    return directory


def test_a_native_binary_is_found_behind_its_npm_script(tmp_path: Path) -> None:
    """The shim's package names the binary; its directory is bound, its version read."""
    directory = package(tmp_path, "cli")
    shim = program(directory / "bin" / "cli.js", b"#!/usr/bin/env node\n")
    native = program(directory / "bin" / "cli.exe", ELF)
    (tmp_path / "node_modules" / ".bin").mkdir()
    (tmp_path / "node_modules" / ".bin" / "cli").symlink_to(shim)
    found = resolve(
        ("cli",), {"PATH": f"{tmp_path}/node_modules/.bin"}, native=("none", "bin/cli.exe")
    )
    assert found.path == str(native)
    assert found.found == f"{tmp_path}/node_modules/.bin/cli"
    assert found.binds == (str(directory),)
    assert (found.version, found.sha256) == ("1.2.3", hashlib.sha256(ELF).hexdigest())


@pytest.mark.parametrize(
    ("place", "bound"), [("cli-linux-x64", "cli-linux-x64"), ("cli/node_modules/@a/cli-x64", "cli")]
)
def test_a_native_binary_may_be_in_a_package_of_its_own(
    tmp_path: Path, place: str, bound: str
) -> None:
    """Beside its script's package or below it; the outermost package that holds it is bound."""
    scope = tmp_path / "node_modules" / "@a"
    shim = program(package(tmp_path, "@a/cli") / "cli.js", b"#!/usr/bin/env node\n")
    (scope / place).mkdir(parents=True)
    (scope / place / "package.json").write_text("{}")
    native = program(scope / place / "vendor" / "cli", ELF)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cli").symlink_to(shim)
    paths = ("../cli-linux-x64/vendor/cli", "node_modules/@a/cli-x64/vendor/cli")
    found = resolve(("cli",), {"PATH": f"{tmp_path}/bin"}, native=paths)
    assert (found.path, found.binds) == (str(native), (str(scope / bound),))
    assert found.version == "1.2.3"


def test_a_script_takes_its_packages_and_its_interpreter_along(tmp_path: Path) -> None:
    """With no native binary, all of node_modules is bound, and node from PATH."""
    script = program(package(tmp_path, "cli") / "cli.js", b"#!/usr/bin/env -S node --x\n")
    node = program(tmp_path / "node" / "bin" / "node", ELF)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cli").symlink_to(script)
    found = resolve(("cli",), {"PATH": f"{tmp_path}/bin:{node.parent}"})
    assert found.path == str(script)
    assert found.binds == (f"{tmp_path}/node_modules", str(node))
    assert found.path_dirs == (str(node.parent),)


def test_a_lone_binary_is_bound_alone(tmp_path: Path) -> None:
    """Outside npm nothing but the file itself crosses, not its directory."""
    binary = program(tmp_path / "home" / "tool", ELF)
    found = resolve(("tool",), {"PATH": str(binary.parent), "HOME": str(binary.parent)})
    assert (found.binds, found.version) == ((str(binary),), None)


def test_the_systems_programs_need_no_bind() -> None:
    """What lies in /usr is there anyway."""
    found = resolve(("sh",), {"PATH": "/bin"})
    assert (found.binds, found.path_dirs) == ((), ())
    assert found.path.startswith("/usr/bin/")


@pytest.mark.parametrize("entry", ["", ".", "bin", "../bin"])
def test_relative_entries_of_path_are_ignored(
    tmp_path: Path, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in whatever directory we stand in is not the agent."""
    program(tmp_path / "bin" / "tool", ELF)
    program(tmp_path / "tool", ELF)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExecutableError, match="no absolute directory of PATH has it"):
        resolve(("tool",), {"PATH": entry})


def test_programs_that_agents_may_write_are_passed_over(tmp_path: Path) -> None:
    """A repository's own tool is skipped, by entry and by target, for the next on PATH."""
    planted = program(tmp_path / "repo" / "bin" / "tool", ELF)
    good = program(tmp_path / "good" / "tool", ELF)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "tool").symlink_to(planted)
    path = f"{planted.parent}:{tmp_path}/link:{good.parent}"
    assert resolve(("tool",), {"PATH": path}, forbidden=(f"{tmp_path}/repo",)).path == str(good)
    with pytest.raises(ExecutableError, match=r"lies in .*repo, which agents may write"):
        resolve(("tool",), {"PATH": str(planted.parent)}, forbidden=(f"{tmp_path}/repo",))


def test_an_interpreter_that_agents_may_write_is_refused(tmp_path: Path) -> None:
    """The closure counts like the program itself."""
    program(tmp_path / "repo" / "bin" / "node", ELF)
    program(tmp_path / "bin" / "cli", b"#!/usr/bin/env node\n")
    env = {"PATH": f"{tmp_path}/bin:{tmp_path}/repo/bin"}
    with pytest.raises(ExecutableError, match="which agents may write"):
        resolve(("cli",), env, forbidden=(f"{tmp_path}/repo",))


def test_a_closure_never_takes_the_whole_home(tmp_path: Path) -> None:
    """A virtual environment that is the home directory itself is refused."""
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    program(tmp_path / "bin" / "python", ELF)
    program(tmp_path / "tool", f"#!{tmp_path}/bin/python\n".encode())
    with pytest.raises(ExecutableError, match="would need all of"):
        resolve(("tool",), {"PATH": str(tmp_path), "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "shebang", [b"#!/nonexistent/x\n", b"#!/usr/bin/env nothing-such\n", b"#!"]
)
def test_a_script_without_an_interpreter_is_not_found(tmp_path: Path, shebang: bytes) -> None:
    """The error says which interpreter is missing where."""
    program(tmp_path / "tool", shebang)
    with pytest.raises(ExecutableError, match=r"the interpreter of .*tool is not to be found"):
        resolve(("tool",), {"PATH": str(tmp_path)})


def test_a_script_that_is_its_own_interpreter_ends(tmp_path: Path) -> None:
    """A circle of interpreters is an error, not a recursion."""
    program(tmp_path / "tool", f"#!{tmp_path}/tool\n".encode())
    with pytest.raises(ExecutableError, match="the interpreter of"):
        resolve(("tool",), {"PATH": str(tmp_path)})


def test_the_hash_follows_the_file(tmp_path: Path) -> None:
    """A replaced program has its own hash at once."""
    path = program(tmp_path / "tool", b"one")
    assert fingerprint(str(path)) == hashlib.sha256(b"one").hexdigest()
    program(tmp_path / "new", b"other")
    os.replace(tmp_path / "new", path)
    assert fingerprint(str(path)) == hashlib.sha256(b"other").hexdigest()


def test_the_hash_follows_a_file_that_is_made_to_look_the_same(tmp_path: Path) -> None:
    """Written in place, as long as before and with its time set back, it is read again."""
    path = program(tmp_path / "tool", b"one")
    before = path.stat()
    assert fingerprint(str(path)) == hashlib.sha256(b"one").hexdigest()
    time.sleep(CLOCK_STEP_S)
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert fingerprint(str(path)) == hashlib.sha256(b"two").hexdigest()


def test_a_large_program_is_read_once_however_many_ask(tmp_path: Path) -> None:
    """Runs that begin together, and those after them, have its hash of one reading."""
    path = program(tmp_path / "tool", os.urandom(LARGE_BYTES))
    together = threading.Barrier(ASKERS)

    def ask(_: int) -> str:
        together.wait()
        return fingerprint(str(path))

    before = bytes_read()
    with ThreadPoolExecutor(ASKERS) as pool:
        found = set(pool.map(ask, range(ASKERS)))
    assert LARGE_BYTES <= bytes_read() - before < 2 * LARGE_BYTES
    assert found == {hashlib.sha256(path.read_bytes()).hexdigest()}
    before = bytes_read()
    assert {fingerprint(str(path))} == found
    assert bytes_read() - before < LARGE_BYTES


def bytes_read() -> int:
    """How much this process has read so far, by any call."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def test_the_python_runtime_is_the_base_installation() -> None:
    """Not the virtual environment, whose packages have no place inside."""
    runtime = python_runtime()
    assert runtime.path == os.path.realpath(sys.executable)
    assert not any(bind == sys.prefix for bind in runtime.binds if sys.prefix != sys.base_prefix)


def test_access_gathers_what_all_programs_need(tmp_path: Path) -> None:
    """Binds and PATH directories of the program and of the guest's Python are joined."""
    found = resolve(("tool",), {"PATH": str(program(tmp_path / "tool", ELF).parent)})
    runtime = python_runtime()
    access = agent_access(found, None, env={"A": "1"}, credentials={"K": "s"}, python=runtime)
    assert access.binds == (*found.binds, *runtime.binds)
    assert (access.python, dict(access.env), "s" in repr(access.credentials)) == (
        runtime.path,
        {"A": "1"},
        True,
    )
    assert "'s'" not in repr(access)
