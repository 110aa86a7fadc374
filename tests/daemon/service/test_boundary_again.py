"""A daemon that found no sandbox: it says so last, and looks again once that was mended."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import coachman
import recovery_state as at
from bare_site import SITE, WHEEL, bin_of, make_bare_site
from coachman_sandbox.host import read_host
from coachman_sandbox.machine import Machine
from coachman_sandbox.probe import NEEDS, Probe
from coachmand.runs import boundary
from coachmand.runs.boundary import Boundary, Outlook
from daemon_process import DaemonProcess


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment like that of the tests, with all that is in it but bubblewrap."""
    return make_bare_site(tmp_path / "v")


@pytest.fixture
def bare(state_dir: Path, site: Path) -> Iterator[DaemonProcess]:
    """A daemon that was started where there is no bubblewrap."""
    bin_dir = bin_of(site)
    process = DaemonProcess(state_dir, {"PATH": str(bin_dir)}, str(bin_dir / "python"))
    yield process.start()
    process.tidy()


def refused(daemon: DaemonProcess, directory: Path, **options: Any) -> coachman.CoachmanError:
    """Why a start is refused."""
    with pytest.raises(coachman.CoachmanError) as caught:
        at.start(daemon, directory, "say done", **options)
    return caught.value


def stands(daemon: DaemonProcess) -> bool:
    """Whether the daemon says that there are walls."""
    with daemon.client() as client:
        return bool(client.daemon.status()["boundary"]["ok"])


def test_to_install_what_is_missing_suffices(
    bare: DaemonProcess, site: Path, repo: Path, eventually: Callable[..., object]
) -> None:
    """What was refused for want of bubblewrap is started once it is there, without a restart."""
    before = (stands(bare), refused(bare, repo).name)
    (site / WHEEL).symlink_to(SITE / WHEEL)
    eventually(lambda: stands(bare))
    result = at.result(bare, at.start(bare, repo, "say done"))

    assert before == (False, "BoundaryUnavailable")
    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")


def test_what_was_asked_wrongly_is_said_first(
    bare: DaemonProcess, repo: Path, state_dir: Path
) -> None:
    """A person who has to mend the host need not find out afterwards that it was for nothing."""
    wrong = [
        refused(bare, repo, agent="nobody").name,
        refused(bare, repo, effort="heroic").name,
        refused(bare, state_dir).name,
        refused(bare, repo, base="nowhere").name,
    ]

    assert wrong == ["NotFound", "InvalidParams", "InvalidParams", "InvalidParams"]


async def test_many_starts_look_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come while somebody looks, and soon afterwards, take what was found."""
    nothing = Probe(False, "cannot find bubblewrap", "install it")
    missing = Boundary(None, dict.fromkeys(NEEDS, nothing), read_host({}), Machine())
    looks, seen = [], []

    def look(env: Any) -> Boundary:
        looks.append(env)
        return missing

    async def ask() -> None:
        seen.append(await outlook.now())

    monkeypatch.setattr(boundary, "look", look)
    monkeypatch.setattr(boundary, "LOOK_AGAIN_S", 3600.0)
    outlook = Outlook({}, missing, float("-inf"))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    await ask()

    assert looks == [{}]
    assert seen == [missing] * 6
