"""From inside a real run: what its agent can reach, and what is left of it afterwards."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon_process import DaemonProcess, git
from sleepers import new_sleep, sleeping

SECRET = "canary-0123456789abcdef"


@pytest.fixture
def guarded(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon with a secret in its environment and one in its user's home."""
    env = {"MY_TOKEN": SECRET, "OPENAI_API_KEY": SECRET}
    process = DaemonProcess(state_dir, env, sys.executable)
    (process.home / ".netrc").write_text(SECRET)
    process.start()
    yield process
    process.tidy()


def inside(daemon: DaemonProcess, repo: Path, script: str, task: str = "t1") -> str:
    """What a shell script says from inside a run of that task."""
    ran = daemon.cli("run", "-t", task, "-a", "command", "--", "/bin/sh", "-c", script, cwd=repo)
    assert ran.returncode in (0, 1, 6), ran.stderr
    result = json.loads(daemon.cli("result", task, "--json", cwd=repo).stdout)
    return (Path(result["evidence_dir"]) / "final.md").read_text()


def test_home_state_and_socket_of_the_host_are_not_there(
    guarded: DaemonProcess, repo: Path
) -> None:
    """Neither the user's home, nor the state directory, nor the control socket can be read."""
    paths = [guarded.home / ".netrc", guarded.state, guarded.socket, repo, "/root", "/home"]
    script = "; ".join(f'cat "{path}" 2>/dev/null; ls "{path}" 2>/dev/null' for path in paths)

    assert inside(guarded, repo, f"{script}; echo end").strip() == "agent\nend"


def test_other_runs_are_not_there(guarded: DaemonProcess, repo: Path) -> None:
    """A run sees its own directories only: the file of another task is nowhere to be found."""
    inside(guarded, repo, "echo x > /workspace/of-another-task; echo x > /output/of-another-run")
    found = inside(guarded, repo, "find / -name 'of-another-*' 2>/dev/null; echo end", "t2")

    assert found.strip() == "end"


def test_the_repository_cannot_be_written_but_read(guarded: DaemonProcess, repo: Path) -> None:
    """git status, log, diff and blame work; add says in one line that coachman commits."""
    said = inside(
        guarded,
        repo,
        "echo more >> a.txt; git status --short; git log --oneline; git diff --stat;"
        " git blame -s a.txt | wc -l; git add a.txt 2>&1; git commit -qm x 2>&1; echo end",
    )

    assert "M a.txt" in said
    assert "coachman commits for you" in said
    assert said.count("coachman commits for you") == 2
    assert git(repo, "log", "--oneline").count("\n") == 0


def test_no_process_inside_shows_a_secret(guarded: DaemonProcess, repo: Path) -> None:
    """No environ and no cmdline in /proc holds a secret that the agent was not given."""
    said = inside(
        guarded, repo, "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; echo end"
    )

    assert "PATH=" in said
    assert SECRET not in said


def test_what_is_planted_in_the_home_leads_nowhere(guarded: DaemonProcess, repo: Path) -> None:
    """A symlink left in the private home, also where a mount could go, reaches no host file."""
    inside(
        guarded,
        repo,
        f"ln -s {guarded.home} ~/host; ln -s {guarded.home} ~/.config; ln -s / ~/root; echo",
    )
    said = inside(
        guarded, repo, "cat ~/host/.netrc ~/.config/.netrc 2>&1; ls ~/root/home; echo end"
    )

    assert SECRET not in said
    assert said.strip().endswith("agent\nend")


def test_a_daemonized_child_is_gone_after_the_run(guarded: DaemonProcess, repo: Path) -> None:
    """A child in its own session, double-forked, does not outlive the run."""
    seconds = new_sleep()
    daemonized = f"setsid sh -c 'sleep {seconds} & ' >/dev/null 2>&1 &"
    begun = "until grep -qsx sleep /proc/[0-9]*/comm; do :; done"

    assert inside(guarded, repo, f"{daemonized} {begun}; echo end") == "end\n"
    assert sleeping(seconds) == []


def test_the_worktree_is_all_that_changed_on_the_host(guarded: DaemonProcess, repo: Path) -> None:
    """An agent that writes wherever it can leaves the host as it was but for its own places."""
    before = _listing(guarded.home) | _listing(repo, skip=".git")
    inside(
        guarded,
        repo,
        "for d in / /usr /etc /home /run /var /opt /git* ; do echo x > $d/left 2>/dev/null; done;"
        " echo x > /workspace/left; echo x > /scratch/left; echo x > ~/left; echo end",
    )

    assert _listing(guarded.home) | _listing(repo, skip=".git") == before


def _listing(path: Path, skip: str = "") -> set[str]:
    return {str(p) for p in path.rglob("*") if not skip or skip not in p.parts}
