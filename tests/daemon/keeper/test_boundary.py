"""What crosses from the keeper into the sandbox, and what the keeper itself shows."""

import base64
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import trio

from coachmand import keeper
from coachmand.keeper.system import KEYCTL_NUMBERS
from keeper_attempts import Attempt, Peer, private_kib, proc, proc_value, shown, until

pytest_plugins = ("keeper_fixtures",)

SECRET = "hunter2-credential"
PRIVATE_KIB = 6 * 1024
IDLE_S = 1.0
NOBODY = 65534


async def test_secrets_are_in_no_environment_and_no_command_line(attempt: Attempt) -> None:
    """Arguments travel in a sealed file: the agent has the secret, /proc of the host has not."""
    args = [*attempt.record([])["args"], "--setenv", "TOKEN", SECRET]
    await attempt.shell("echo $TOKEN; exec sleep 600", args=args, mask=[SECRET])
    await until(lambda: attempt.stream("stdout") == SECRET.encode() + b"\n")
    init = await attempt.init_pid()
    outside = (attempt.pid, attempt.state["sandbox"]["pid"], init)
    for pid in outside:
        for name in ("environ", "cmdline"):
            assert SECRET.encode() not in shown(pid, name)
    for pid in outside:
        names = shown(pid, "environ").split(b"\0")
        known = {b"PATH", b"LANG", b"COACHMAN_ATTEMPT"}
        assert {name.partition(b"=")[0] for name in names if name} <= known
        if pid != attempt.pid:
            assert os.fsencode(attempt.directory) not in shown(pid, "environ")
            assert b"PATH=/usr/bin:/bin" in names
    for path in attempt.directory.iterdir():
        if path.is_file() and path.name != "stdout.0":
            assert SECRET.encode() not in path.read_bytes(), path


async def test_data_reaches_the_sandbox_by_descriptor(attempt: Attempt) -> None:
    """A token names a piece of data, whole arguments only, and bwrap reads it."""
    data = [base64.b64encode(content).decode() for content in (b"first", b"second\0" * 20_000)]
    args = [
        *attempt.record([])["args"],
        *("--tmpfs", "/mnt", "--ro-bind-data", "{fd:1}", "/mnt/b", "--ro-bind-data", "{fd:0}"),
        *("/mnt/a", "--setenv", "NOTE", "not {fd:0}"),
    ]
    await attempt.shell("cat /mnt/a /mnt/b; echo $NOTE", args=args, data=data)
    assert (await attempt.exit())["exit_code"] == 0
    assert attempt.stream("stdout") == b"first" + b"second\0" * 20_000 + b"not {fd:0}\n"


async def test_no_descriptor_crosses_but_stdio(attempt: Attempt) -> None:
    """The agent has three descriptors, and not the lock, the socket or a segment."""
    await attempt.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    await attempt.exit()
    # The fourth is the listing's own.
    assert attempt.stream("stdout") == b"[0, 1, 2, 3]\n"


async def test_the_agent_gets_ordinary_signals_and_the_records_umask(attempt: Attempt) -> None:
    """A broken pipe kills it as usual, and what the keeper ignores it does not."""
    script = "umask; grep -E 'SigIgn|SigBlk' /proc/self/status"
    await attempt.shell(script, umask=0o027)
    await attempt.exit()
    umask, *masks = attempt.stream("stdout").decode().splitlines()
    assert umask == "0027"
    # The real-time ones are the C library's own.
    assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in masks] == [0, 0]


async def test_a_deep_directory_is_no_obstacle(attempts: Callable[..., Attempt]) -> None:
    """A path that no socket address could hold works as any other."""
    attempt = attempts("deep-" * 20 + "/" + "deeper-" * 20)
    assert len(str(attempt.directory)) > 200
    await attempt.start(["/bin/cat"])
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("write", b"deep\n", offset=0)
        await until(lambda: attempt.stream("stdout") == b"deep\n")


async def test_a_keeper_is_small(attempt: Attempt) -> None:
    """A parked run costs less than 6 MiB of private memory for its keeper."""
    await attempt.start(["/bin/cat"])
    await attempt.init_pid()
    assert private_kib(attempt.pid) < PRIVATE_KIB


async def test_an_idle_keeper_sleeps(attempt: Attempt) -> None:
    """Without events the keeper is not scheduled at all."""
    await attempt.start(["/bin/cat"])
    await attempt.init_pid()
    before = proc_value(attempt.pid, "status", "voluntary_")
    await trio.sleep(IDLE_S)
    assert proc_value(attempt.pid, "status", "voluntary_") - before <= 1


async def test_a_keeper_has_a_session_of_its_own_and_no_dumps(attempt: Attempt) -> None:
    """It left the daemon's session, parent and directory, and its memory is closed to peers."""
    await attempt.start(["/bin/cat"])
    pid = attempt.pid
    assert os.getsid(pid) != os.getsid(0)
    assert os.getpgid(attempt.state["sandbox"]["pid"]) != os.getpgid(pid)
    assert proc(pid, "comm") == b"coachman-keeper\n"
    assert proc_value(pid, "status", "PPid:") != os.getpid()
    if os.geteuid() == 0:
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1)} == {"/dev/null"}
    else:
        assert shown(pid, "environ") == shown(pid, "maps") == b""


def ordinary_python() -> str | None:
    """An interpreter that the user `nobody` may execute."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run(
                [python, "-I", "-S", "-c", "import ctypes, json"], user=NOBODY, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return python
    return None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_an_ordinary_user_needs_nothing_more(attempt: Attempt) -> None:
    """The keeper works the same without privileges, and then refuses even root as a peer."""
    python = ordinary_python()
    if python is None:
        pytest.skip("the user nobody can run no Python here")
    launch_as_nobody(python, attempt)
    async with Peer(attempt) as stranger:
        assert await stranger.next_message() is None
    async with Peer(attempt, uid=NOBODY) as peer:
        await peer.attach()
        await peer.ask("write", b"from an ordinary user", offset=0)
        await until(lambda: attempt.stream("stdout") == b"from an ordinary user")
        assert (await peer.ask("signal", target="agent", signal=15))["ok"]
        assert (await peer.event("exit"))["signal"] == 15


def launch_as_nobody(python: str, attempt: Attempt) -> None:
    attempt.directory.parent.parent.chmod(0o755)
    lock = os.open(attempt.directory / "keeper.lock", os.O_RDWR | os.O_CREAT)
    os.chown(attempt.directory, NOBODY, NOBODY)
    done = subprocess.run(
        [python, "-I", "-S", keeper.PROGRAM, str(lock)],
        input=json.dumps(attempt.record(["/bin/cat"])).encode(),
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        pass_fds=[lock],
        cwd="/",
        capture_output=True,
        check=False,
    )
    os.close(lock)
    assert json.loads(done.stdout)["ready"] is True, done


async def test_the_agent_is_in_a_keyring_of_its_own(attempt: Attempt) -> None:
    """Keys of the login's session are neither there to be used nor to be revoked."""
    number = KEYCTL_NUMBERS[os.uname().machine]
    ask = f"libc.syscall({number}, 0, -3, 0)"  # KEYCTL_GET_KEYRING_ID of the session's
    libc = ctypes.CDLL(None, use_errno=True)
    ours = libc.syscall(number, 0, -3, 0)
    await attempt.python(f"import ctypes; libc = ctypes.CDLL(None); print({ask}, flush=True)")
    await attempt.exit()

    theirs = int(attempt.stream("stdout"))
    assert theirs not in (-1, ours)
