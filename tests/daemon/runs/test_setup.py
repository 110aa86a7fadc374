"""What a new worktree is given before an agent works in it: files of the user's, and a command."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from coachmand.config_reader import ConfigError, parse
from daemon_process import DaemonProcess, git
from sleepers import new_sleep, sleeping

SECRET = "canary-of-the-host-5150"


@pytest.fixture
def configured(daemon: DaemonProcess, repo: Path) -> Iterator[Callable[[str], None]]:
    """Gives the daemon a configuration for the repository."""

    def configure(text: str) -> None:
        daemon.stop()
        path = daemon.root / "config.toml"
        path.write_text(f'[repo."{repo}"]\n{text}\n')
        daemon.env["COACHMAN_CONFIG"] = str(path)
        daemon.start()

    yield configure
    assert "run_failed" not in daemon.log


def started(daemon: DaemonProcess, repo: Path, prompt: str, **options: Any) -> str:
    return at.start(daemon, repo, prompt, **options)


def told(daemon: DaemonProcess, run: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in daemon.events(run) if event["type"] == kind]


def test_files_are_copied_and_a_command_runs_before_the_agent(
    daemon: DaemonProcess, repo: Path, configured: Callable[[str], None]
) -> None:
    """Once for a worktree, and none of what came of it is the agent's work."""
    (repo / ".gitignore").write_text(".env*\n")
    git(repo, "add", ".gitignore")
    git(repo, "commit", "-qm", "ignore")
    (repo / ".env.test").write_text("TOKEN=of-mine\n")
    (repo / "tools").mkdir()
    (repo / "tools/go").write_text("#!/bin/sh\necho went\n")
    (repo / "tools/go").chmod(0o755)
    configured(
        'copy = [".env.test", "tools"]\n'
        'setup = "cat .env.test > installed; tools/go; echo again >> /workspace/.env-count"'
    )

    run = started(daemon, repo, "write agent.txt mine\nrun cat installed .env.test", task="t1")
    result = at.result(daemon, run)
    again = at.result(daemon, started(daemon, repo, "run cat .env-count\nsay done", task="t1"))

    assert result["outcome"] == "succeeded"
    assert [file["path"] for file in result["changed_files"]] == ["agent.txt"]
    (began,), (ended,) = told(daemon, run, "setup.started"), told(daemon, run, "setup.ended")
    assert began["command"].startswith("cat .env.test")
    assert (ended["exit"], ended["output"]) == (0, "went\n")
    tree = Path(result["worktree"])
    assert (tree / "installed").read_text() == "TOKEN=of-mine\n"
    assert (tree / ".env-count").read_text() == "again\n"
    assert again["outcome"] == "succeeded"
    types = [event["type"] for event in daemon.events(run)]
    assert types.index("setup.ended") < types.index("attempt.started")


def test_what_fails_fails_the_run_and_is_tried_again(
    daemon: DaemonProcess, repo: Path, configured: Callable[[str], None]
) -> None:
    """The run says how the command ended and what it wrote last; no agent was started."""
    configured('setup = "echo no such tool >&2; test -e /workspace/mended"')

    run = started(daemon, repo, "say hi", task="t1")
    failed = at.result(daemon, run)
    (Path(failed["worktree"]) / "mended").write_text("")
    mended = at.result(daemon, started(daemon, repo, "say hi", task="t1"))

    assert (failed["outcome"], failed["attempts"]) == ("failed", 0)
    message = failed["error"]["message"]
    assert message.startswith("cannot set the worktree up: `echo no such tool")
    assert message.endswith("ended with status 1: no such tool")
    assert mended["outcome"] == "succeeded"


def test_what_is_not_there_cannot_be_copied(
    daemon: DaemonProcess, repo: Path, configured: Callable[[str], None]
) -> None:
    """A file that is missing is named; what leads out of the checkout is no configuration."""
    configured('copy = ["missing.env"]')
    failed = at.result(daemon, started(daemon, repo, "say hi"))

    assert failed["outcome"] == "failed"
    assert f"missing.env, which is to be copied, is not in {repo}" in failed["error"]["message"]
    for wrong in ("../x", "/etc/passwd", "a/../../x", ".git/config", ""):
        with pytest.raises(ConfigError, match="plain paths below the checkout"):
            parse(f'[repo."{repo}"]\ncopy = ["{wrong}"]\n', "/home/u")


