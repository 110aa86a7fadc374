"""Agents of a configuration: what is missing of them, and a file that changed since the start."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import coachman
import recovery_state as at
from coachmand.runs.preparing.missing import CHANGED
from daemon_process import DaemonProcess

ONE = """
[agents.one]
adapter = "acp"
command = ["qwn", "--acp"]

[agents.placed]
adapter = "claude"
executable = "/nowhere/claude"
"""
TWO = (
    ONE
    + """
[agents.two]
adapter = "demo"
"""
)
Ask = Callable[[], object]


@pytest.fixture
def config(state_dir: Path) -> Path:
    path = state_dir / "config.toml"
    path.write_text(ONE)
    return path


@pytest.fixture
def configured(state_dir: Path, config: Path) -> Iterator[DaemonProcess]:
    """A daemon that has read the file."""
    process = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)})
    yield process.start()
    process.tidy()


def refusal(ask: Ask) -> coachman.CoachmanError:
    """What the daemon says instead of doing it."""
    with pytest.raises(coachman.CoachmanError) as caught:
        ask()
    return caught.value


def listed(daemon: DaemonProcess, name: str) -> object:
    """What the daemon knows of an agent."""
    with daemon.client() as client:
        return client.agent.list(name)


@pytest.mark.parametrize(
    ("agent", "hint"),
    [
        ("one", "install qwn and have it on PATH, or mend `command` of [agents.one]"),
        ("placed", "install /nowhere/claude, or mend `executable` of [agents.placed]"),
    ],
)
def test_the_program_that_is_missing_is_named(
    state_dir: Path, configured: DaemonProcess, repo: Path, agent: str, hint: str
) -> None:
    """The agent of the configuration is there; what it names is not, and that has a name."""
    configured.stop()
    configured.env["PATH"] = str(state_dir)
    configured.start()
    told = refusal(lambda: at.start(configured, repo, "say x", agent=agent))

    assert (told.name, told.hint) == ("AgentFailed", hint)


def test_an_agent_that_came_later_needs_a_restart(
    configured: DaemonProcess, config: Path, repo: Path
) -> None:
    """Whoever asks for it, by any verb, is told so; the restart suffices."""
    asks: list[Ask] = [
        lambda: at.start(configured, repo, "say x", agent="two"),
        lambda: listed(configured, "two"),
        lambda: at.start(configured, repo, "say x", agent="one"),
        lambda: at.start(configured, repo, "say x", agent=None),
    ]
    before = [refusal(ask) for ask in asks]
    config.write_text(TWO)
    after = [refusal(ask) for ask in asks]
    configured.restart()
    result = at.result(configured, at.start(configured, repo, "say x", agent="two"))

    assert CHANGED not in [told.hint for told in before]
    assert {told.hint for told in after} == {CHANGED}
    assert [list(told.next) for told in after] == [[["coachman", "daemon", "restart"]]] * 4
    assert [told.name for told in after] == [told.name for told in before]
    assert result["outcome"] == "succeeded"


def test_a_file_that_was_made_later_counts(state_dir: Path) -> None:
    """There need be none at the start; that there is one now is a change as well."""
    path = state_dir / "later.toml"
    process = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(path)}).start()
    try:
        before = refusal(lambda: listed(process, "two"))
        path.write_text(TWO)
        after = refusal(lambda: listed(process, "two"))

        assert (before.name, after.name) == ("NotFound", "NotFound")
        assert before.hint != after.hint == CHANGED
    finally:
        process.tidy()
