"""What a service manager hands to the daemon, and what the daemon tells it."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import recovery_state as at
from coachmand.service import HandedError, Service, listening_socket
from daemon_process import DaemonProcess

Eventually = Callable[..., object]
WATCHDOG_USEC = 400_000


class Manager:
    """Hears what a daemon tells; ``name`` as NOTIFY_SOCKET spells it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self._thread = threading.Thread(target=self._hear)
        self._thread.start()

    def _hear(self) -> None:
        while message := self._socket.recv(4096):
            self.said += message.decode().splitlines()

    def stop(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(state_dir: Path, request: pytest.FixtureRequest) -> Iterator[Manager]:
    """A manager on a socket in the file system, and one in the abstract namespace."""
    path = f"{state_dir}/notify"
    manager = Manager(path if request.param == "path" else f"@{path}")
    yield manager
    manager.stop()


@pytest.fixture
def daemon(state_dir: Path, manager: Manager) -> Iterator[DaemonProcess]:
    """A daemon that this manager watches."""
    env = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": str(WATCHDOG_USEC)}
    process = DaemonProcess(state_dir, env)
    process.start()
    yield process
    process.tidy()


def test_a_manager_hears_that_it_is_ready_alive_and_leaving(
    daemon: DaemonProcess, manager: Manager, eventually: Eventually
) -> None:
    """READY once it listens, WATCHDOG again and again, STOPPING at the end."""
    eventually(lambda: "READY=1" in manager.said and manager.said.count("WATCHDOG=1") > 3)
    daemon.stop()
    eventually(lambda: "STOPPING=1" in manager.said)

    assert manager.said[-1] == "STOPPING=1"
    assert "STATUS=No runs" in manager.said


def test_a_manager_hears_of_a_restart_in_place(
    daemon: DaemonProcess, manager: Manager, eventually: Eventually
) -> None:
    """RELOADING, then READY and WATCHDOG of the one that came back, and never STOPPING."""
    eventually(lambda: "READY=1" in manager.said)
    with daemon.client() as client:
        client.daemon.restart()
        client.daemon.ping()
    eventually(lambda: manager.said.count("READY=1") == 2)
    behind = manager.said[manager.said.index("RELOADING=1") :]
    heard = len(manager.said)
    eventually(lambda: "WATCHDOG=1" in manager.said[heard:])

    assert "READY=1" in behind
    assert "STOPPING=1" not in manager.said


def test_the_status_counts_the_runs(
    daemon: DaemonProcess, manager: Manager, repo: Path, eventually: Eventually
) -> None:
    """What `systemctl status` shows follows the runs."""
    run = at.start(daemon, repo, "write x.txt text\nsay done", permissions="ask")
    request = at.until_asked(daemon, run)

    assert eventually(lambda: "STATUS=1 run: 1 waiting" in manager.said)
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    at.result(daemon, run)
    assert eventually(lambda: manager.said[-50:].count("STATUS=No runs"))


def test_the_managers_variables_stay_with_the_daemon() -> None:
    """They are taken out of the environment, and kept for a restart."""
    handed = {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": str(os.getpid())}
    env = {**handed, "LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "PATH": "/bin"}
    service = Service.take(env)

    assert env == {"PATH": "/bin"}
    assert (service.notify_path, service.watchdog_s) == ("/n", 6.0)
    assert service.listener is None, "the descriptors are another process's"
    assert service.variables.keys() == handed.keys() | {
        "LISTEN_PID",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
    }


def test_a_watchdog_of_another_process_is_not_fed() -> None:
    """WATCHDOG_PID says whom the manager watches."""
    assert Service.take({"WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "1"}).watchdog_s is None


@pytest.mark.parametrize("count", ["2", "", "x"])
def test_one_descriptor_is_taken(count: str) -> None:
    """Any other number of descriptors is refused by name."""
    env = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count}

    with pytest.raises(HandedError, match=r"cannot listen: .* descriptors were passed, one is"):
        Service.take(env)


def abstract() -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"\0coachman-test-{os.getpid()}")
    listening.listen()
    return listening


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: socket.socket(socket.AF_INET), "is AF_INET, not AF_UNIX"),
        (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), "is SOCK_DGRAM, not SOCK_STRE"),
        (lambda: socket.socket(socket.AF_UNIX), "is a socket that does not listen"),
        (Path(os.devnull).open, "is no socket"),
        (abstract, "is a socket without a file"),
    ],
)
def test_what_cannot_be_listened_on_is_refused(make: Callable[[], object], why: str) -> None:
    """A descriptor has to be a listening Unix stream socket; others are named."""
    with make() as made, pytest.raises(HandedError, match=why):  # type: ignore[attr-defined]
        listening_socket(os.dup(made.fileno()))


def test_a_missing_descriptor_is_refused() -> None:
    """A number behind which nothing is open is named as well."""
    with pytest.raises(HandedError, match="descriptor 9999 was not passed"):
        listening_socket(9999)


def test_a_daemon_that_was_passed_nothing_useful_says_so(state_dir: Path) -> None:
    """It exits 78 instead of listening elsewhere, where no client of the manager would look."""
    env = DaemonProcess(state_dir, {"LISTEN_FDS": "2"}).env
    passing = 'LISTEN_PID=$$ exec "$@"'
    done = subprocess.run(
        ["sh", "-c", passing, "sh", sys.executable, "-I", "-m", "coachmand"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 78
    assert "cannot listen: 2 descriptors were passed, one is taken" in done.stderr
