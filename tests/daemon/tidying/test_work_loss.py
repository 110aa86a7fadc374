"""Random edits by hand, then the worktree goes: no byte of them is lost. The storm is in soak."""

import random
import shutil
from pathlib import Path

from coachmand.repos.pool import GitWorkers
from loss_edits import DECLARED, Person, inventory, lost
from repos_fixtures import git, make_repo

ROUNDS = 25
FILES = {"a.txt": b"1\n", "sub/b.txt": b"2\n", ".gitignore": b"*.log\n.env\nbuild/\n"}


async def test_whatever_was_edited_is_reachable_before_a_worktree_goes(tmp_path: Path) -> None:
    """Many worktrees, each edited at random: each is kept by a ref, or stays."""
    chance, repo = random.Random(4), tmp_path / "repo"
    base = make_repo(repo, FILES)
    common, went, salvaged = str(repo / ".git"), 0, 0
    async with GitWorkers() as workers:
        for number in range(ROUNDS):
            tree = tmp_path / f"tree-{number}"
            admin = await workers.create_worktree(common, f"task-{number}", str(tree), base)
            person = Person(tree, chance)
            for _ in range(chance.randrange(1, 8)):
                person.edit()
            before = inventory(tree)
            found = await workers.salvage(
                common,
                str(tree),
                run_refs=[],
                base=base,
                ref=f"refs/coachman/salvage/{number}",
                message="coachman: salvage",
                declared=[DECLARED],
                write=True,
            )
            if not found.refused:
                await workers.remove_worktree(common, admin, str(tree))
                went += 1
                salvaged += found.written is not None
            assert lost(before, tree, repo) == {}, (number, person.did, found)
            shutil.rmtree(tree, ignore_errors=True)
    assert ROUNDS / 4 < salvaged <= went < ROUNDS
    assert git(repo, "fsck", "--no-dangling") == ""
