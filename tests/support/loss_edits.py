"""What a person may do in a worktree by hand, at random, and an inventory of all that is work."""

import hashlib
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from repos_fixtures import ENV, git, make_repo

IGNORED = ("x.log", "build/out.o")
DECLARED = ".env"
Inventory = dict[str, str]


class Person:
    """Edits one worktree; every content that is written is unlike any other."""

    def __init__(self, tree: Path, chance: random.Random) -> None:
        self.tree = tree
        self.chance = chance
        self.did: list[str] = []

    def edit(self) -> None:
        """Do one thing, if git lets it be done just now."""
        kind = self.chance.choice(EDITS)
        self.did.append(kind.__name__)
        kind(self)

    def text(self) -> bytes:
        return b"%030x\n" % self.chance.getrandbits(120)

    def put(self, name: str) -> None:
        """Write a file; what is in its way goes first, as with a person who means it."""
        path = self.tree / name
        for above in reversed(path.relative_to(self.tree).parents[:-1]):
            if (self.tree / above).is_symlink() or (self.tree / above).is_file():
                (self.tree / above).unlink()
            (self.tree / above).mkdir(exist_ok=True)
        self.drop(name)
        path.write_bytes(self.text())

    def drop(self, name: str) -> None:
        path = self.tree / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def git(self, *words: str) -> None:
        """A git that may refuse: a merge that has conflicts, a lock that somebody left."""
        subprocess.run(["git", "-C", self.tree, *words], env=ENV, capture_output=True, check=False)


def change(person: Person) -> None:
    person.put(person.chance.choice(["a.txt", "sub/b.txt"]))


def add(person: Person) -> None:
    person.put(person.chance.choice(["new.txt", "sub/deep/er/new.txt", "a.txt/inside", "ünï\n"]))


def delete(person: Person) -> None:
    person.drop(person.chance.choice(["a.txt", "sub", "new.txt"]))


def link(person: Person) -> None:
    person.drop("link")
    (person.tree / "link").symlink_to(person.text().decode().strip())


def ignored(person: Person) -> None:
    person.put(person.chance.choice([*IGNORED, DECLARED, f"sub/{DECLARED}"]))


def stage(person: Person) -> None:
    person.put("sub/staged.txt")
    person.git("add", "-A", "sub")
    person.put("sub/staged.txt")


def stage_ignored(person: Person) -> None:
    person.put("x.log")
    person.git("add", "-f", "x.log")


def commit(person: Person) -> None:
    change(person)
    person.git("add", "-A", "a.txt", "sub")
    person.git("commit", "-q", "-m", "by hand")


def amend(person: Person) -> None:
    commit(person)
    change(person)
    person.git("commit", "-q", "-a", "--amend", "-m", "again")


def reset(person: Person) -> None:
    person.git("reset", "-q", "--hard", "HEAD~1")


def merge(person: Person) -> None:
    person.git("branch", "-f", "other", "HEAD")
    commit(person)
    person.git("checkout", "-q", "--detach", "other")
    commit(person)
    person.git("branch", "-D", "other")
    person.git("merge", "HEAD@{1}")


def rebase(person: Person) -> None:
    commit(person)
    person.git("rebase", "HEAD~1", "--exec", "false")


def nest(person: Person) -> None:
    inner = person.tree / "inner"
    if not inner.exists():
        make_repo(inner, {"file": person.text()})


def unnest(person: Person) -> None:
    """What keeps a worktree from going, taken away."""
    for name in ("inner", "pipe"):
        person.drop(name)
    for lock in entry_of(person.tree).glob("*.lock"):
        lock.unlink()


def pipe(person: Person) -> None:
    if not os.path.lexists(person.tree / "pipe"):
        os.mkfifo(person.tree / "pipe")


def lock(person: Person) -> None:
    (entry_of(person.tree) / "index.lock").touch()


EDITS: tuple[Callable[[Person], None], ...] = (
    *(change, add, delete, link, ignored, stage, commit),
    *(stage_ignored, amend, reset, merge, rebase, nest, pipe, lock),
    *(change, add, commit, unnest, unnest, unnest, unnest),
)


def entry_of(tree: Path) -> Path:
    """The worktree's entry in its repository, as its pointer says."""
    return Path((tree / ".git").read_text().removeprefix("gitdir: ").strip())


def inventory(tree: Path) -> Inventory:
    """Ids of all content that is somebody's work in a worktree, each with where it is."""
    found: Inventory = {}
    if not (tree / ".git").exists():
        return found
    for folder, folders, files in os.walk(tree):
        here = Path(folder)
        for name in [*files, *(name for name in folders if (here / name).is_symlink())]:
            path = here / name
            relative = str(path.relative_to(tree))
            if relative != ".git" and relative not in IGNORED and not path.is_fifo():
                content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
                found[blob_id(content)] = relative
    for line in git(tree, "ls-files", "-sz").split("\0"):
        if line:
            found[line.split()[1]] = f"staged {line}"
    reflog = entry_of(tree) / "logs/HEAD"
    for line in reflog.read_text().splitlines() if reflog.exists() else ():
        found[line.split()[1]] = "a commit by hand"
    return found


def blob_id(content: bytes) -> str:
    """The id that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def reachable(repo: Path) -> set[str]:
    """Every object that a ref of the repository leads to."""
    lines = git(repo, "rev-list", "--objects", "--glob=refs/*").splitlines()
    return {line.split()[0] for line in lines}


def lost(before: Inventory, tree: Path, repo: Path) -> Inventory:
    """What was there, is there no more, and no ref leads to."""
    # The tree first: what leaves it for a ref is seen in one of them.
    left = before.keys() - inventory(tree).keys() - reachable(repo)
    return {oid: before[oid] for oid in left}
