"""What goes by itself with age, what never does, and what a full disk means for new runs."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coachman.errors import CoachmanError
from daemon_process import DaemonProcess

HOURS_AGO_MS = 30 * 86_400_000


def configure(daemon: DaemonProcess, text: str) -> None:
    """Stop the daemon, write its configuration; whoever calls starts it again."""
    daemon.stop()
    path = daemon.root / "config.toml"
    path.write_text(text)
    daemon.env["COACHMAN_CONFIG"] = str(path)


def ended(daemon: DaemonProcess, repo: Path, task: str) -> tuple[str, Path]:
    """A run to its end; its id and its worktree."""
    with daemon.client() as client:
        started = client.run.start("write made.txt x", dir=str(repo), agent="demo", task=task)
        client.run.wait([started["run"]])
        return str(started["run"]), Path(started["worktree"])


def make_old(daemon: DaemonProcess, run: str) -> None:
    """Let the run have ended a month ago, in its result and, for that, in the index."""
    path = daemon.state / "runs" / run / "result.json"
    result = json.loads(path.read_bytes())
    result["summary"]["ended_at"] -= HOURS_AGO_MS
    path.write_text(json.dumps(result))
    (daemon.state / "index.db").unlink(missing_ok=True)


def raw_logs(daemon: DaemonProcess, run: str) -> list[Path]:
    return list((daemon.state / "runs" / run / "attempts").rglob("stdout.*"))


def test_old_worktrees_that_a_ref_keeps_and_old_logs_go_by_themselves(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """At the next start: the young stay, and so does what no run recorded."""
    old, old_tree = ended(daemon, repo, "old")
    changed, changed_tree = ended(daemon, repo, "changed")
    young, young_tree = ended(daemon, repo, "young")
    (changed_tree / "mine.txt").write_text("by hand\n")
    daemon.stop()
    for run in (old, changed):
        make_old(daemon, run)
    daemon.start()

    eventually(lambda: not old_tree.exists() and not raw_logs(daemon, changed))
    eventually(lambda: not raw_logs(daemon, old))
    assert (changed_tree / "mine.txt").read_text() == "by hand\n"
    assert young_tree.is_dir()
    assert raw_logs(daemon, young)
    told = [json.loads(line) for line in daemon.log.splitlines() if "cleaned_up" in line]
    assert [(line["task"], line["worktree"]) for line in told if line["worktree"]] == [
        ("old", "removed")
    ]


def test_views_that_nobody_used_for_long_go_by_themselves(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """At the next start: what is kept to be shown to runs is made again when one needs it."""
    ended(daemon, repo, "t1")
    (about,) = daemon.state.glob("views/*/*/view.json")
    os.utime(about, (0, 0))
    daemon.stop()
    daemon.start()

    eventually(lambda: not about.parents[1].exists())
    ended(daemon, repo, "t2")
    assert about.exists()


def test_ages_are_configured(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """A second is enough for worktrees here, and logs stay for two months."""
    run, tree = ended(daemon, repo, "t1")
    configure(daemon, '[retention]\nworktrees = "1s"\nraw_logs = "60d"\n')
    time.sleep(1.1)
    daemon.start()

    eventually(lambda: not tree.exists())
    assert raw_logs(daemon, run)


def test_ignored_files_that_are_declared_are_work(daemon: DaemonProcess, repo: Path) -> None:
    """They are in the salvage record of a worktree that goes."""
    (repo / ".git/info/exclude").write_text(".env\n*.o\n")
    run, tree = ended(daemon, repo, "t1")
    (tree / ".env").write_text("KEY=1\n")
    (tree / "x.o").write_text("object\n")
    configure(daemon, '[retention]\nkeep_ignored = [".env"]\n')
    daemon.start()
    with daemon.client() as client:
        (task,) = client.daemon.cleanup(["t1"])["tasks"]

    assert task["salvage"] == f"refs/coachman/salvage/{run}"
    assert task["ignored_files"] == 1
    assert not tree.exists()


def test_below_the_floor_no_run_starts_and_the_numbers_are_named(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The error says what is free, what is needed, and what to do; looking still works."""
    run, _ = ended(daemon, repo, "t1")
    configure(daemon, '[retention]\nfree_space_floor = "4000TiB"\n')
    daemon.start()
    with daemon.client() as client:
        with pytest.raises(CoachmanError, match="are free at") as caught:
            client.run.start("say hi", dir=str(repo), agent="demo")
        assert client.run.result(run)["outcome"] == "succeeded"
    done = daemon.cli("run", "-d", "-a", "demo", "say hi", cwd=repo)
    status = daemon.cli("status").stdout

    error = caught.value
    assert error.name == "Degraded"
    assert error.next == [["coachman", "cleanup"]]
    floor = 4000 << 40
    assert isinstance(error.detail, dict)
    assert error.detail["floor_bytes"] == floor
    assert 0 < error.detail["free_bytes"] < floor
    assert done.returncode == 74
    assert "runs start from 4000.0 TiB on" in done.stderr
    assert "less than the 4000.0 TiB that a run needs: coachman cleanup" in status


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('free_space_floor = "2 GB"', "a size such as 512MiB or 2GiB"),
        ('worktrees = "soon"', "a duration such as"),
        ("keep_ignored = [1]", "an array of patterns"),
        ('worktree = "1d"', "did you mean `worktrees`"),
    ],
)
def test_mistakes_in_the_table_are_named(daemon: DaemonProcess, line: str, why: str) -> None:
    """A daemon does not start with them."""
    configure(daemon, f"[retention]\n{line}\n")
    with pytest.raises(AssertionError, match="did not start"):
        daemon.start()

    assert why in daemon.log
    assert not os.path.exists(daemon.socket)
