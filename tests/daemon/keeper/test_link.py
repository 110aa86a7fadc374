"""The daemon's link: requests, announcements and ends, over a keeper that is real."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
import trio

from coachmand import keeper
from coachmand.keeper.system import boot_id, start_ticks
from coachmand.runs.keepers import link as link_module
from coachmand.runs.keepers.link import (
    KeeperError,
    SegmentReader,
    keeper_alive,
    kill_orphans,
    read_exit,
    read_state,
)
from keeper_attempts import Attempt, attach, is_alive, until

pytest_plugins = ("keeper_fixtures",)


async def test_a_conversation_through_the_link(attempt: Attempt) -> None:
    """What is written comes back, is announced, and the end is told before the link is gone."""
    content = b"x" * 1_000_000
    await attempt.start(["/bin/cat"], mask=["secret"])
    async with trio.open_nursery() as nursery:
        link, watcher = await attach(attempt, nursery)
        assert link.mask == ("secret",)
        assert await link.write(0, content) == len(content)
        assert await link.write(0, content) == len(content)
        await until(lambda: watcher.sizes == (len(content), 0))
        await link.close_stdin()
        await until(lambda: watcher.record is not None)
        await link.dismiss()
        await watcher.wait_gone()
    assert watcher.record == read_exit(attempt.directory)
    assert watcher.evicted is False
    with SegmentReader(attempt.directory, "stdout") as reader:
        assert reader.read(0, 2_000_000) == content


async def test_the_daemon_may_die_right_after_the_launch(attempt: Attempt) -> None:
    """A keeper whose daemon was killed at once serves the next one."""
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
import os, trio
from functools import partial
from pathlib import Path
from coachmand.runs.keepers.link import launch
trio.run(launch, {attempt.record(["/bin/cat"])!r}, {str(attempt.directory / "keeper.lock")!r})
os.kill(os.getpid(), 9)
"""
    died = await trio.run_process([sys.executable, "-c", script], check=False)
    assert died.returncode == -signal.SIGKILL
    assert keeper_alive(attempt.directory)
    async with trio.open_nursery() as nursery:
        link, watcher = await attach(attempt, nursery, generation=2)
        await link.write(0, b"anybody there?")
        await until(lambda: watcher.sizes[0] == 14)
        await link.signal("tree", signal.SIGKILL)
        await watcher.wait_gone()


async def test_liveness_is_the_lock(attempt: Attempt) -> None:
    """Without a lock file and after a kill there is no keeper, whatever else lies there."""
    assert not keeper_alive(attempt.directory)
    await attempt.start(["/bin/cat"])
    assert keeper_alive(attempt.directory)
    os.kill(attempt.pid, signal.SIGKILL)
    await until(lambda: not keeper_alive(attempt.directory))
    assert read_state(attempt.directory)
    assert read_exit(attempt.directory) is None
    assert (await refusal(attempt, generation=1)).code == "gone"


async def test_a_later_daemon_evicts_the_link_of_an_earlier_one(attempt: Attempt) -> None:
    """The earlier link is gone and says that it was evicted; it cannot come back."""
    await attempt.start(["/bin/cat"])
    async with trio.open_nursery() as nursery:
        first, watcher = await attach(attempt, nursery, generation=1)
        second, _ = await attach(attempt, nursery, generation=2)
        await watcher.wait_gone()
        assert watcher.evicted is True
        with pytest.raises(KeeperError) as caught:
            await first.write(0, b"late")
        assert caught.value.code == "gone"
        assert (await second.request("status"))["generation"] == 2
        assert (await refusal(attempt, generation=1)).code == "stale_generation"
        second.close()


async def refusal(attempt: Attempt, generation: int) -> KeeperError:
    async with trio.open_nursery() as nursery:
        try:
            await attach(attempt, nursery, generation)
        except KeeperError as error:
            return error
    raise AssertionError("the keeper accepted")


async def test_a_refused_request_carries_the_keepers_reason(attempt: Attempt) -> None:
    """The code and the count of stdin come along with the sentence."""
    await attempt.start(["/bin/cat"])
    async with trio.open_nursery() as nursery:
        link, _ = await attach(attempt, nursery)
        await link.write(0, b"abc")
        with pytest.raises(KeeperError, match="cannot write: ") as caught:
            await link.write(10, b"xyz")
        assert (caught.value.code, caught.value.taken) == ("gap", 3)
        link.close()


