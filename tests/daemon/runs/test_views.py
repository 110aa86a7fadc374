"""At the socket: what a run sees of its repository, and what is kept of that for the next one."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coachman.client import Client
from coachmand.evidence.state import repo_key
from coachmand.failpoints import VARIABLE, VIEW_STEPS
from daemon_process import DaemonProcess, git
from repos_fixtures import commit_all, write

CANARY = "canary-0815-of-another-branch"


@pytest.fixture(scope="module")
def shared() -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file: each has a repository of its own."""
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as root:
        process = DaemonProcess(Path(root))
        process.start()
        yield process
        process.tidy()


def said(client: Client, repo: Path, script: str, task: str, **options: object) -> str:
    """What a shell script says from inside a run."""
    argv = ["/bin/sh", "-c", script]
    started = client.run.start("", dir=str(repo), agent="command", argv=argv, task=task, **options)
    client.run.wait([started["run"]])
    result = client.run.result(started["run"])
    assert result["outcome"] == "succeeded", result
    return str(result["final_message"])


def kept(daemon: DaemonProcess, repo: Path) -> dict[str, set[str]]:
    """The packs of each view of a repository, by base."""
    views = views_of(daemon, repo).glob("[!.]*")
    return {view.name: {path.name for path in view.glob("pack/*.pack")} for view in views}


def views_of(daemon: DaemonProcess, repo: Path) -> Path:
    """Where the views of a repository are kept."""
    return daemon.state / "views" / repo_key(str(repo / ".git"))


def test_a_blob_of_another_branch_cannot_be_read(shared: DaemonProcess, repo: Path) -> None:
    """Neither its id, nor its branch, nor any file leads to it, and no trace is in the packs."""
    git(repo, "checkout", "-q", "-b", "secret")
    write(repo, {"canary.txt": CANARY.encode()})
    commit_all(repo)
    blob = git(repo, "rev-parse", "secret:canary.txt")
    git(repo, "checkout", "-q", "main")

    with shared.client() as client:
        found = said(
            client,
            repo,
            f"git cat-file -p {blob}; git show secret:canary.txt; git log --all --format=%s;"
            "git cat-file --batch-all-objects --batch-check; git branch -a; echo end",
            "look",
        )

    assert blob not in found
    assert CANARY not in found
    assert "secret" not in found
    assert found.endswith("end\n")
    assert git(repo, "cat-file", "-p", blob) == CANARY


def test_reading_works_and_what_a_run_saw_goes_with_it(shared: DaemonProcess, repo: Path) -> None:
    """status, diff, log and blame say what they say outside; the run's directory is gone then."""
    write(repo, {"b.txt": b"1\n2\n"})
    commit_all(repo)
    commands = "git log --format=%H; git blame -s b.txt; git show --stat; git status --short"

    with shared.client() as client:
        inside = said(client, repo, f"{commands}; echo 3 >> b.txt; git diff", "read")
        tree = Path(client.task.get("read", dir=str(repo))["worktree"])
        (run,) = client.task.get("read", dir=str(repo))["runs"]

    git(tree, "checkout", "-q", "--", "b.txt")
    before = "\n".join(git(tree, *each.split()[1:]) for each in commands.split("; ")[:3])
    assert inside.startswith(before)
    assert inside.endswith("+3\n")
    assert not (shared.state / "runs" / str(run) / "git").exists()


def test_a_second_run_packs_nothing_and_one_on_a_child_an_increment(
    shared: DaemonProcess, repo: Path
) -> None:
    """Runs on one base share its packs; one on a commit that follows has those and one more."""
    base = git(repo, "rev-parse", "HEAD")
    with shared.client() as client:
        said(client, repo, "git log", "one")
        first = kept(shared, repo)
        said(client, repo, "git log", "two")
        again = kept(shared, repo)
        write(repo, {"c.txt": b"c"})
        child = commit_all(repo)
        seen = said(client, repo, "git show --stat --format=%H; git fsck --full 2>&1", "three")
        then = kept(shared, repo)

    assert set(first) == {base}
    assert again == first
    assert set(then) == {base, child}
    assert then[child] > first[base]
    assert len(then[child]) == 2
    assert seen.startswith(child)
    assert "missing" not in seen


def test_a_run_that_goes_on_sees_what_was_staged_meanwhile(
    shared: DaemonProcess, repo: Path
) -> None:
    """A person stages and commits in the task's worktree: the next run sees both."""
    with shared.client() as client:
        said(client, repo, "echo made > made.txt", "on")
        tree = Path(client.task.get("on", dir=str(repo))["worktree"])
        git(tree, "add", "made.txt")
        git(tree, "commit", "-q", "-m", "by hand")
        write(tree, {"staged.txt": b"staged by hand\n"})
        git(tree, "add", "staged.txt")
        seen = said(
            client, repo, "git log -1 --format=%s; git show :staged.txt; git status --short", "on"
        )

    assert seen == "by hand\nstaged by hand\nA  staged.txt\n"


def test_a_kept_view_may_go_while_a_run_uses_it(
    shared: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The run has links of its own, and the next one has the view made anew."""
    script = "until [ -e /workspace/go ]; do sleep 0.05; done; git log --format=%s; git fsck"
    with shared.client() as client:
        argv = ["/bin/sh", "-c", f"touch /workspace/ready; {script}"]
        run = client.run.start("", dir=str(repo), agent="command", argv=argv, task="held")["run"]
        tree = Path(client.run.get(run)["worktree"])
        eventually((tree / "ready").exists)
        shutil.rmtree(views_of(shared, repo))
        (tree / "go").touch()
        client.run.wait([run])
        result = client.run.result(run)
        said(client, repo, "git log", "after")

    assert result["outcome"] == "succeeded"
    assert set(kept(shared, repo)) == {git(repo, "rev-parse", "HEAD")}


def test_on_the_host_itself_no_view_is_made(shared: DaemonProcess, repo: Path) -> None:
    """Such a run has the repository, and commits in it as its user would."""
    commit = "git -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m mine"
    with shared.client() as client:
        seen = said(client, repo, f"{commit}; git log -1 --format=%s", "native", profile="host")

        assert seen == "mine\n"
        assert not views_of(shared, repo).exists()
        assert said(client, repo, "git log -1 --format=%s", "native") == "mine\n"
    assert len(kept(shared, repo)) == 1


@pytest.mark.parametrize("step", VIEW_STEPS)
def test_a_kill_while_a_view_is_made_fails_one_run_and_spoils_none(
    daemon: DaemonProcess, repo: Path, step: str
) -> None:
    """The process that packs is killed: that run says why, the next one sees everything."""
    daemon.kill()
    daemon.env[VARIABLE] = f"{step}:kill"
    daemon.start()
    with daemon.client() as client:
        start = {"dir": str(repo), "agent": "command", "argv": ["git", "log"]}
        run = client.run.start("", task="killed", **start)["run"]
        client.run.wait([run])
        result = client.run.result(run)
    daemon.kill()
    del daemon.env[VARIABLE]
    daemon.start()
    with daemon.client() as client:
        seen = said(client, repo, "git log --format=%H; git fsck --full 2>&1", "next")

    if step != "view.placed":
        assert result["outcome"] == "failed"
        assert "cannot make view: its process died of SIGKILL" in result["error"]["message"]
    assert seen.startswith(git(repo, "rev-parse", "HEAD"))
    assert "missing" not in seen
    assert set(kept(daemon, repo)) == {git(repo, "rev-parse", "HEAD")}