def test_links_of_the_checkout_lead_nowhere_else(
    daemon: DaemonProcess, repo: Path, configured: Callable[[str], None]
) -> None:
    """One to a file of the checkout is followed; below a folder others stay links, read by none."""
    secret = daemon.home / "secret"
    secret.write_text(SECRET)
    certs = repo / "certs"
    (certs / "deep").mkdir(parents=True)
    (certs / "deep" / "own").write_text("own\n")
    for name, target in {
        "followed": "deep/own",
        "folder": "deep",
        "up": "..",
        "gone": "nowhere",
        "out": str(secret),
        "home": str(daemon.home),
    }.items():
        (certs / name).symlink_to(target)
    configured('copy = ["certs"]')
    result = at.result(daemon, started(daemon, repo, "say hi"))
    copied = Path(result["worktree"]) / "certs"

    assert result["outcome"] == "succeeded", result["error"]
    assert sorted(path.name for path in copied.iterdir() if path.is_symlink()) == [
        *("folder", "gone", "home", "out", "up")
    ]
    assert (copied / "followed").read_text() == "own\n"
    regular = [path for path in copied.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.read_text() for path in regular} == {"own\n"}


@pytest.mark.parametrize("target", ["secret", "."])
def test_what_is_named_and_leads_out_of_the_checkout_is_refused(
    daemon: DaemonProcess, repo: Path, configured: Callable[[str], None], target: str
) -> None:
    """A commit that was merged could have made it a link, to a file or a folder of yours."""
    (daemon.home / "secret").write_text(SECRET)
    (repo / ".env").symlink_to(daemon.home / target)
    configured('copy = [".env"]')
    failed = at.result(daemon, started(daemon, repo, "say hi"))

    assert (failed["outcome"], failed["attempts"]) == ("failed", 0)
    assert f".env, which is to be copied, leads out of {repo}" in failed["error"]["message"]
    assert list(Path(failed["worktree"]).glob(".env*")) == []


def test_it_runs_behind_the_walls_of_its_run(
    daemon: DaemonProcess, repo: Path, configured: Callable[[str], None]
) -> None:
    """It sees neither the user's home nor the state, and cannot write to the repository."""
    (daemon.home / "secret").write_text(SECRET)
    look = f"cat {daemon.home}/secret; ls {daemon.state} {repo}; git tag mine; id -u; pwd; true"
    configured(f'setup = "{look}"')

    run = started(daemon, repo, "say hi", task="t1")
    assert at.result(daemon, run)["outcome"] == "succeeded"
    (ended,) = told(daemon, run, "setup.ended")

    assert SECRET not in ended["output"]
    assert ended["output"].count("No such file") == 3
    assert "coachman commits for you" in ended["output"]
    assert ended["output"].endswith("/workspace\n")
    assert git(repo, "tag") == ""


def test_a_cancel_ends_it(
    daemon: DaemonProcess,
    repo: Path,
    configured: Callable[[str], None],
    eventually: Callable[..., object],
) -> None:
    """Nothing of the command is left, and no agent is started."""
    seconds = new_sleep()
    configured(f'setup = "sleep {seconds}"')
    run = started(daemon, repo, "say hi", task="t1")
    eventually(lambda: sleeping(seconds))

    with daemon.client() as client:
        client.run.cancel([run])
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("cancelled", 0)
    eventually(lambda: not sleeping(seconds))


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_it_outlives_the_daemon(
    daemon: DaemonProcess,
    repo: Path,
    configured: Callable[[str], None],
    eventually: Callable[..., object],
    end: str,
) -> None:
    """The next daemon waits for the same command and then starts the agent."""
    configured(
        'setup = "echo once >> count; until [ -e /workspace/go ]; do sleep 0.05; done; echo done"'
    )
    run = started(daemon, repo, "write agent.txt x\nsay hi", task="t1")
    with daemon.client() as client:
        tree = Path(client.run.get(run)["worktree"])
    eventually((tree / "count").exists)

    getattr(daemon, end)()
    daemon.start()
    (tree / "go").write_text("")
    result = at.result(daemon, run)

    assert result["outcome"] == "succeeded"
    assert (tree / "count").read_text() == "once\n"
    assert len(told(daemon, run, "setup.started")) == 1
    assert [file["path"] for file in result["changed_files"]] == ["agent.txt"]
    assert json.dumps(told(daemon, run, "setup.ended")).count("done\\n") == 1
