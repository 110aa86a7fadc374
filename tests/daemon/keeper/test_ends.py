"""How an attempt ends: by the agent, a signal, the deadline, the keeper, and never halfway."""

import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
import trio

from coachmand.keeper.system import boottime_s
from coachmand.runs.keepers.link import KeeperError, keeper_alive, read_exit
from keeper_attempts import Attempt, Peer, any_alive, is_alive, namespace_processes, until

pytest_plugins = ("keeper_fixtures",)

DAEMONS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
for _ in range(4):
    os.wait()
print("up", flush=True)
time.sleep(600)
"""
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


@pytest.mark.parametrize("code", [0, 1, 42])
async def test_the_exit_code_is_on_disk(attempt: Attempt, code: int) -> None:
    """An agent that ends by itself leaves its exit code and exact counts."""
    await attempt.shell(f"echo out; echo error >&2; exit {code}")
    record = await attempt.exit()

    assert record == {
        "version": 1,
        "exit_code": code,
        "signal": None,
        "ended_by": "agent",
        "stdout_bytes": 4,
        "stderr_bytes": 6,
        "stdin_bytes": 0,
        "started_boottime_s": record["started_boottime_s"],
        "ended_boottime_s": record["ended_boottime_s"],
        "ended_at_ms": record["ended_at_ms"],
        "tree_empty": True,
    }
    assert 0 < record["ended_boottime_s"] - record["started_boottime_s"] < 20
    assert not keeper_alive(attempt.directory)
    assert (attempt.directory / "keeper.log").read_text() == ""
    assert not (attempt.directory / "keeper.sock").exists()


async def test_an_agent_that_dies_of_a_signal_of_its_own_is_told_apart(attempt: Attempt) -> None:
    """A crash is the agent's end, with the signal's number."""
    await attempt.shell("kill -SEGV $$")
    record = await attempt.exit()
    assert (record["exit_code"], record["signal"], record["ended_by"]) == (139, 11, "agent")


async def test_a_polite_signal_reaches_the_agent_alone(attempt: Attempt) -> None:
    """SIGTERM arrives at the agent, which may end in its own way."""
    await attempt.shell("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done")
    await until(lambda: attempt.stream("stdout") == b"up\n")
    async with Peer(attempt) as peer:
        await peer.attach()
        assert (await peer.ask("signal", target="agent", signal=signal.SIGTERM))["ok"]
        record = await peer.event("exit")
    assert (record["exit_code"], record["signal"], record["ended_by"]) == (7, None, "signal")
    assert attempt.stream("stdout") == b"up\nbye\n"


async def test_killing_the_tree_leaves_no_process(attempt: Attempt) -> None:
    """Daemons that left session and parent die with the namespace, before exit.json is there."""
    await attempt.python(DAEMONS)
    await until(lambda: attempt.stream("stdout") == b"up\n")
    members = namespace_processes(await attempt.init_pid())
    assert len(members) == 6
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("signal", target="tree", signal=signal.SIGKILL)
        record = await peer.event("exit")
        assert not any_alive(members)
    assert (record["signal"], record["ended_by"], record["tree_empty"]) == (9, "signal", True)


async def test_daemons_die_with_an_agent_that_ends_by_itself(attempt: Attempt) -> None:
    """What an agent left behind does not outlive it."""
    await attempt.python(DAEMONS.replace("time.sleep(600)\n", "os.read(0, 1)\n", 2))
    await until(lambda: attempt.stream("stdout") == b"up\n")
    members = namespace_processes(await attempt.init_pid())
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("close_stdin")
    await attempt.exit()
    assert members
    assert not any_alive(members)


async def test_the_wall_deadline_holds_without_any_peer(attempt: Attempt) -> None:
    """An agent that ignores SIGTERM is killed after the grace, and the record says why."""
    deadline = boottime_s() + 1.0
    await attempt.shell(STUBBORN, wall_deadline_boottime_s=deadline, term_grace_s=0.5)
    record = await attempt.exit()
    assert (record["signal"], record["ended_by"]) == (9, "deadline")
    assert deadline + 0.5 <= record["ended_boottime_s"] < deadline + 5


async def test_a_deadline_can_be_moved_and_lifted(attempt: Attempt) -> None:
    """The attached peer sets the deadline, and one that passed already acts at once."""
    await attempt.shell("echo up; sleep 600", wall_deadline_boottime_s=boottime_s() + 600)
    await until(lambda: attempt.stream("stdout") == b"up\n")
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("set_deadline", boottime_s=None)
        assert (await peer.ask("status"))["deadline_boottime_s"] is None
        for wrong in ("soon", True, 1e300, -1):
            assert (await peer.ask("set_deadline", boottime_s=wrong))["code"] == "bad_request"
        await peer.ask("set_deadline", boottime_s=boottime_s())
        record = await peer.event("exit")
    assert (record["signal"], record["ended_by"]) == (15, "deadline")


async def test_a_deadline_that_passed_before_the_start_ends_the_agent(attempt: Attempt) -> None:
    """A sandbox that is stopped while it is being built ends as any other."""
    await attempt.shell("sleep 600", wall_deadline_boottime_s=0.0)
    record = await attempt.exit()
    assert record["ended_by"] == "deadline"


async def test_a_keeper_that_is_killed_takes_its_sandbox_along(attempt: Attempt) -> None:
    """After SIGKILL no process is left, no exit.json, and the lock is free."""
    await attempt.python(DAEMONS)
    await until(lambda: attempt.stream("stdout") == b"up\n")
    members = namespace_processes(await attempt.init_pid())
    os.kill(attempt.pid, signal.SIGKILL)
    await until(lambda: not any_alive(members))
    await until(lambda: not keeper_alive(attempt.directory))
    assert not (attempt.directory / "exit.json").exists()


async def test_a_keeper_that_is_asked_to_end_stops_its_agent_first(attempt: Attempt) -> None:
    """SIGTERM to the keeper, as at a shutdown, ends the agent politely and leaves a record."""
    await attempt.shell("trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
    await until(lambda: attempt.stream("stdout") == b"up\n")
    os.kill(attempt.pid, signal.SIGTERM)
    record = await attempt.exit()
    assert (record["exit_code"], record["ended_by"]) == (3, "keeper")


async def test_an_agent_that_kills_its_process_group_cannot_reach_the_keeper(
    attempt: Attempt,
) -> None:
    """`kill(0)` inside ends the sandbox at most, and the record is still written."""
    await attempt.shell("kill -KILL 0; sleep 600")
    record = await attempt.exit()
    assert (record["signal"], record["ended_by"]) == (9, "agent")


async def test_a_sandbox_that_cannot_be_built_says_why(attempt: Attempt) -> None:
    """Bubblewrap's own reason is in the record, without the values to mask."""
    args = [*attempt.record([])["args"], "--ro-bind", "/no/hunter2/here", "/mnt"]
    await attempt.start(["/bin/true"], args=args, mask=["hunter2"])
    record = await until(lambda: read_exit(attempt.directory))
    assert (record["exit_code"], record["signal"]) == (None, None)
    assert record["error"].startswith("cannot start the sandbox: bwrap: ")
    assert "/no/***/here" in record["error"]


