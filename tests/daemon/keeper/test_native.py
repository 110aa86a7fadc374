"""An agent without a namespace: whatever it started ends with it, however that hides."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from coachmand.keeper.system import boottime_s
from coachmand.runs.keepers.link import kill_orphans, read_exit
from keeper_attempts import Attempt, Peer, is_alive, until
from sleepers import new_sleep, sleeping

pytest_plugins = ("keeper_fixtures",)

START = f"""
import ctypes, os, signal, sys, threading, time
libc = ctypes.CDLL(None)
SECONDS = sys.argv[1]

def sleep(environment=None):
    # With the marker of this test on its command line, also where it only forks.
    os.execve({sys.executable!r}, [{sys.executable!r}, "-ISc", BODY, SECONDS], environment or {{}})

BODY = "import time; time.sleep(86400)"

def daemonise():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 64)
    os.chdir("/")
    sleep()

def up():
    print("up", flush=True)
    time.sleep(86400)
"""
# What each does to stay; all say "up" once it is in place.
TREES = {
    "a child": "os.fork() or sleep()\nup()",
    "a session of its own": "if not os.fork():\n    os.setsid()\n    sleep()\nup()",
    "a daemon of two forks without descriptors": "daemonise()\nos.wait()\nup()",
    "one that ignores what it can": """
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
os.fork() or sleep()
up()
""",
    "a reaper of its own": """
if not os.fork():
    os.setsid()
    libc.prctl(36, 1, 0, 0, 0)
    for _ in range(4):
        daemonise()
    time.sleep(86400)
time.sleep(0.3)
up()
""",
    "a child of a thread": """
def start():
    os.fork() or sleep()
    time.sleep(86400)
threading.Thread(target=start, daemon=True).start()
time.sleep(0.3)
up()
""",
    "one that starts another when it is killed": """
if not os.fork():
    os.setsid()
    while True:
        if not os.fork():
            sleep()
        os.wait()
time.sleep(0.3)
up()
""",
    "some that wake each other": """
os.setpgid(0, 0) if os.getpid() != os.getsid(0) else None
for _ in range(6):
    if not os.fork():
        while True:
            os.killpg(0, signal.SIGCONT)
up()
""",
    "many that go from number to number": """
for _ in range(12):
    if not os.fork():
        os.setsid()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
        os._exit(0)
up()
""",
    "more than one pass takes": """
for _ in range(900):
    os.fork() or signal.pause()
up()
""",
}


async def start(attempt: Attempt, code: str, seconds: str, **members: Any) -> None:
    """Start a script as an agent without a sandbox."""
    native = {"cwd": str(attempt.directory), "env": {"PATH": os.environ["PATH"]}}
    command = [sys.executable, "-I", "-S", "-c", START + code, seconds]
    await attempt.start(command, **{"native": native, **members})


async def until_up(attempt: Attempt) -> None:
    await until(lambda: attempt.stream("stdout") == b"up\n")


def marked(seconds: str) -> list[int]:
    """What lives of a test's processes."""
    return list(filter(is_alive, sleeping(seconds)))


@pytest.mark.parametrize("tree", TREES)
async def test_a_tree_is_ended_whole(attempt: Attempt, tree: str) -> None:
    """However it hides: its end is told once nothing of it lives."""
    seconds = new_sleep()
    await start(attempt, TREES[tree], seconds)
    await until_up(attempt)
    # Those that go from number to number are not always met.
    await until(lambda: len(marked(seconds)) > 1)
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("signal", target="tree")
        record = await until(lambda: read_exit(attempt.directory))
        left = marked(seconds)

    assert left == []
    assert (record["ended_by"], record["signal"], record["tree_empty"]) == ("signal", 9, True)


async def test_what_an_agent_leaves_ends_with_it(attempt: Attempt) -> None:
    """An agent that ends by itself has its own code, and its daemons are gone by then."""
    seconds = new_sleep()
    await start(attempt, "daemonise()\nos.wait()\nos._exit(3)", seconds)
    record = await until(lambda: read_exit(attempt.directory))

    assert marked(seconds) == []
    assert (record["exit_code"], record["ended_by"], record["tree_empty"]) == (3, "agent", True)


async def test_a_crash_is_told_by_its_signal(attempt: Attempt) -> None:
    """As in a sandbox: 128 and the signal's number."""
    await start(attempt, "os.kill(os.getpid(), signal.SIGSEGV)", new_sleep())
    record = await attempt.exit()

    assert (record["exit_code"], record["signal"], record["ended_by"]) == (139, 11, "agent")