async def test_a_stopped_keeper_runs_into_the_named_limit(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request without an answer fails in time, and the link works again afterwards."""
    monkeypatch.setattr(link_module, "REPLY_LIMIT_S", 0.2)
    monkeypatch.setattr(link_module, "ATTACH_LIMIT_S", 0.2)
    await attempt.start(["/bin/cat"])
    async with trio.open_nursery() as nursery:
        link, _ = await attach(attempt, nursery)
        os.kill(attempt.pid, signal.SIGSTOP)
        with pytest.raises(KeeperError) as caught:
            await link.write(0, b"abc")
        assert caught.value.code == "timeout"
        assert (await refusal(attempt, generation=2)).code == "timeout"
        os.kill(attempt.pid, signal.SIGCONT)
        monkeypatch.undo()
        assert await link.write(0, b"abcdef") == 6
        link.close()


async def test_a_cancelled_request_leaves_whole_messages_behind(attempt: Attempt) -> None:
    """Cancelling many writes midway garbles neither the connection nor stdin."""
    await attempt.start(["/bin/cat"])
    content = bytes(range(256)) * 4096
    async with trio.open_nursery() as nursery:
        link, watcher = await attach(attempt, nursery)
        for _ in range(20):
            with trio.move_on_after(0.001):
                await link.write(0, content)
        assert await link.write(0, content) == len(content)
        await until(lambda: watcher.sizes[0] == len(content))
        link.close()
    assert attempt.stream("stdout") == content


async def test_closing_is_silent_and_the_agent_goes_on(attempt: Attempt) -> None:
    """A closed link tells its watcher nothing, ends its task, and can be followed by another."""
    await attempt.start(["/bin/cat"])
    async with trio.open_nursery() as nursery:
        link, watcher = await attach(attempt, nursery)
        link.close()
    assert watcher.evicted is None
    async with trio.open_nursery() as nursery:
        link, watcher = await attach(attempt, nursery)
        assert link.status["running"]
        await link.hold()
        assert (await link.request("status"))["held"]
        assert await link.release() is None
        await link.set_deadline(1.0)
        await watcher.wait_gone()
    assert watcher.record is not None
    assert watcher.record["ended_by"] == "deadline"


async def test_a_cancelled_launch_is_known_to_have_happened(attempt: Attempt) -> None:
    """The cancellation is seen after the launch, so that no keeper is started unknown."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await attempt.start(["/bin/cat"])
    assert scope.cancelled_caught
    assert keeper_alive(attempt.directory)


async def test_the_keeper_runs_under_the_interpreter_that_is_named(attempt: Attempt) -> None:
    """Any interpreter will do, also one that is not the daemon's own."""
    link_path = attempt.directory / "python"
    link_path.symlink_to(sys.executable)
    record = attempt.record(["/bin/echo", "hello"])
    await link_module.launch(record, attempt.directory / "keeper.lock", str(link_path))
    assert (await attempt.exit())["exit_code"] == 0


def test_the_keeper_runs_by_its_path_alone(attempt: Attempt) -> None:
    """Without a daemon, on descriptor 3, the program answers what is wrong in one line."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", keeper.PROGRAM], input=b"{}", capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout == b'{"error":"cannot start the keeper: it speaks version 1 only"}\n'


async def test_many_keepers_start_side_by_side(attempts: Callable[..., Attempt]) -> None:
    """Launches do not disturb each other."""
    made = [attempts() for _ in range(8)]
    async with trio.open_nursery() as nursery:
        for number, attempt in enumerate(made):
            nursery.start_soon(attempt.start, ["/bin/echo", str(number)])
    for number, attempt in enumerate(made):
        assert (await attempt.exit())["exit_code"] == 0
        assert attempt.stream("stdout") == f"{number}\n".encode()


async def test_what_a_keeper_killed_too_early_left_behind_can_be_killed(attempt: Attempt) -> None:
    """A recorded init is killed by number and start time, and a reused number is spared."""
    async with trio.open_nursery() as nursery:
        sleeper = partial(trio.run_process, [shutil.which("sleep") or "", "600"], check=False)
        orphan = await nursery.start(sleeper)
        try:
            ticks = start_ticks(orphan.pid)
            for recorded, killed in ((ticks + 1, False), (ticks, True)):
                sandbox = {"init_pid": orphan.pid, "init_start_ticks": recorded}
                state = {"boot_id": boot_id(), "sandbox": sandbox}
                (attempt.directory / "keeper.json").write_text(json.dumps(state))
                assert await trio.to_thread.run_sync(kill_orphans, attempt.directory) is killed
        finally:
            nursery.cancel_scope.cancel()
    assert not is_alive(orphan.pid)


async def test_a_living_keeper_has_no_orphans(attempt: Attempt) -> None:
    """While the lock is held nothing is killed, nor where nothing was recorded."""
    assert kill_orphans(attempt.directory) is False
    await attempt.start(["/bin/cat"])
    init = await attempt.init_pid()
    assert kill_orphans(attempt.directory) is False
    assert is_alive(init)
