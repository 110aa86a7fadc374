"""The state directory: where every durable thing of a daemon has its place."""

import hashlib
import os
import re
from pathlib import Path

from attrs import frozen

from .. import durable

REPO_DIGEST_CHARACTERS = 12
NEUTRAL_CHARACTERS = 20


def repo_key(common_dir: str) -> str:
    """A repository's folder name: its own name, made unique by its common git directory."""
    path = Path(common_dir)
    name = path.parent.name if path.name == ".git" else path.name.removesuffix(".git")
    slug = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.") or "repo"
    digest = hashlib.sha256(os.fsencode(common_dir)).hexdigest()
    return f"{slug[:40]}-{digest[:REPO_DIGEST_CHARACTERS]}"


@frozen
class StateDirectory:
    """Paths below ``root``; ``worktrees`` may lie elsewhere (configuration).

    ``sealed`` always does: its path tells nothing of the user.
    """

    root: Path
    worktrees: Path
    sealed: Path

    @classmethod
    def at(
        cls, root: str, worktrees: str | None = None, sealed: str | None = None
    ) -> "StateDirectory":
        """The state directory at an absolute path; nothing is created."""
        base = Path(root)
        neutral = sealed or f"/var/tmp/coachman-{os.geteuid()}"  # noqa: S108 - it is checked
        return cls(base, Path(worktrees) if worktrees else base / "worktrees", Path(neutral))

    def create(self) -> None:
        """Make what must exist before anything is written."""
        tops = (self.runs, self.live, self.keys, self.owed, self.feeds, self.root / "tasks")
        for path in (*tops, self.worktrees):
            durable.make_directory(path)

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def live(self) -> Path:
        """Markers of the runs that have not ended: what recovery reads."""
        return self.root / "live"

    @property
    def keys(self) -> Path:
        """Claims of request keys."""
        return self.root / "keys"

    @property
    def owed(self) -> Path:
        """Markers of the runs that ended and whose sentinel is not written yet."""
        return self.root / "owed"

    @property
    def feeds(self) -> Path:
        """How far the programs came that runs' events are fed to, of each that lacks some."""
        return self.root / "feeds"

    @property
    def logins(self) -> Path:
        """What is needed while a login is renewed; else it is empty."""
        return self.root / "logins"

    @property
    def index(self) -> Path:
        return self.root / "index.db"

    def run(self, run: str) -> Path:
        return self.runs / run

    def tasks(self, repo: str) -> Path:
        return self.root / "tasks" / repo

    def worktree(self, repo: str, task: str) -> Path:
        return self.worktrees / repo / task

    def views(self, repo: str) -> Path:
        """What runs are shown of a repository, kept for each base."""
        return self.root / "views" / repo

    def homes(self, repo: str, task: str) -> Path:
        """All private homes of a task."""
        return self.root / "agents" / repo / task

    def sealed_run(self, run: str) -> Path:
        """What a sealed run is given and leaves, until it has ended."""
        return self._neutral("run", run)

    def sealed_homes(self, repo: str, task: str) -> Path:
        """All private homes of sealed runs of a task."""
        return self._neutral("task", repo, task)

    def _neutral(self, *names: str) -> Path:
        """A name that tells nothing; of this state directory, since others have the same tasks."""
        named = "\0".join((str(self.root), *names))
        return self.sealed / hashlib.sha256(os.fsencode(named)).hexdigest()[:NEUTRAL_CHARACTERS]
