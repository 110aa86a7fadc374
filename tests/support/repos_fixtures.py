"""Real repositories made by the real git, and what of them must not change."""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
# What coachman writes in a repository, and nothing else.
OWN = ("objects", "refs/coachman", "worktrees", "logs")


def git_bytes(
    where: Path | str,
    *words: str,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
) -> bytes:
    """What git prints; a failure is an exception that shows its stderr."""
    command = ["git", "-C", str(where), *words]
    environment = {**ENV, **(env or {})}
    done = subprocess.run(command, env=environment, input=stdin, capture_output=True, check=False)
    if done.returncode:
        raise AssertionError(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def git(where: Path | str, *words: str, env: Mapping[str, str] | None = None) -> str:
    """The same as text without its last line end."""
    return git_bytes(where, *words, env=env).decode("utf-8", "surrogateescape").rstrip("\n")


def write(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a directory, making what is above them."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def make_repo(path: Path, files: Mapping[str, bytes], *config: tuple[str, str]) -> str:
    """A repository with one commit; its id."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "config", "gc.auto", "0")
    for name, value in config:
        git(path, "config", name, value)
    write(path, files)
    return commit_all(path)


def write_raw(path: bytes, content: bytes = b"") -> None:
    """Write a file whose name need not be text."""
    with open(path, "wb") as file:
        file.write(content)


def make_sparse(path: Path, size: int) -> None:
    """A file of that many bytes, none of them on the disk."""
    with open(path, "wb") as file:
        file.truncate(size)


def run(*words: str | Path, **environment: str) -> str:
    """What a program prints; it must succeed and write nothing to stderr."""
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def commit_all(path: Path) -> str:
    """Commit everything in a checkout; the commit's id."""
    git(path, "add", "-A")
    git(path, "commit", "-q", "--allow-empty", "-m", "a commit")
    return git(path, "rev-parse", "HEAD")


def fingerprint(repo: Path) -> dict[str, str]:
    """A digest of every file of the user's own: the checkout and git's metadata."""
    found = {}
    for path in sorted(repo.rglob("*")):
        name = str(path.relative_to(repo))
        inner = name.removeprefix(".git/")
        if path.is_symlink() or not path.is_file():
            continue
        if inner != name and inner.startswith(OWN):
            continue
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def listing(repo: Path, tree: str) -> dict[str, tuple[str, bytes]]:
    """Every blob of a tree by path: its mode and its content."""
    found = {}
    for line in git_bytes(repo, "ls-tree", "-rz", tree).split(b"\0"):
        if line:
            head, _, name = line.partition(b"\t")
            mode, kind, oid = head.decode().split()
            content = git_bytes(repo, "cat-file", "blob", oid) if kind == "blob" else oid.encode()
            found[name.decode("utf-8", "surrogateescape")] = (mode, content)
    return found


def make_deep(root: Path, name: str, depth: int, files: Mapping[str, bytes]) -> None:
    """Folders of one name inside each other, deeper than any path may be long."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    for file, content in files.items():
        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=here)
        os.write(descriptor, content)
        os.close(descriptor)
    os.close(here)
