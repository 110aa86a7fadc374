"""Runs of each profile through a real daemon: what they find, and what is left of them."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from coachman_sandbox.profiles import PROFILES
from daemon_process import DaemonProcess, git
from shared_daemon import sh, shared_daemon
from sleepers import new_sleep, sleeping

CONFIG = """
[storage]
sealed = "{neutral}"
[agents.own]
adapter = "acp"
command = ["sh"]
files = [".own/rules"]
credential_files = [".own/login"]
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file; each has tasks of its own."""
    with shared_daemon(CONFIG) as process:
        yield process


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


# --- review ---


def test_a_review_changes_nothing(daemon: DaemonProcess, repo: Path) -> None:
    """It reads the tree and its history, writes files for whoever asked, and changes no file."""
    script = (
        "cat a.txt; git log --oneline | wc -l; git status --short; echo x > found.txt; rm a.txt;"
        " echo y > a.txt; git commit -qam no; echo report > /output/report; echo kept > ~/note"
    )
    result = sh(daemon, repo, script, task="read", profile="review")
    tree = Path(result["worktree"])

    assert result["final_message"].split() == ["first", "1"]
    assert (result["profile"], result["changed_files"], result["warnings"]) == ("review", [], [])
    assert result["commits"]["from"] == result["commits"]["to"] == git(repo, "rev-parse", "HEAD")
    assert [artifact["path"] for artifact in result["artifacts"]] == ["report"]
    assert sorted(path.name for path in tree.iterdir()) == [".git", "a.txt", "sub"]
    assert (tree / "a.txt").read_text() == "first\n"


def test_a_review_runs_beside_the_run_that_writes(daemon: DaemonProcess, repo: Path) -> None:
    """It sees what that wrote, and is no obstacle to it; a second writer is refused."""
    writer = live.keep(daemon, repo, "write made.txt by the writer", task="beside")
    live.until_parked(daemon, writer)
    result = sh(daemon, repo, "cat made.txt", task="beside", profile="review")
    with daemon.client() as client:
        refused = live.refused(client.run.start, "x", dir=str(repo), agent="demo", task="beside")
        diff = client.run.diff(result["run"])
    live.close(daemon, writer)
    reviewed = git(repo, "show", f"refs/coachman/run/{result['run']}:made.txt")

    assert result["final_message"].strip() == reviewed == "by the writer"
    assert refused.detail["holder"] == writer
    assert "--profile review" in str(refused.hint)
    assert (diff["files"], diff["patch"]) == ([], "")


def test_a_tree_that_is_being_read_is_not_cleaned_up(daemon: DaemonProcess, repo: Path) -> None:
    """A living review keeps the worktree of runs that have ended."""
    ended = sh(daemon, repo, "echo x > x", task="watched")
    reader = live.keep(daemon, repo, task="watched", profile="review")
    live.until_parked(daemon, reader)
    with daemon.client() as client:
        cleaned = client.daemon.cleanup(tasks=["watched"], dir=str(repo))
    there = Path(ended["worktree"], "x").exists()
    live.close(daemon, reader)

    assert there
    assert f"run {reader[-5:]} works in it" in str(cleaned)


def test_reviews_of_a_new_task_begin_side_by_side(daemon: DaemonProcess, repo: Path) -> None:
    """Each finds the worktree, whichever of them makes it."""
    options = {"agent": "command", "argv": ["cat", "a.txt"], "profile": "review", "task": "many"}
    runs = [at.start(daemon, repo, "", **options) for _ in range(3)]
    results = [at.result(daemon, run) for run in runs]

    assert [result["final_message"] for result in results] == ["first\n"] * 3


def test_a_review_is_resumed_in_its_session(daemon: DaemonProcess, repo: Path) -> None:
    """The private home that its session lies in is of the same policy."""
    first = at.start(daemon, repo, "say one", task="again", profile="review")
    at.result(daemon, first)
    with daemon.client() as client:
        second = client.run.resume(first, "say two")["run"]
    result = at.result(daemon, second)

    assert (result["outcome"], result["profile"]) == ("succeeded", "review")


# --- sealed ---


def neutral(daemon: DaemonProcess) -> Path:
    """Where its sealed runs have their directories."""
    found = re.search('sealed = "(.+)"', (daemon.root / "config.toml").read_text())
    assert found is not None
    return Path(found[1])


def test_a_sealed_run_needs_no_repository(daemon: DaemonProcess) -> None:
    """It finds an empty worktree that it cannot write, and hands files over in /output."""
    script = (
        "pwd; ls -A /workspace | wc -l; echo x > /workspace/x || echo refused;"
        " mkdir /output/a; echo report > /output/a/report; ln -s /etc/passwd /output/link"
    )
    result = sh(daemon, daemon.home, script, task="alone", profile="sealed")
    artifacts = Path(result["evidence_dir"], "artifacts")

    assert result["final_message"].split() == ["/workspace", "0", "refused"]
    assert (result["worktree"], result["base"], result["changed_files"]) == ("", "", [])
    assert [artifact["path"] for artifact in result["artifacts"]] == ["a/report"]
    assert result["warnings"] == ["left out of the artifacts: link (a link)"]
    assert sorted(str(p.relative_to(artifacts)) for p in artifacts.rglob("*")) == ["a", "a/report"]
    assert not Path(result["evidence_dir"], "output").exists()


def test_nothing_inside_tells_whose_a_sealed_run_is(daemon: DaemonProcess, repo: Path) -> None:
    """Neither variables nor mounts nor files name a place, a run, a task, a label or a zone."""
    script = "env; cat /proc/self/mountinfo /etc/hosts /etc/passwd; ls -lR /home /run; date +%Z"
    options = {"labels": {"team": "fathers"}, "env": {"TZ": "Asia/Tokyo"}, "title": "the-title"}
    result = sh(daemon, repo, script, task="the-task", profile="sealed", **options)
    said = result["final_message"]
    own = map(str, (daemon.root, daemon.home, daemon.state, repo))

    assert "COACHMAN_DEADLINE" in said
    assert said.rstrip().endswith("UTC")
    names = [*own, result["run"], "the-task", "the-title", "fathers", "Tokyo", "coachman_adapters"]
    assert [name for name in names if name in said] == []


def test_of_the_users_own_files_a_sealed_run_gets_the_login(daemon: DaemonProcess) -> None:
    """An agent's rules stay outside, where edit would copy them."""
    (daemon.home / ".own").mkdir()
    for name in ("rules", "login"):
        (daemon.home / ".own" / name).write_text(name)
    run = at.start(daemon, daemon.home, "x", agent="own", task="login", profile="sealed")
    at.until_event(daemon, run, lambda event: event["type"] == "attempt.started")
    with daemon.client() as client:
        client.run.cancel([run])
    at.result(daemon, run)

    assert [path.name for path in neutral(daemon).glob("*/own-*/.own/*")] == ["login"]