async def test_a_missing_bwrap_is_an_error_of_the_launch(attempt: Attempt) -> None:
    """The launch fails with the reason, and the attempt has its end on record."""
    with pytest.raises(KeeperError, match=r"cannot start: .*No such file"):
        await attempt.start(["/bin/true"], bwrap="/no/bwrap")
    record = await attempt.exit()
    assert (record["exit_code"], record["ended_by"]) == (None, "keeper")
    assert "No such file" in record["error"]


WRONG_RECORDS = {
    "version": {"version": 2},
    "relative directory": {"directory": "attempts/1"},
    "relative bwrap": {"bwrap": "bwrap"},
    "no command": {"command": []},
    "command of numbers": {"command": [1]},
    "text with a NUL": {"command": ["a\0b"]},
    "data": {"data": ["not base64!"]},
    "stdin": {"stdin": "tty"},
    "segment size": {"segment_bytes": 0},
    "segment flag": {"segment_bytes": True},
    "deadline": {"wall_deadline_boottime_s": float("nan")},
    "grace": {"term_grace_s": -1},
    "another boot": {"boot_id": "00000000-0000-0000-0000-000000000000"},
    "no PID namespace": {"args": ["--ro-bind", "/", "/"]},
    "init of its own": {"args": ["--unshare-all", "--as-pid-1"]},
}


