"""The repository as data: its modules, functions and committed files."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "coachman": ROOT / "client/coachman",
    "coachmand": ROOT / "daemon/coachmand",
    "coachman_adapters": ROOT / "adapters/coachman_adapters",
    "coachman_sandbox": ROOT / "sandbox/coachman_sandbox",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*packages: str) -> list[Path]:
    """Every module of the named packages, else of all four."""
    roots = [PACKAGES[name] for name in packages or PACKAGES]
    return sorted(path for root in roots for path in root.rglob("*.py"))


def tests() -> list[Path]:
    """Every file that holds tests."""
    return sorted(path for path in (ROOT / "tests").rglob("test_*.py"))


def name(path: Path) -> str:
    """The path as a reader of the repository knows it."""
    return str(path.relative_to(ROOT))


def lines(path: Path) -> int:
    """How many lines the file has."""
    return len(path.read_text().splitlines())


@cache
def tree(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(path.read_text(), str(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of the module, nested ones included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, Function):
            yield node


def imported(path: Path) -> set[str]:
    """The top-level names of all that the module imports, wherever the import stands."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@cache
def committed() -> tuple[Path, ...]:
    """Every file under version control, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    paths = (ROOT / entry for entry in listed.split("\0") if entry)
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def text_of(path: Path) -> str | None:
    """The file's text, or None where it is not text."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None
