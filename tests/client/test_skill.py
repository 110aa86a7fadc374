"""The page for agents is short, and every command in it does what it says."""

import json
import shlex
from pathlib import Path

import pytest

from coachman.cli import skill
from coachman.cli.main import VERBS
from daemon_process import DaemonProcess

MAX_TOKENS = 1500
# Below 64 a code is about the run; these two as well.
ABOUT_RUNS = (124, 130)


def commands() -> list[list[str]]:
    lines = [line.strip() for line in skill.TEXT.splitlines() if line.startswith("    ")]
    return [shlex.split(line) for line in lines]


def test_it_is_short(tmp_path: Path) -> None:
    """By both rules of thumb: four characters to a token, and three words to four."""
    assert len(skill.TEXT) / 4 < MAX_TOKENS
    assert len(skill.TEXT.split()) * 4 / 3 < MAX_TOKENS


def test_it_names_verbs_that_there_are() -> None:
    """No command is of another version."""
    assert {argv[0] for argv in commands()} == {"coachman"}
    assert {argv[1] for argv in commands()} <= set(VERBS)


def test_it_is_printed_without_a_daemon(state_dir: Path) -> None:
    """As text or as a document, with the version."""
    daemon = DaemonProcess(state_dir)
    text = daemon.cli("skill")
    document = daemon.cli("skill", "--json")

    assert (text.returncode, document.returncode) == (0, 0)
    assert text.stdout.startswith("# coachman ")
    assert json.loads(document.stdout)["skill"].strip() == text.stdout.strip()


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_every_command_runs(daemon: DaemonProcess, repo: Path, form: tuple[str, ...]) -> None:
    """One after the other, as an agent would; none is misunderstood, and none fails in coachman."""
    env = {"COACHMAN_AGENT": "demo"}
    failed = []
    for argv in commands():
        done = daemon.cli(*argv[1:], *form, cwd=repo, env=env)
        if done.returncode >= 64 and done.returncode not in ABOUT_RUNS:
            failed.append((argv, done.returncode, done.stdout + done.stderr))
        if form:
            json.loads(done.stdout)

    assert failed == []
