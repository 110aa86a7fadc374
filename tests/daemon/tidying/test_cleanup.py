"""What ended runs left goes when it is told to, and nothing that only it held is lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coachman
from coachman.errors import CoachmanError
from daemon_process import DaemonProcess, git


def run(
    client: coachman.Client, repo: Path, prompt: str = "write made.txt made\nsay done", **more: Any
) -> str:
    """A run to its end; its id."""
    started = client.run.start(dir=str(repo), agent="demo", prompt=prompt, **more)
    client.run.wait([started["run"]])
    return str(started["run"])


def tree_of(client: coachman.Client, run: str) -> Path:
    return Path(client.run.get(run)["worktree"])


def task_record(daemon: DaemonProcess, task: str) -> dict[str, Any]:
    (path,) = daemon.state.glob(f"tasks/*/{task}.json")
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def logs(daemon: DaemonProcess, run: str) -> list[str]:
    names = (path.name for path in (daemon.state / "runs" / run / "attempts").rglob("*"))
    return sorted(name for name in names if name.startswith(("stdout", "stderr", "stdin")))


def test_without_a_selector_nothing_goes_and_everything_is_told(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A preview with bytes for each task; the daemon's files are as before."""
    with daemon.client() as client:
        made = run(client, repo, task="t1")
        found = client.daemon.cleanup()
        again = client.daemon.cleanup(dry_run=True, tasks=["t1"])
        tree = tree_of(client, made)

    (task,) = found["tasks"]
    assert (found["dry_run"], task["task"], task["state"]) == (True, "t1", "removed")
    assert [row["run"] for row in task["runs"]] == [made]
    assert all(task[f"{part}_bytes"] > 0 for part in ("worktree", "log"))
    parts = ("worktree", "home", "log")
    assert found["bytes"] == task["bytes"] == sum(task[f"{part}_bytes"] for part in parts)
    assert again["tasks"] == found["tasks"]
    assert tree.is_dir()
    assert logs(daemon, made)


def test_what_a_run_was_asked_said_and_made_stays(daemon: DaemonProcess, repo: Path) -> None:
    """Worktree, entry, homes and logs go; diff, log, show, result and the ref do not."""
    with daemon.client() as client:
        made = run(
            client, repo, "write made.txt made\nrun echo art > /output/art\nsay done", task="t1"
        )
        before = (client.run.diff(made), client.run.log(made), client.run.result(made))
        tree = tree_of(client, made)
        (home,) = (daemon.state / "agents").glob("*/t1")
        done = client.daemon.cleanup(["t1"])
        after = (client.run.diff(made), client.run.log(made), client.run.result(made))
        details = client.run.get(made)

    (task,) = done["tasks"]
    assert (task["state"], task["salvage"], task["differs"]) == ("removed", None, [])
    assert task["commit"] == git(repo, "rev-parse", f"refs/coachman/run/{made}")
    assert not tree.exists()
    assert not home.exists()
    assert str(tree) not in git(repo, "worktree", "list")
    assert logs(daemon, made) == []
    assert before[:2] == after[:2]
    changed = {"cleaned", "resumable", "summary"}
    kept = {k: v for k, v in after[2].items() if k not in changed}
    assert kept == {k: v for k, v in before[2].items() if k not in changed}
    assert before[2]["resumable"] == {"ok": True, "why": None}
    assert after[2]["resumable"]["why"] == "the worktree of task t1 is gone"
    assert all(after[2]["cleaned"].values())
    assert details["bytes"] == before[2]["bytes"]["all"] - before[2]["bytes"]["logs"]
    evidence = daemon.state / "runs" / made
    assert (evidence / "artifacts/art").read_text() == "art\n"
    assert (evidence / "final.md").read_text() == "done"


