"""Verbs that read what is configured and installed, where no daemon runs."""

import json
from pathlib import Path

from client_daemon import coachman
from coachman.wire import EXIT_CONFIG, EXIT_NO_DAEMON, EXIT_NOT_FOUND


def test_agents_are_listed_without_a_daemon(state_dir: Path) -> None:
    """The daemon's program answers as a daemon would, and leaves nothing behind."""
    listed = coachman(state_dir, "agents", "--json")
    one = coachman(state_dir, "agents", "demo")
    unknown = coachman(state_dir, "agents", "demi")

    assert (listed.returncode, one.returncode) == (0, 0)
    assert {"claude", "demo"} <= {agent["name"] for agent in json.loads(listed.stdout)["agents"]}
    assert "installed    yes" in one.stdout
    assert (unknown.returncode, unknown.stderr.partition("\n")[0]) == (
        EXIT_NOT_FOUND,
        "cannot find agent 'demi'",
    )
    assert list(state_dir.iterdir()) == []


def test_profiles_are_explained_without_a_daemon(state_dir: Path) -> None:
    """Down to the compiled policy."""
    listed = coachman(state_dir, "profile", "list", "-q")
    explained = coachman(state_dir, "profile", "explain", "sealed", "-a", "demo", "--json")

    assert listed.stdout.split() == ["edit", "review", "sealed", "host"]
    assert json.loads(explained.stdout)["policy"]["profile"] == "sealed"
    assert list(state_dir.iterdir()) == []


def test_what_is_configured_counts_without_a_daemon(state_dir: Path) -> None:
    """An agent of one's own is listed; a file that cannot be read is an error with its reason."""
    config = state_dir / "c.toml"
    config.write_text('[agents.mine]\nadapter = "acp"\ncommand = ["mine", "--acp"]\n')
    there = coachman(state_dir, "agents", "-q", env={"COACHMAN_CONFIG": str(config)})
    config.write_text("agent = 7\n")
    broken = coachman(state_dir, "agents", env={"COACHMAN_CONFIG": str(config)})

    assert "mine" in there.stdout.split()
    assert (broken.returncode, "agent" in broken.stderr) == (EXIT_CONFIG, True)
    assert "next: coachman doctor" in broken.stderr


def test_a_daemon_of_ones_choice_is_not_stood_in_for(state_dir: Path) -> None:
    """Who names a socket wants that daemon's answer, and none of another."""
    named = coachman(state_dir, "agents", "--socket", str(state_dir / "none.sock"))
    set_so = coachman(state_dir, "agents", env={"COACHMAN_SOCKET": str(state_dir / "none.sock")})

    assert (named.returncode, set_so.returncode) == (EXIT_NO_DAEMON, EXIT_NO_DAEMON)


def test_only_what_needs_no_daemon_is_answered_without_one(state_dir: Path) -> None:
    """What would start, read or change runs is the daemon's alone."""
    assert coachman(state_dir, "status").returncode == EXIT_NO_DAEMON
    assert coachman(state_dir, "usage").returncode == EXIT_NO_DAEMON
