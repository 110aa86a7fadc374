"""The daemon as a service of a real user manager, from its installation to its removal."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from daemon_process import DaemonProcess
from user_manager import UserManager

pytestmark = pytest.mark.systemd
Eventually = Callable[..., object]
SOCKET, SERVICE = "coachman.socket", "coachman.service"


class Service(DaemonProcess):
    """The daemon of a user manager, found by its default paths."""

    def __init__(self, root: Path, manager: UserManager) -> None:
        super().__init__(root)
        self.manager = manager
        self.state = manager.home / ".local/state/coachman"
        self.env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.env |= {"HOME": str(manager.home), "XDG_RUNTIME_DIR": str(manager.runtime)}

    @property
    def socket(self) -> str:
        return str(self.manager.runtime / "coachman/control.sock")

    def told(self, *words: str) -> Any:
        """What a command says as JSON; it has to succeed."""
        done = self.cli(*words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def states(self) -> tuple[str, str]:
        show = self.manager.show
        return show(SOCKET, "ActiveState"), show(SERVICE, "ActiveState")

    @property
    def pid(self) -> int:
        return int(self.manager.show(SERVICE, "MainPID"))


@pytest.fixture
def manager(state_dir: Path) -> Iterator[UserManager]:
    """A user manager of the test's own."""
    manager = UserManager(state_dir)
    manager.start({"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    yield manager
    manager.stop()


@pytest.fixture
def service(state_dir: Path, manager: UserManager) -> Iterator[Service]:
    """The installed service, which nobody has called yet."""
    service = Service(state_dir, manager)
    service.told("daemon", "install", "--now")
    yield service
    service.cli("daemon", "stop", "--mode", "stop")
    service.tidy()


def test_the_first_client_starts_it(service: Service) -> None:
    """Installed it listens at once; any verb starts it, and it says how it is."""
    before = service.states()
    status = service.told("status")

    assert before == ("active", "inactive")
    assert service.states() == ("active", "active")
    assert (status["pid"], status["socket"]) == (service.pid, service.socket)
    assert service.manager.show(SERVICE, "StatusText") == "No runs"
    assert status["boundary"]["ok"]


def test_installing_twice_changes_nothing(service: Service) -> None:
    """The second time both units are found as they should be, and the daemon is left alone."""
    pid = service.told("status")["pid"]
    again = service.told("daemon", "install", "--now")

    assert [unit["changed"] for unit in again["units"]] == [False, False]
    assert again["listens"] is True
    assert service.pid == pid


def test_runs_outlive_stop_and_start(service: Service, repo: Path, eventually: Eventually) -> None:
    """Stopping leaves keepers and agents; nothing starts the daemon again until it is wanted."""
    run = at.start(service, repo, "write x.txt text\nsay done", permissions="ask")
    request = at.until_asked(service, run)
    cgroups = [Path(f"/proc/{pid}/cgroup").read_text() for pid in at.sandbox_pids(service, run)]
    left = service.told("daemon", "stop")
    eventually(lambda: service.states() == ("inactive", "inactive"))
    keepers = service.keepers()
    unreachable = service.cli("status").returncode
    service.told("daemon", "start")
    with service.client() as client:
        client.permission.answer(request, run=run, kind="allow")

    assert [f"/coachman-{run}.1.scope" in names for names in cgroups] == [True, True, True]
    assert left["going_on"] == [run[-5:]]
    assert len(keepers) == 1
    assert unreachable == 69
    assert at.result(service, run)["outcome"] == "succeeded"


def test_a_run_outlives_a_killed_daemon(
    service: Service, repo: Path, eventually: Eventually
) -> None:
    """The manager starts another one, which finds the run, under the same socket."""
    run = at.start(service, repo, "write x.txt text\nsay done", permissions="ask")
    request = at.until_asked(service, run)
    pid = service.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: service.pid not in (0, pid))
    with service.client() as client:
        client.permission.answer(request, run=run, kind="allow")

    assert at.result(service, run)["outcome"] == "succeeded"


def test_a_daemon_that_hangs_is_replaced(
    service: Service, repo: Path, eventually: Eventually
) -> None:
    """One whose loop does not turn gives no sign of life; its run goes on under the next."""
    settings = service.manager.home / ".config/systemd/user/coachman.service.d/short.conf"
    settings.parent.mkdir()
    settings.write_text("[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n")
    service.manager.systemctl("daemon-reload")
    run = at.start(service, repo, "write x.txt text\nsay done", permissions="ask")
    request = at.until_asked(service, run)
    pid = service.pid
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: service.pid not in (0, pid))
    with service.client() as client:
        client.permission.answer(request, run=run, kind="allow")

    assert at.result(service, run)["outcome"] == "succeeded"


def test_it_comes_back_in_place(service: Service) -> None:
    """A restart keeps the process that the manager watches; it never saw it end."""
    before = service.told("status")
    service.told("daemon", "restart")
    after = service.told("status")

    assert before["instance"] != after["instance"]
    assert before["pid"] == after["pid"] == service.pid
    assert service.manager.show(SERVICE, "NRestarts") == "0"
    assert service.states() == ("active", "active")


def test_a_daemon_started_by_hand_gives_way(
    state_dir: Path, manager: UserManager, repo: Path
) -> None:
    """Installing takes over from it, with its runs; there are never two."""
    service = Service(state_dir, manager)
    by_hand = service.told("daemon", "start")["pid"]
    run = at.start(service, repo, "write x.txt text\nsay done", permissions="ask")
    at.until_asked(service, run)
    service.told("daemon", "install", "--now")
    status = service.told("status")
    service.told("cancel", run)
    at.result(service, run)
    service.told("daemon", "stop")
    service.tidy()

    assert by_hand != status["pid"]
    assert status["runs"]["waiting"] == 1


def test_uninstalling_leaves_nothing_but_the_runs(
    service: Service, repo: Path, eventually: Eventually
) -> None:
    """Units and daemon are gone, the run goes on, and a daemon started by hand finds it."""
    run = at.start(service, repo, "write x.txt text\nsay done", permissions="ask")
    request = at.until_asked(service, run)
    removed = service.told("daemon", "uninstall")
    eventually(lambda: service.states() == ("inactive", "inactive"))
    known = service.manager.show(SERVICE, "LoadState")
    service.told("daemon", "start")
    with service.client() as client:
        client.permission.answer(request, run=run, kind="allow")

    assert removed["going_on"] == [run[-5:]]
    assert len(removed["removed"]) == 2
    assert known == "not-found"
    assert at.result(service, run)["outcome"] == "succeeded"


def test_the_log_is_in_the_journal(service: Service) -> None:
    """`daemon logs` asks journalctl, and hands on what it says where no journal is kept."""
    service.told("status")
    done = service.cli("daemon", "logs")
    asked = subprocess.run(
        ["journalctl", "--user", "-u", SERVICE, "-o", "cat", "-q"],
        env=service.env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == (0 if asked.returncode == 0 else 66), done.stderr
