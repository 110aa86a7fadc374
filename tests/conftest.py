"""What every test may lean on: options, short state directories, a bounded wait.

Helpers that several packages share are modules of ``tests/support``.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from hypothesis import settings

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SOURCE_ROOTS = tuple(ROOT / name for name in ("client", "daemon", "adapters", "sandbox"))
IN_CI = os.environ.get("CI") == "true"
EVENTUALLY_S = 60.0
SOAK_ROUNDS = 20 if IN_CI else 100
SOAK_KILLS = 200
SOAK_RESTARTS = 20
WORKERS_PER_CORE = 2
MOST_WORKERS = 16
SOAK_MINUTES = 1.0

sys.path[:0] = [str(TESTS / "support"), *map(str, SOURCE_ROOTS)]

from daemon_process import DaemonProcess, make_repository  # noqa: E402 - found through sys.path
from looking import pauses  # noqa: E402

# In the background of a script both are ignored, and would be in all that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if IN_CI else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("coachman")
    group.addoption(
        "--agents-dir",
        default=os.environ.get("COACHMAN_TEST_AGENTS"),
        help="directory whose node_modules holds the real agent CLIs (COACHMAN_TEST_AGENTS)",
    )
    group.addoption(
        "--node-dir",
        default=os.environ.get("COACHMAN_TEST_NODE"),
        help="directory whose node_modules holds what scripts/node installs (COACHMAN_TEST_NODE)",
    )
    group.addoption(
        "--rounds",
        type=int,
        default=SOAK_ROUNDS,
        help=f"how often a storm strikes (default {SOAK_ROUNDS})",
    )
    group.addoption(
        "--kills",
        type=int,
        default=SOAK_KILLS,
        help=f"how many deaths `scripts/soak crash` is about (default {SOAK_KILLS})",
    )
    group.addoption(
        "--times",
        type=int,
        default=SOAK_RESTARTS,
        help=f"how often `scripts/soak restart` kills the daemon (default {SOAK_RESTARTS})",
    )
    group.addoption(
        "--minutes",
        type=float,
        default=SOAK_MINUTES,
        help=f"how long `scripts/soak run` goes on (default {SOAK_MINUTES:g})",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI a real agent that was not driven is a failure: nobody reads a skip."""
    report = yield
    if IN_CI and report.skipped and item.get_closest_marker("real_agent"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What ``-n auto`` means: most tests wait for processes, so that two keep a core busy."""
    return min(WORKERS_PER_CORE * len(os.sched_getaffinity(0)), MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Files are handed out whole, and in the order of the tests."""
    from workers import Units  # noqa: PLC0415 - xdist is there where it is used

    config.option.loadscopereorder = False
    return Units(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files come first: handed out last, one would keep a single worker busy."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def agents_dir(request: pytest.FixtureRequest) -> Path:
    """The directory whose ``node_modules`` holds the real CLIs; skips where there is none."""
    found = request.config.getoption("--agents-dir")
    if not found or not Path(found, "node_modules").is_dir():
        pytest.skip("no real agent is installed: run scripts/agents, or set COACHMAN_TEST_AGENTS")
    return Path(found).resolve()


def _absent(what: str) -> NoReturn:
    """The test cannot run here: skipped, and in CI a failure, for nobody reads a skip."""
    if IN_CI:
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def node_tools(request: pytest.FixtureRequest) -> Path:
    """The ``node_modules`` that scripts/node installs."""
    found = Path(request.config.getoption("--node-dir") or "", "node_modules")
    if not found.is_dir():
        _absent("TypeScript is not installed: run scripts/node, or set COACHMAN_TEST_NODE")
    return found.resolve()


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """``tool(name)``: the path of a program of this machine."""

    def find(name: str) -> str:
        return shutil.which(name) or _absent(f"{name} was not found on PATH: see scripts/tools")

    return find


@pytest.fixture(scope="session")
def opencode_bin(agents_dir: Path) -> Path:
    """The directory to put on PATH so that ``opencode`` is the pinned real one."""
    bin_dir = agents_dir / "node_modules" / ".bin"
    if not (bin_dir / "opencode").exists():
        pytest.skip(f"opencode is not installed in {agents_dir}")
    return bin_dir


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a storm strikes (``--rounds``)."""
    return int(request.config.getoption("--rounds"))


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many deaths a storm is about (``--kills``)."""
    return int(request.config.getoption("--kills"))


@pytest.fixture
def times(request: pytest.FixtureRequest) -> int:
    """How often a daemon is killed (``--times``)."""
    return int(request.config.getoption("--times"))


@pytest.fixture
def minutes(request: pytest.FixtureRequest) -> float:
    """How long a storm of ordinary work goes on (``--minutes``)."""
    return float(request.config.getoption("--minutes"))


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A private state directory whose path leaves room for the sockets in it.

    A Unix socket's path may have 107 bytes; pytest's own directories are too deep.
    """
    path = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def eventually() -> Callable[..., object]:
    """``eventually(condition, within_s=…)``: what the condition returns once it is true.

    Bounded, so that a condition that never holds fails its own test by name.
    """

    def wait(condition: Callable[[], object], within_s: float = EVENTUALLY_S) -> object:
        ends, pause_s = time.monotonic() + within_s, pauses()
        while not (value := condition()):
            if time.monotonic() > ends:
                pytest.fail(f"{condition.__qualname__} did not hold within {within_s} s")
            time.sleep(next(pause_s))
        return value

    return wait


@pytest.fixture
def eventually_async() -> Callable[..., Awaitable[object]]:
    """As ``eventually``, for tests that run under trio; the condition itself may be async."""

    async def wait(condition: Callable[[], object], within_s: float = EVENTUALLY_S) -> object:
        with trio.move_on_after(within_s):
            for pause_s in pauses():
                value = condition()
                if isinstance(value, Awaitable):
                    value = await value
                if value:
                    return value
                await trio.sleep(pause_s)
        pytest.fail(f"{condition.__qualname__} did not hold within {within_s} s")

    return wait


@pytest.fixture
def daemon(state_dir: Path) -> Iterator[DaemonProcess]:
    """A running daemon of its own; what it started is ended with the test."""
    process = DaemonProcess(state_dir)
    process.start()
    yield process
    process.tidy()


@pytest.fixture
def executed_daemon(state_dir: Path) -> Iterator[DaemonProcess]:
    """The same, executed as its users do: slower, and a process of its own from the first."""
    process = DaemonProcess(state_dir, python=sys.executable)
    process.start()
    yield process
    process.tidy()


@pytest.fixture
def repo(state_dir: Path) -> Path:
    """A repository with one commit, beside the daemon's state."""
    return make_repository(state_dir / "repo")
