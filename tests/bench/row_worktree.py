"""A large repository, and whether the daemon stays awake meanwhile."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import trio
from daemon_process import git
from figures import Figure, row
from timing import medians, percentile
from world import Bench, Connection, World, add_worktree, remove_worktree, request

from coachmand.repos.pool import GitWorkers

FILES = 20_000
TARGET_RATIO = 1.8
LAG_TARGET_MS = 20.0
PING_EVERY_S = 0.001


@row("worktree")
def measure(bench: Bench) -> Iterator[Figure]:
    """A worktree of 20,000 files, against git's; the daemon's lag while runs use such ones."""
    with bench.world() as world:
        repo = large_repository(world.root / "large")
        made, by_git = trio.run(_both, world, repo, bench.scale(5, 2))
        yield Figure(
            f"worktree of {FILES:,} files",
            made * 1000,
            "ms",
            "git worktree add --detach",
            by_git * 1000,
            f"≤ {TARGET_RATIO}×",
            made / by_git <= TARGET_RATIO,
        )
        world.start()
        with bench.echo() as echo, world.connect() as connection:
            calm = Pings(connection, echo)
            with calm:
                time.sleep(1.0)
            busy = Pings(connection, echo)
            with busy:
                for _ in range(bench.scale(4, 2)):
                    world.wait(world.run("say hi", repo))
        for name, percent in (("p99", 99.0), ("at worst", 100.0)):
            value = percentile(busy.daemon, percent) * 1000
            yield Figure(
                f"daemon.ping {name} while such runs come and go",
                value,
                "ms",
                "without them",
                percentile(calm.daemon, percent) * 1000,
                f"≤ {LAG_TARGET_MS:.0f} ms" if percent == 100 else "",
                value <= LAG_TARGET_MS if percent == 100 else None,
                {
                    "bare echo in the same time": f"{percentile(busy.echo, percent) * 1000:.2f} ms",
                    "pings": len(busy.daemon),
                },
            )


async def _both(world: World, repo: Path, times: int) -> tuple[float, float]:
    """Seconds for a worktree by the git worker, which is warm, and by git: medians."""
    common, head = str(repo / ".git"), git(repo, "rev-parse", "HEAD")
    ours: list[float] = []
    theirs: list[float] = []
    async with GitWorkers() as workers:
        for number in range(times + 1):
            tree = world.root / f"ours-{number}"
            begun = time.perf_counter()
            admin = await workers.create_worktree(common, tree.name, str(tree), head)
            ours.append(time.perf_counter() - begun)
            await workers.remove_worktree(common, admin, str(tree))
            hand = world.root / f"hand-{number}"
            begun = time.perf_counter()
            await trio.to_thread.run_sync(add_worktree, repo, hand)
            theirs.append(time.perf_counter() - begun)
            await trio.to_thread.run_sync(remove_worktree, repo, hand)
    found = medians(times - 1, iter(ours[1:]).__next__, iter(theirs[1:]).__next__)
    return found[0], found[1]


def large_repository(path: Path) -> Path:
    """A repository of many small files in folders of a hundred."""
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for number in range(FILES):
        if number % 100 == 0:
            (path / f"folder{number // 100}").mkdir()
        text = f"file {number}\n" * (1 + number % 100)
        (path / f"folder{number // 100}" / f"file{number}.txt").write_text(text)
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "many files")
    return path


class Pings:
    """Pings the daemon and a bare echo in turn from a thread, as long as the block lasts."""

    def __init__(self, daemon: Connection, echo: Connection) -> None:
        self.daemon: list[float] = []
        self.echo: list[float] = []
        self._servers = ((self.daemon, daemon), (self.echo, echo))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ping)

    def __enter__(self) -> "Pings":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()

    def _ping(self) -> None:
        line = request("daemon.ping")
        while not self._over.wait(PING_EVERY_S):
            for values, server in self._servers:
                values.append(server.round_trip(line))
