"""Who may import whom, and who may start processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import sourcetree

# Each starts processes of its own; everybody else asks one of these.
MAY_IMPORT_SUBPROCESS = {
    "adapters/coachman_adapters/guest/demo_turn.py": "runs inside the sandbox",
    "daemon/coachmand/permissions/hook.py": "programs of the user's",
    "daemon/coachmand/repos/packing.py": "git itself, confined, on objects alone",
    "daemon/coachmand/repos/process.py": "git workers",
    "daemon/coachmand/runs/keepers/starting.py": "keepers",
    "sandbox/coachman_sandbox/finder.py": "asks bwrap for its version",
    "sandbox/coachman_sandbox/probe.py": "tries the namespaces",
}
LOADED = """
import json, sys
sys.path.insert(0, sys.argv[1])
bare = set(sys.modules)
for name in sys.argv[2:]:
    __import__(name)
print(json.dumps(sorted(set(sys.modules) - bare)))
"""
CLIENT_MODULES_AT_MOST = 60
KEEPER_MODULES_AT_MOST = 45


def loaded_by(*modules: str, root: str = "client") -> list[str]:
    """What an isolated interpreter loads for the named modules below one root."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADED, str(sourcetree.ROOT / root), *modules],
        check=True,
        capture_output=True,
    )
    return json.loads(done.stdout)


def module_name(path: Path) -> str:
    parts = path.relative_to(sourcetree.ROOT / "client").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def foreign(loaded: list[str]) -> list[str]:
    tops = {name.partition(".")[0] for name in loaded}
    return sorted(tops - set(sys.stdlib_module_names) - {"coachman"})


def test_import_contracts_hold() -> None:
    """The layers that pyproject.toml lists hold for every module."""
    roots = os.pathsep.join(str(package.parent) for package in sourcetree.PACKAGES.values())
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=sourcetree.ROOT,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_of_the_client_needs_only_the_standard_library() -> None:
    """Each client module imports under an interpreter that has no packages at all."""
    names = [module_name(path) for path in sourcetree.modules("coachman")]
    importable = [name for name in names if not name.endswith("__main__")]

    assert foreign(loaded_by(*importable)) == []


def test_importing_the_client_loads_little() -> None:
    """``import coachman`` loads few modules, since every command pays for each."""
    loaded = loaded_by("coachman")

    assert foreign(loaded) == []
    assert len(loaded) <= CLIENT_MODULES_AT_MOST, loaded


def test_a_keeper_loads_itself_and_little_of_the_standard_library() -> None:
    """Every run pays for what its keeper loads: no package, nothing else of the daemon."""
    loaded = loaded_by("coachmand.keeper.main", root="daemon")
    own = [name for name in loaded if f"{name}.".startswith("coachmand.keeper.")]

    assert foreign([name for name in loaded if name not in own]) == ["coachmand"]
    others = [name for name in loaded if name.startswith("coachmand.") and name not in own]
    # Of the gate where it is, no more.
    assert others == ["coachmand.failpoints", "coachmand.gate"]
    assert len(loaded) <= KEEPER_MODULES_AT_MOST, loaded


def test_a_gate_loads_itself_and_the_standard_library() -> None:
    """What parses an agent's bytes is no package and nothing else of the daemon."""
    loaded = loaded_by("coachmand.gate.main", root="daemon")
    own = [name for name in loaded if f"{name}.".startswith("coachmand.gate.")]

    assert foreign([name for name in loaded if name not in own]) == ["coachmand"]
    assert [name for name in loaded if name.startswith("coachmand.") and name not in own] == []


def test_processes_are_started_by_few() -> None:
    """The named modules import subprocess, and no other does."""
    importing = {
        sourcetree.name(path)
        for path in sourcetree.modules()
        if "subprocess" in sourcetree.imported(path)
    }

    assert importing == set(MAY_IMPORT_SUBPROCESS)
