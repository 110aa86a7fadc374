"""What a run on the host does promise: deadlines, a tree that ends, and an end that is told truly.

Its agent has all that its user has, so that nothing here is about what it may read or write. Each
attempt is made in the namespace of processes and, with ``--native``, without one.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import recovery_state as at
from daemon_process import DaemonProcess
from ordinary import USERS, daemons_of
from sleepers import new_sleep, sleeping

HEAD = """
import ctypes, fcntl, json, os, signal, sys, time
libc = ctypes.CDLL(None)
seconds, told = sys.argv[1], json.loads(sys.argv[2])

def sleep():
    os.execvp("sleep", ["sleep", seconds])

def daemon(*keep):
    if os.fork():
        return os.wait()
    os.setsid()
    if os.fork():
        os._exit(0)
    for fd in range(3):
        fd in keep or os.close(fd)
    sleep()
"""
# By what they try to outlive: each leaves something behind, and says "left".
LEFT = {
    "its end": "daemon()",
    "its end, holding what it says open": "daemon(1, 2)",
    "its end, as many": "[daemon() for _ in range(40)]",
    "its end, with signals ignored": (
        "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 13, 15, 20, 21, 22)]; daemon()"
    ),
    "its end, below a reaper of its own": (
        "os.fork() or (os.setsid(), libc.prctl(36, 1, 0, 0, 0), daemon(), time.sleep(9e4));"
        " time.sleep(0.5)"
    ),
    "its end, being stopped": "daemon(); pid = os.fork() or sleep(); os.kill(pid, signal.SIGSTOP)",
    "its end, without a death signal": "os.fork() or (libc.prctl(1, 0, 0, 0, 0), sleep())",
    "the first process": "daemon(); [os.kill(1, n) for n in (19, 9)] if told['inner'] else None",
}
# What it says to be told that it must not have more than its user, or see what is not its own.
FENCED = {
    "a process of the host, by its number": "os.kill(told['pid'], 0)",
    "the variables of one": "open(f\"/proc/{told['pid']}/environ\").read(1)",
    "the memory of one": "open(f\"/proc/{told['pid']}/mem\", 'rb').read(1)",
    "the files of one": "os.listdir(f\"/proc/{told['pid']}/fd\")",
}
# Of the keeper, which is the parent of a native agent: it is not dumpable.
KEPT = {
    "its memory": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "its variables": "open(f'/proc/{os.getppid()}/environ').read(1)",
    "its files": "os.listdir(f'/proc/{os.getppid()}/fd')",
}
TERMINAL = {
    "typing into it": "fcntl.ioctl(0, 0x5412, b'x')",
    "opening it": "os.open('/dev/tty', os.O_RDWR)",
}


@pytest.fixture(scope="module")
def daemons() -> Iterator[dict[str, DaemonProcess]]:
    """A daemon of whoever runs the tests, and one of an ordinary user."""
    with daemons_of() as found:
        yield found


@pytest.fixture(params=USERS)
def daemon(request: pytest.FixtureRequest, daemons: dict[str, DaemonProcess]) -> DaemonProcess:
    return daemons[request.param]


@pytest.fixture(params=[False, True], ids=["namespace", "native"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def start(daemon: DaemonProcess, native: bool, code: str, seconds: str, /, **options: Any) -> str:
    """A run on the host of a script; its id."""
    assert daemon.process is not None
    told = json.dumps({"inner": not native, "pid": daemon.process.pid})
    argv = ["/usr/bin/python3", "-I", "-c", HEAD + code, seconds, told]
    given = {"agent": "command", "argv": argv, "profile": "host", "native": native, **options}
    return at.start(daemon, daemon.root / "repo", "", **given)


@pytest.mark.parametrize("attempt", LEFT)
def test_nothing_outlives(daemon: DaemonProcess, native: bool, attempt: str) -> None:
    """The agent ends by itself, and what it left behind is gone once the run has ended."""
    seconds = new_sleep()
    result = at.result(daemon, start(daemon, native, f"{LEFT[attempt]}\nprint('left')", seconds))

    assert (result["outcome"], result["final_message"]) == ("succeeded", "left\n")
    assert sleeping(seconds) == []


def test_a_deadline_is_kept(daemon: DaemonProcess, native: bool) -> None:
    """Whatever is ignored, and whatever goes on being started."""
    seconds = new_sleep()
    code = "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\nwhile 1:\n    daemon()\n"
    slow = f"{code}    time.sleep(0.05)"
    result = at.result(daemon, start(daemon, native, slow, seconds, timeouts={"wall_s": 3}))

    assert (result["outcome"], result["stop_reason"]) == ("timed_out", "wall")
    assert sleeping(seconds) == []


def test_an_end_is_told_truly(daemon: DaemonProcess, native: bool) -> None:
    """An agent that kills what started it: never success, and nothing is left all the same."""
    seconds = new_sleep()
    code = "daemon()\nprint('left', flush=True)\nos.kill(os.getppid(), signal.SIGKILL)\nsleep()"
    run = start(daemon, native, code, seconds)
    if not native:
        # The first process of its namespace does not end by a signal from within.
        at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
        with daemon.client() as client:
            client.run.cancel([run])
    result = at.result(daemon, run)

    assert result["outcome"] == ("lost" if native else "cancelled")
    assert sleeping(seconds) == []


def test_what_it_writes_into_its_own_evidence_is_no_result(
    daemon: DaemonProcess, native: bool
) -> None:
    """It may write where its user may; a result that it made up is not taken for one."""
    seconds = new_sleep()
    code = (
        "own = os.path.dirname(os.environ['COACHMAN_OUTPUT'])\n"
        'open(own + \'/result.json\', \'w\').write(\'{"outcome": "succeeded", "run": "x"}\')\n'
        "daemon()\nsys.exit(7)"
    )
    run = start(daemon, native, code, seconds)
    result = at.result(daemon, run)

    assert (result["run"], result["outcome"]) == (run, "failed")
    assert sleeping(seconds) == []


def test_no_right_is_gained(daemon: DaemonProcess, native: bool) -> None:
    """A set-id program has the rights of whoever runs it."""
    code = "print(next(l for l in open('/proc/self/status') if l.startswith('NoNewPrivs')).split())"
    result = at.result(daemon, start(daemon, native, code, new_sleep()))

    assert result["final_message"] == "['NoNewPrivs:', '1']\n"


def tried(daemon: DaemonProcess, native: bool, code: str) -> str:
    """What came of an attempt: what refused it, or "worked"."""
    script = (
        f"try:\n    {code}\nexcept OSError as error:\n    print('refused', error.errno)\n"
        "else:\n    print('worked')"
    )
    return str(at.result(daemon, start(daemon, native, script, new_sleep()))["final_message"])


@pytest.mark.parametrize("attempt", FENCED)
def test_no_process_of_the_host_is_there(daemon: DaemonProcess, attempt: str) -> None:
    """In its namespace a number of the host means nothing."""
    assert tried(daemon, False, FENCED[attempt]).startswith("refused")


@pytest.mark.parametrize("attempt", KEPT)
def test_a_keeper_tells_its_agent_nothing(daemons: dict[str, DaemonProcess], attempt: str) -> None:
    """A native agent is a child of its keeper, which an ordinary user's processes cannot read."""
    ordinary = daemons[USERS[-1]]

    assert tried(ordinary, True, KEPT[attempt]).startswith("refused")


@pytest.mark.parametrize("attempt", TERMINAL)
def test_no_terminal_is_its_own(daemon: DaemonProcess, native: bool, attempt: str) -> None:
    """It is in a session of its own, which has none."""
    assert tried(daemon, native, TERMINAL[attempt]).startswith("refused")