async def test_a_deadline_ends_what_ignores_it(attempt: Attempt) -> None:
    """SIGTERM first, and the whole tree after the grace."""
    seconds = new_sleep()
    code = "signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
    deadline = boottime_s() + 3
    loop = "daemonise()\nos.wait()\nwhile True:\n    time.sleep(0.1)"
    members = {"wall_deadline_boottime_s": deadline, "term_grace_s": 0.5}
    await start(attempt, code + loop, seconds, **members)
    record = await until(lambda: read_exit(attempt.directory))

    assert marked(seconds) == []
    assert attempt.stream("stdout") == b"no\n"
    assert (record["ended_by"], record["signal"]) == ("deadline", 9)


async def test_it_starts_where_and_with_what_it_is_told(attempt: Attempt) -> None:
    """Its directory, its variables and no others but the attempt's mark; three descriptors."""
    (attempt.directory / "own").mkdir()
    native = {"cwd": str(attempt.directory / "own"), "env": {"PATH": "/bin", "A": "1"}}
    script = "pwd; env | grep -v ^COACHMAN_ATTEMPT= | sort; ls -l /proc/self/fd | wc -l; cat"
    await attempt.shell(script, native=native, stdin="null")
    await attempt.exit()
    said = attempt.stream("stdout").decode().split("\n")

    assert said[0] == str(attempt.directory / "own")
    assert {"A=1", "PATH=/bin"} < set(said)
    # "total", the standard three, and the directory that is being listed.
    assert said[-2] == "5"


async def test_a_program_that_is_missing_is_named(attempt: Attempt) -> None:
    """Nothing was started, and the record of the end says what there is not."""
    native = {"cwd": "/", "env": {"PATH": "/nowhere"}}
    with pytest.raises(Exception, match="there is no program nothing-such"):
        await attempt.start(["nothing-such"], native=native)
    record = read_exit(attempt.directory)

    assert record is not None
    assert "there is no program nothing-such" in record["error"]


@pytest.mark.parametrize(
    "native", ["x", {}, {"cwd": "x", "env": {}}, {"cwd": "/", "env": {"A": 1}}]
)
async def test_a_record_that_is_wrong_is_refused(attempt: Attempt, native: Any) -> None:
    """Where it starts and with what is checked before anything is done."""
    with pytest.raises(Exception, match=r"cannot start the keeper: .*(native|cwd|env)"):
        await attempt.start(["true"], native=native)


ORPHANS = {
    "a session of its own": "if not os.fork():\n    os.setsid()\n    sleep(os.environ)\nup()",
    "a daemon": """
if not os.fork():
    os.setsid()
    os.fork() or sleep(os.environ)
    os._exit(0)
os.wait()
up()
""",
    "a child that cleared its environment": """
if not os.fork():
    os.setsid()
    os.fork() or sleep()
    signal.pause()
time.sleep(0.3)
up()
""",
}


@pytest.mark.parametrize("tree", ORPHANS)
async def test_what_a_killed_keeper_leaves_is_found(attempt: Attempt, tree: str) -> None:
    """The agent dies with its keeper; what it had started is found by the attempt's mark."""
    seconds = new_sleep()
    await start(attempt, ORPHANS[tree], seconds)
    await until_up(attempt)
    agent = attempt.state["sandbox"]["pid"]
    os.kill(attempt.pid, signal.SIGKILL)
    await until(lambda: not is_alive(agent))
    before = len(marked(seconds))
    found = await trio.to_thread.run_sync(kill_orphans, attempt.directory)
    again = await trio.to_thread.run_sync(kill_orphans, attempt.directory)

    assert before > 0
    assert (found, again) == (True, False)
    assert marked(seconds) == []
    assert read_exit(attempt.directory) is None


async def test_a_stranger_is_spared(attempts: Callable[..., Attempt], tmp_path: Path) -> None:
    """What another attempt started, or nobody, is none of its tree."""
    one, other, seconds = attempts(), attempts(), new_sleep()
    for attempt in (one, other):
        await start(attempt, "daemonise()\nos.wait()\nup()", f"{seconds}{attempt is one:d}")
        await until_up(attempt)
    async with Peer(one) as peer:
        await peer.attach()
        await peer.ask("signal", target="tree")
        await until(lambda: read_exit(one.directory))
    spared = len(marked(f"{seconds}0"))
    async with Peer(other) as peer:
        await peer.attach()
        await peer.ask("signal", target="tree")
        await until(lambda: read_exit(other.directory))

    assert marked(f"{seconds}1") == []
    assert spared == 2
    assert marked(f"{seconds}0") == []