def test_a_sealed_run_is_resumed_and_cleaned_up(daemon: DaemonProcess) -> None:
    """Its session lies in its private home, which goes with all else when it is cleaned up."""
    first = at.start(daemon, daemon.home, "say one", task="sealed-again", profile="sealed")
    at.result(daemon, first)
    with daemon.client() as client:
        second = client.run.resume(first, "recall")["run"]
        result = at.result(daemon, second)
        others = set(neutral(daemon).iterdir())
        client.daemon.cleanup(tasks=["sealed-again"])
    gone = others - set(neutral(daemon).iterdir())

    assert "say one" in result["final_message"]
    assert len(gone) == 3
    with daemon.client() as client:
        assert live.refused(client.run.resume, second, "x").detail["reason"] == "no_home"
        assert live.refused(client.run.diff, second).name == "Conflict"


def test_what_needs_a_repository_is_refused_for_a_sealed_run(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A base says which one would be meant; without a repository, sealed is one way out."""
    start = {"dir": str(repo), "agent": "demo"}
    with daemon.client() as client:
        base = live.refused(client.run.start, "x", **start, profile="sealed", base="HEAD")
        nowhere = live.refused(client.run.start, "x", **{**start, "dir": str(daemon.home)})
        delegate = live.refused(
            client.run.start, "x", **start, profile="sealed", delegate={"depth": 1, "children": 1}
        )

    assert "no repository" in base.message
    assert "--profile sealed" in str(nowhere.hint)
    assert "gets no delegate: its agent is not to know which run" in delegate.message
    assert "edit, review" in str(delegate.hint)


def test_a_neutral_place_of_somebody_elses_is_refused(daemon: DaemonProcess) -> None:
    """Where others may enter, they could say what a sealed run is given."""
    place = neutral(daemon)
    place.chmod(0o755)
    try:
        with daemon.client() as client:
            options = {"dir": str(daemon.home), "agent": "demo", "profile": "sealed"}
            error = live.refused(client.run.start, "x", **options)
    finally:
        place.chmod(0o700)

    assert error.name == "BoundaryUnavailable"
    assert "others may enter it" in error.message


# --- host ---


def test_a_run_on_the_host_is_where_its_user_is(daemon: DaemonProcess, repo: Path) -> None:
    """The worktree at its own path, the user's home and files, the repository itself."""
    (daemon.home / "mine").write_text("of the user\n")
    script = (
        "pwd; cat ~/mine; id -u; echo made > made; git add made && git -c user.name=a"
        " -c user.email=a@b commit -qm native && git log --oneline | wc -l; ls -d /proc/1/root;"
        ' echo x > "$COACHMAN_OUTPUT/x"; : > "$COACHMAN_SCRATCH/s"; echo y > ~/left'
    )
    result = sh(daemon, repo, script, task="native", profile="host")
    said = result["final_message"].split("\n")

    assert said[:3] == [result["worktree"], "of the user", str(os.getuid())]
    assert said[3] == "2"
    assert [change["path"] for change in result["changed_files"]] == ["made"]
    assert [row["path"] for row in result["artifacts"]] == ["x"]
    assert (daemon.home / "left").read_text() == "y\n"
    assert result["network"] == "host"


def test_the_tree_of_a_run_on_the_host_dies_whole(daemon: DaemonProcess, repo: Path) -> None:
    """A child in a session of its own is gone after the run, though nothing else held it."""
    seconds = new_sleep()
    script = f"setsid sh -c 'sleep {seconds} & ' >/dev/null 2>&1 & until grep -qsx sleep"
    result = sh(daemon, repo, f"{script} /proc/[0-9]*/comm; do :; done", task="d", profile="host")

    assert result["outcome"] == "succeeded"
    assert sleeping(seconds) == []


def test_a_run_on_the_host_asks_and_its_rules_mean_its_own_paths(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Nothing is allowed by itself; a rule about the worktree is about its path on the host."""
    rules = [{"decide": "allow", "tool": ["edit"], "path": "*.txt"}]
    prompt = "write a.txt one\nwrite b.md two"
    run = at.start(daemon, repo, prompt, task="asks", profile="host", rules=rules)
    at.until_asked(daemon, run)
    with daemon.client() as client:
        [waiting] = client.permission.list(run, pending=True)["permissions"]
        client.permission.answer(waiting["request"], run=run, kind="reject_once")
    result = at.result(daemon, run)

    assert "b.md" in waiting["question"] + str(waiting["tool"])
    assert result["permissions"] == "ask"
    assert [change["path"] for change in result["changed_files"]] == ["a.txt"]


def test_what_a_confined_agent_wrote_is_not_run_on_the_host_unasked(
    daemon: DaemonProcess, repo: Path
) -> None:
    """It is refused by name, until the user says that the tree is trusted."""
    confined = sh(daemon, repo, "echo x > x", task="theirs")
    argv = {"agent": "command", "argv": ["true"], "profile": "host", "task": "theirs"}
    with daemon.client() as client:
        error = live.refused(client.run.start, "", dir=str(repo), **argv)
    trusted = sh(daemon, repo, "cat x", task="theirs", profile="host", trust_tree=True)

    assert (error.name, error.detail["run"]) == ("Denied", confined["run"])
    assert "--trust-tree" in str(error.hint)
    assert trusted["final_message"] == "x\n"


def test_what_a_run_on_the_host_cannot_have_is_refused(daemon: DaemonProcess, repo: Path) -> None:
    """No delegate, no network of its own, and trust is asked of no other profile."""
    start = {"dir": str(repo), "agent": "demo"}
    host = {**start, "profile": "host"}
    with daemon.client() as client:
        delegate = {"depth": 1, "children": 1}
        found = [
            live.refused(client.run.start, "x", **host, delegate=delegate).message,
            live.refused(client.run.start, "x", **host, network=["none"]).message,
            live.refused(client.run.start, "x", **start, trust_tree=True).message,
        ]

    assert "gets no delegate: its agent is not confined" in found[0]
    assert "has the host's network" in found[1]
    assert "only a run on the host trusts a tree" in found[2]


# --- looking at them ---


def test_who_has_no_hosts_is_told_so(daemon: DaemonProcess, repo: Path) -> None:
    """The demo agent has none, and a profile without an agent has nobody's."""
    for profile in ("review", "sealed"):
        unnamed = daemon.cli("profile", "explain", profile, cwd=repo).stdout
        named = daemon.cli("profile", "explain", profile, "-a", "demo", cwd=repo).stdout
        assert "network: nothing: no agent is named" in unnamed
        assert "network: nothing: demo declares no hosts" in named
    words = ("run", "--dry-run", "-a", "demo", "say hi")
    assert "network agent (demo has no hosts of its own" in daemon.cli(*words, cwd=repo).stdout
    named = daemon.cli(*words[:2], "--network", "none", *words[2:], cwd=repo).stdout
    assert "network none (nothing at all, and nobody notes what was tried)" in named


@pytest.mark.parametrize("profile", ["edit", "review", "sealed", "host"])
def test_what_is_compiled_can_be_seen_before_and_after(
    daemon: DaemonProcess, repo: Path, profile: str
) -> None:
    """Explained without a run, tried without one, and on record: one policy of one digest."""
    explained = daemon.cli("profile", "explain", profile, cwd=repo)
    words = ["run", "-p", profile, "-t", f"seen-{profile}", "-a", "demo", "say hi"]
    before = sorted(daemon.state.rglob("*"))
    dry = daemon.cli(*words, "--dry-run", "--json", cwd=repo)
    same = before == sorted(daemon.state.rglob("*"))
    ran = daemon.cli(*words, "-q", cwd=repo)
    shown = daemon.cli("show", f"seen-{profile}", "--policy", "--json", cwd=repo)
    compiled, recorded = (json.loads(each.stdout) for each in (dry, shown))

    assert (explained.returncode, dry.returncode, ran.returncode) == (0, 0, 0), ran.stderr
    assert PROFILES[profile].facts["worktree"] in explained.stdout
    assert same
    assert compiled["compiled"]["policy"]["digest"] == recorded["policy"]["digest"]
    assert compiled["compiled"]["policy"]["profile"] == recorded["policy"]["profile"] == profile
    assert recorded["executable"]["sha256"]