def test_cleaning_up_again_finds_nothing(daemon: DaemonProcess, repo: Path) -> None:
    """The second time there is nothing left, also for a daemon that made its index anew."""
    with daemon.client() as client:
        run(client, repo, task="t1")
        client.daemon.cleanup(all=True)
        assert client.daemon.cleanup(all=True)["tasks"] == []
        client.daemon.reindex()
        assert client.daemon.cleanup(all=True)["tasks"] == []


def test_a_tree_that_was_changed_after_its_run_is_salvaged_first(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Changed, untracked and committed by hand: a ref leads to all of it."""
    with daemon.client() as client:
        made = run(client, repo, task="t1")
        tree = tree_of(client, made)
        (tree / "a.txt").write_text("committed by hand\n")
        git(tree, "commit", "-q", "-a", "-m", "mine")
        mine = git(tree, "rev-parse", "HEAD")
        (tree / "new.txt").write_text("untracked\n")
        (task,) = client.daemon.cleanup(["t1"])["tasks"]

    ref = f"refs/coachman/salvage/{made}"
    assert (task["state"], task["salvage"]) == ("removed", ref)
    assert git(repo, "show", f"{ref}:new.txt") == "untracked"
    assert git(repo, "show", f"{ref}:a.txt") == "committed by hand"
    assert mine in git(repo, "rev-list", ref).splitlines()
    assert not tree.exists()


def test_a_tree_that_no_commit_can_hold_stays_with_the_reason(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A repository inside it; its raw logs go all the same, and the exit code says so."""
    with daemon.client() as client:
        made = run(client, repo, task="t1")
        tree = tree_of(client, made)
        git(tree, "init", "-q", "inner")
    done = daemon.cli("cleanup", "t1", cwd=repo)

    assert (done.returncode, done.stderr) == (76, "")
    assert "stays: no commit can hold inner/.git: a repository inside the tree" in done.stdout
    assert f"move it out of {tree} or delete it there" in done.stdout
    assert (tree / "inner/.git").is_dir()
    assert logs(daemon, made) == []
    shutil.rmtree(tree / "inner")
    assert daemon.cli("cleanup", "t1", cwd=repo).returncode == 0
    assert not tree.exists()


def test_a_living_run_keeps_its_worktree_and_its_logs(daemon: DaemonProcess, repo: Path) -> None:
    """Also those of the task's earlier runs stay whole as long as one of them lives."""
    with daemon.client() as client:
        first = run(client, repo, task="t1")
        living = client.run.start(
            dir=str(repo), agent="demo", task="t1", prompt="sleep 60", keep=False
        )["run"]
        (task,) = client.daemon.cleanup(all=True)["tasks"]
        tree = tree_of(client, first)
        client.run.cancel([living])
        client.run.wait([living])

    assert (task["state"], task["why"]) == ("kept", f"run {living[-5:]} works in it")
    assert [row["run"] for row in task["runs"]] == [first]
    assert tree.is_dir()
    assert logs(daemon, living)


def test_a_worktree_stays_while_one_of_its_runs_was_not_chosen(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Only the chosen run's logs go; with the other one chosen the rest goes as well."""
    with daemon.client() as client:
        first, second = (run(client, repo, task="t1") for _ in range(2))
        tree = tree_of(client, first)
        (task,) = client.daemon.cleanup([first])["tasks"]
        assert task["why"] == f"run {second[-5:]} worked in it as well and was not chosen"
        assert (logs(daemon, first), bool(logs(daemon, second))) == ([], True)
        assert tree.is_dir()
        (task,) = client.daemon.cleanup([second])["tasks"]

    assert task["state"] == "kept"
    with daemon.client() as client:
        (task,) = client.daemon.cleanup(["t1"])["tasks"]
    assert task["state"] == "removed"
    assert not tree.exists()


def test_the_next_run_of_a_task_begins_where_its_worktree_ended(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Its tree comes back from the commit that kept it, what was changed by hand included."""
    with daemon.client() as client:
        first = run(client, repo, task="t1")
        tree = tree_of(client, first)
        (tree / "by-hand.txt").write_text("mine\n")
        client.daemon.cleanup(["t1"])
        second = run(client, repo, "write more.txt more\nsay done", task="t1")
        files = [change["path"] for change in client.run.diff(second)["files"]]
        whole = [change["path"] for change in client.run.diff(task="t1", dir=str(repo))["files"]]

    assert (tree / "by-hand.txt").read_text() == "mine\n"
    assert (tree / "made.txt").read_text() == "made\n"
    assert files == ["more.txt"]
    assert whole == ["by-hand.txt", "made.txt", "more.txt"]
    assert task_record(daemon, "t1")["kept"] is None


@pytest.mark.parametrize("step", ["whole", "half deleted", "tree gone", "all gone"])
def test_a_removal_that_was_interrupted_is_finished_by_the_next_daemon(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object], step: str
) -> None:
    """Killed behind the record that says it goes: half a tree is nobody's work."""
    with daemon.client() as client:
        made = run(client, repo, task="t1")
        tree = tree_of(client, made)
    daemon.kill()
    (path,) = daemon.state.glob("tasks/*/t1.json")
    record = json.loads(path.read_bytes())
    commit = git(repo, "rev-parse", f"refs/coachman/run/{made}")
    path.write_text(json.dumps({**record, "kept": commit, "going": True}))
    if step == "half deleted":
        (tree / "a.txt").unlink()
        (tree / "sub").rename(tree / ".coachman-delete-0")
    elif step != "whole":
        shutil.rmtree(tree)
    if step == "all gone":
        shutil.rmtree(repo / ".git/worktrees")
    daemon.start()

    eventually(lambda: task_record(daemon, "t1")["admin"] is None)
    assert not tree.exists()
    assert str(tree) not in git(repo, "worktree", "list")
    assert not git(repo, "for-each-ref", "refs/coachman/salvage")
    with daemon.client() as client:
        run(client, repo, "say hi", task="t1")
    assert (tree / "made.txt").read_text() == "made\n"
    assert (tree / "sub/b.txt").read_text() == "second\n"


def test_selectors_narrow_what_goes(daemon: DaemonProcess, repo: Path) -> None:
    """By outcome, age, size and part; several of them must all hold."""
    with daemon.client() as client:
        run(client, repo, task="good")
        run(client, repo, "fail badly", task="other", labels={"a": "b"})
        outcome = {row["task"]: row["outcome"] for row in client.run.list(all=True)["runs"]}

        def tasks(**selectors: Any) -> list[str]:
            done = client.daemon.cleanup(dry_run=True, **selectors)
            return [task["task"] for task in done["tasks"]]

        assert tasks(outcome=["succeeded"]) == [t for t in outcome if outcome[t] == "succeeded"]
        assert tasks(older_than_s=3600) == []
        assert tasks(older_than_s=0) == ["good", "other"]
        assert tasks(larger_than=1 << 40) == []
        assert tasks(tasks=["good"], outcome=["lost"]) == []
        client.daemon.cleanup(tasks=["good"], only="logs")
        assert task_record(daemon, "good")["admin"]
        client.daemon.cleanup(tasks=["good"], only="worktrees")
        assert task_record(daemon, "good")["admin"] is None


@pytest.mark.parametrize(
    "filters",
    [{"older_than_s": 0}, {"larger_than": 1}, {"outcome": ["succeeded"]}, {"only": "logs"}],
)
def test_filters_alone_remove_nothing(
    daemon: DaemonProcess, repo: Path, filters: dict[str, Any]
) -> None:
    """On the wire as on the command line they only tell; with `all` what they leave goes."""
    with daemon.client() as client:
        ended = run(client, repo, task="t1")
        logs = daemon.state / "runs" / ended / "attempts" / "1" / "stdout.0"
        told = client.daemon.cleanup(**filters)
        assert (told["dry_run"], [task["task"] for task in told["tasks"]]) == (True, ["t1"])
        assert task_record(daemon, "t1")["admin"]
        assert logs.exists()
        done = client.daemon.cleanup(all=True, **filters)

    assert not done["dry_run"]
    assert not logs.exists()


def test_unknown_names_are_refused(daemon: DaemonProcess, repo: Path) -> None:
    """Nothing is cleaned up instead."""
    with daemon.client() as client:
        run(client, repo, task="t1")
        for selectors in ({"tasks": ["t2"]}, {"runs": ["zzzzz"]}):
            with pytest.raises(CoachmanError, match="cannot find"):
                client.daemon.cleanup(**selectors)
        with pytest.raises(CoachmanError, match="choose"):
            client.daemon.cleanup(outcome=["fine"])


def test_the_command_line_tells_and_removes(daemon: DaemonProcess, repo: Path) -> None:
    """A table for people, a document for programs, names for scripts."""
    with daemon.client() as client:
        made = run(client, repo, task="t1")
        (tree_of(client, made) / "new.txt").write_text("x\n")
    told = daemon.cli("cleanup", cwd=repo)
    document = json.loads(daemon.cli("cleanup", "--json", cwd=repo).stdout)
    quiet = daemon.cli("cleanup", "--all", "-q", cwd=repo)
    empty = daemon.cli("cleanup", "--all", cwd=repo)
    shown = daemon.cli("show", made, cwd=repo).stdout
    wide = daemon.cli("list", "-o", "wide", cwd=repo).stdout

    assert "t1" in told.stdout
    assert "can go" in told.stdout
    assert f"would be kept in refs/coachman/salvage/{made}: files that no run" in told.stdout
    assert document["dry_run"] is True
    assert (quiet.stdout, quiet.returncode) == ("t1\n", 0)
    assert empty.stdout == "nothing to clean up\n"
    assert "resumable    no: the worktree of task t1 is gone" in shown
    assert "raw logs removed" in shown
    assert "DISK" in wide
    for words in (["--older-than", "x"], ["--larger-than", "2XB"], ["--only", "all"]):
        assert daemon.cli("cleanup", *words).returncode == 64


@pytest.mark.parametrize(
    "words", [("--larger-than", "1B"), ("--older-than", "0"), ("--only", "worktrees")]
)
def test_a_filter_alone_removes_nothing(
    daemon: DaemonProcess, repo: Path, words: tuple[str, ...]
) -> None:
    """It narrows what is told; the command that removes that is named, and does."""
    with daemon.client() as client:
        made = run(client, repo, task="t1")
        tree = tree_of(client, made)
    told = daemon.cli("cleanup", *words, cwd=repo)
    dry = daemon.cli("cleanup", *words, "--all", "--dry-run", cwd=repo)
    none = daemon.cli("cleanup", "--larger-than", "1TiB", cwd=repo)
    stood = tree.is_dir()
    done = daemon.cli("cleanup", *words, "--all", cwd=repo)

    assert stood
    assert f": coachman cleanup {' '.join(words)} TASK, or --all\n" in told.stdout
    assert dry.stdout == told.stdout
    assert none.stdout == "nothing to clean up\n"
    assert "freed, 1 task" in done.stdout
    assert not tree.exists()


def test_what_belongs_to_no_record_is_named_and_left_alone(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A worktree and a home without a task, a run without an end: never removed."""
    with daemon.client() as client:
        run(client, repo, task="t1")
        places = [
            daemon.state / "worktrees/r-0/lost",
            daemon.state / "agents/r-0/lost",
            daemon.state / "runs/261129-220417-k7q3x",
        ]
        for place in places:
            place.mkdir(parents=True)
        found = client.daemon.cleanup(all=True)["findings"]

    assert [(f["kind"], f["path"]) for f in found] == [
        (kind, str(place)) for kind, place in zip(("worktree", "home", "run"), places, strict=True)
    ]
    assert all(place.is_dir() for place in places)
    assert all(f"rm -rf {f['path']}" in f["remedy"] for f in found)
