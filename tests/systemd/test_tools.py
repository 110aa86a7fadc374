"""What systemd's own tools say of the units, and hand to the daemon."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import coachman
from coachman import service, wire
from daemon_process import DaemonProcess
from user_manager import tool

pytestmark = pytest.mark.systemd
Eventually = Callable[..., object]


class Activated:
    """A daemon that ``systemd-socket-activate`` becomes, and the socket that it listens on."""

    def __init__(self, root: Path, activate: str) -> None:
        self.path = root / "run" / "control.sock"
        self._log = root / "daemon.log"
        env = DaemonProcess(root).env
        settings = [f"--setenv={name}={value}" for name, value in env.items()]
        command = [sys.executable, "-I", "-m", "coachmand"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [activate, *settings, f"--listen={self.path}", *command],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()


def test_the_units_are_correct(state_dir: Path) -> None:
    """`systemd-analyze verify` accepts them without a word, misspelt keys included."""
    analyze = tool("systemd-analyze")
    env = {"HOME": str(state_dir), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(state_dir)}
    units = [path for path, _ in service.write_units(sys.executable, env)]
    done = subprocess.run(
        [analyze, "--user", "verify", *units], env=env, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_misspelt_key_would_be_seen(state_dir: Path) -> None:
    """The check above is one that can fail."""
    analyze = tool("systemd-analyze")
    env = {"HOME": str(state_dir), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(state_dir)}
    [_, (path, _)] = service.write_units(sys.executable, env)
    unit = Path(path)
    unit.write_text(unit.read_text().replace("WatchdogSec", "WatchdogSecs"))
    done = subprocess.run(
        [analyze, "--user", "verify", path], env=env, capture_output=True, text=True, check=False
    )

    assert "WatchdogSecs" in done.stderr


@pytest.fixture
def activated(state_dir: Path, eventually: Eventually) -> Iterator[Activated]:
    """A socket below the state directory that starts the daemon when somebody connects."""
    (state_dir / "run").mkdir(mode=0o700)
    activated = Activated(state_dir, tool("systemd-socket-activate"))
    eventually(lambda: "Listening on" in activated.log)
    yield activated
    activated.process.kill()
    activated.process.wait()


def test_the_first_connection_starts_the_daemon(activated: Activated) -> None:
    """The daemon serves the socket that it was passed, and leaves it where it is at the end."""
    activated.path.chmod(0o600)
    with coachman.connect(str(activated.path)) as client:
        status = client.daemon.status()
    activated.process.send_signal(signal.SIGTERM)
    code = activated.process.wait(20)

    assert (status["socket"], status["pid"]) == (str(activated.path), activated.process.pid)
    assert code == 0, activated.log
    assert activated.path.is_socket()


def test_it_comes_back_with_the_socket_that_it_was_passed(activated: Activated) -> None:
    """A restart in place hands the socket on, which is still not the daemon's to remove."""
    activated.path.chmod(0o600)
    with coachman.connect(str(activated.path)) as client:
        left = client.daemon.restart()["instance"]
        while (status := client.daemon.status())["instance"] == left:
            time.sleep(0.01)
    activated.process.send_signal(signal.SIGTERM)
    code = activated.process.wait(20)

    assert (status["socket"], code) == (str(activated.path), 0)
    assert activated.path.is_socket()


def test_a_socket_that_is_open_to_others_is_refused(activated: Activated) -> None:
    """What a unit without SocketMode=0600 would pass is named, and not served."""
    activated.path.chmod(0o666)
    with coachman.connect(str(activated.path)) as client, pytest.raises(coachman.CoachmanError):
        client.daemon.ping()

    assert activated.process.wait(20) == wire.EXIT_STATE
    assert "its unit needs SocketMode=0600" in activated.log
