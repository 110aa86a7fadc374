"""The units as text, and `daemon install` where no user manager runs."""

import json
import sys
from pathlib import Path

import pytest

from client_daemon import coachman
from coachman import CoachmanError, service

SOCKET, SERVICE = "coachman.socket", "coachman.service"


@pytest.fixture
def env(state_dir: Path) -> dict[str, str]:
    """A user without a user manager, and without its tools."""
    (state_dir / "bin").mkdir()
    return {"HOME": str(state_dir), "PATH": str(state_dir / "bin"), "COACHMAN_STATE_DIR": ""}


def units(home: Path) -> Path:
    return home / ".config/systemd/user"


def settings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_service_starts_this_installation(env: dict[str, str]) -> None:
    """The interpreter is named by its absolute path, with what systemd would expand escaped."""
    text = service.rendered(SERVICE, '/o d/50%/$x"y', env)

    assert 'ExecStart="/o d/50%%/$$x\\"y" -I -m coachmand' in settings(text)
    assert "@" not in "".join(settings(text))


def test_what_finds_the_state_is_carried(env: dict[str, str]) -> None:
    """Of the caller's environment only what leads to state and configuration goes along."""
    text = service.rendered(SERVICE, "/p", {**env, "XDG_STATE_HOME": "/s 1", "OPENAI_API_KEY": "k"})

    assert [line for line in settings(text) if line.startswith("Environment=")] == [
        'Environment="XDG_STATE_HOME=/s 1"'
    ]


def test_no_hardening_that_would_break_sandboxes(env: dict[str, str]) -> None:
    """What would hide /proc, forbid namespaces or filter system calls stays out."""
    names = {line.partition("=")[0] for line in settings(service.rendered(SERVICE, "/p", env))}
    harmful = ("Protect", "Private", "Restrict", "ProcSubset", "SystemCall", "Lock", "Memory")

    assert [n for n in names if n.startswith(harmful) and n != "RestartPreventExitStatus"] == []


def test_without_a_manager_the_units_are_written_and_the_rest_is_said(
    state_dir: Path, env: dict[str, str]
) -> None:
    """It exits 69, and what is left to do runs as it is printed."""
    done = coachman(state_dir, "daemon", "install", "--now", "--json", env=env)
    error = json.loads(done.stdout)["error"]

    assert done.returncode == 69
    assert error["message"].startswith("cannot enable coachman.socket: cannot reach a user manager")
    assert str(units(state_dir) / SERVICE) in error["hint"]
    assert ["systemctl", "--user", "enable", "--now", SOCKET] in error["next"]
    assert sys.executable in (units(state_dir) / SERVICE).read_text()
    assert service.is_installed({"HOME": str(state_dir)})


def test_without_a_manager_the_units_are_removed(state_dir: Path, env: dict[str, str]) -> None:
    """Uninstalling needs no manager, and twice is no error."""
    coachman(state_dir, "daemon", "install", env=env)
    first = coachman(state_dir, "daemon", "uninstall", "--json", env=env)
    again = coachman(state_dir, "daemon", "uninstall", env=env)

    assert len(json.loads(first.stdout)["removed"]) == 2
    assert list(units(state_dir).iterdir()) == []
    assert (again.returncode, again.stdout) == (0, "nothing is installed\n")


def test_units_of_somebody_else_are_left_alone(state_dir: Path, env: dict[str, str]) -> None:
    """A unit of the same name that install did not write is neither replaced nor removed."""
    units(state_dir).mkdir(parents=True)
    (units(state_dir) / SOCKET).write_text("[Socket]\n")
    with pytest.raises(CoachmanError, match="is not coachman's") as caught:
        list(service.write_units("/p", env))

    assert caught.value.exit_code == 76
    assert service.remove_units(env) == []
    assert (units(state_dir) / SOCKET).read_text() == "[Socket]\n"


@pytest.mark.parametrize("name", ["COACHMAN_STATE_DIR", "COACHMAN_SOCKET"])
def test_a_daemon_of_another_state_is_no_service(
    state_dir: Path, env: dict[str, str], name: str
) -> None:
    """Who chooses state directory or socket has a daemon of their own, installed or not."""
    coachman(state_dir, "daemon", "install", env=env)

    assert not service.is_installed({**env, name: "/elsewhere"})
    done = coachman(state_dir, "daemon", "install", env={**env, name: "/elsewhere"})
    assert done.returncode == 64


def test_without_a_manager_an_installed_daemon_is_started_as_any_other(
    state_dir: Path, env: dict[str, str]
) -> None:
    """An account that systemd does not serve at the moment is not left without a daemon."""
    coachman(state_dir, "daemon", "install", env=env)

    assert not service.start(env)
    assert not service.is_active(env, SERVICE)