async def test_a_wrong_record_starts_nothing(attempts: Callable[..., Attempt]) -> None:
    """Each wrong member is refused with a sentence, before there is any process or file."""
    for name, members in WRONG_RECORDS.items():
        attempt = attempts()
        with pytest.raises(KeeperError, match=r"^cannot start the keeper: ") as caught:
            await attempt.start(**{"command": ["/bin/true"], **members})
        assert caught.value.code == "launch", name
        assert not attempt.state, name
        assert not keeper_alive(attempt.directory), name


async def test_an_attempt_has_one_keeper_ever(attempt: Attempt) -> None:
    """Neither beside a living keeper nor after one that left does another one start."""
    await attempt.start(["/bin/cat"])
    with pytest.raises(KeeperError, match="the attempt has one"):
        await attempt.start(["/bin/cat"])
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("close_stdin")
    await attempt.exit()
    with pytest.raises(KeeperError, match="this attempt had one already"):
        await attempt.start(["/bin/cat"])


# What the agent is at when its directory goes, and what its keeper has to mask.
AT: tuple[tuple[str, list[str]], ...] = (
    ("echo up; sleep 600", []),
    (STUBBORN, []),
    ("echo up; while :; do echo more; echo more >&2; sleep 0.1; done", []),
    ("echo up; sleep 1; echo last words >&2", []),
    ("echo up", ["hunter2"]),
)


async def test_a_keeper_whose_directory_was_deleted_ends_its_agent_and_leaves(
    attempts: Callable[..., Attempt],
) -> None:
    """It can store nothing and nobody finds it: unasked, it does not linger, whatever it was at."""

    numbers = count()

    async def loses_it(script: str, mask: list[str], *, whole: bool) -> None:
        attempt = attempts(f"run-{next(numbers)}")
        await attempt.shell(script, mask=mask, term_grace_s=1)
        await until(lambda: attempt.stream("stdout").startswith(b"up\n"))
        pid = attempt.pid
        # With something to mask it waits for a daemon that does it, when its agent has ended.
        members = [] if mask else namespace_processes(await attempt.init_pid())
        await until(lambda: not mask or read_exit(attempt.directory))
        shutil.rmtree(attempt.directory.parent if whole else attempt.directory)
        await until(lambda: not is_alive(pid))
        assert not any_alive(members)

    async with trio.open_nursery() as nursery:
        for script, mask in AT:
            for whole in (False, True):
                nursery.start_soon(partial(loses_it, script, mask, whole=whole))


async def test_a_keeper_whose_directory_was_deleted_obeys_at_once(attempt: Attempt) -> None:
    """Without a place for its record a keeper that gets SIGTERM still stops its agent."""
    await attempt.shell("echo up; sleep 600")
    await until(lambda: attempt.stream("stdout") == b"up\n")
    pid, members = attempt.pid, namespace_processes(await attempt.init_pid())
    shutil.rmtree(attempt.directory)
    os.kill(pid, signal.SIGTERM)
    await until(lambda: not is_alive(pid))
    assert not any_alive(members)


async def test_a_sandbox_outlives_the_thread_that_launched_it(attempt: Attempt) -> None:
    """An idle sandbox is alive after 15 s, when trio's worker threads have long retired."""
    await attempt.shell("sleep 15; echo alive")
    record = await attempt.exit(limit_s=25)
    assert (record["exit_code"], attempt.stream("stdout")) == (0, b"alive\n")


async def test_values_to_mask_are_kept_until_the_logs_are_masked(attempt: Attempt) -> None:
    """Each daemon that comes learns what to mask and how it ended; dismissed, the keeper leaves."""
    await attempt.start(["/bin/true"], mask=["hunter2"])
    record = await until(lambda: read_exit(attempt.directory))
    for generation in (7, 8):
        async with Peer(attempt) as peer:
            status = await peer.attach(generation)
            told = await peer.event("exit")
        assert status["mask"] == ["hunter2"]
        assert status["exit"] == record
        assert told["exit_code"] == 0
        assert keeper_alive(attempt.directory)
    async with Peer(attempt) as last:
        await last.attach(9)
        assert (await last.ask("dismiss"))["ok"]

    await until(lambda: not keeper_alive(attempt.directory))
