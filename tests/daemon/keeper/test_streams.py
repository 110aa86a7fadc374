"""The keeper moves bytes: both outputs into segments, stdin from its log, and loses none."""

import hashlib
import os
import resource

import pytest

from keeper_attempts import Attempt, Peer, proc, proc_value, until

pytest_plugins = ("keeper_fixtures",)

FLOOD_BYTES = 200_000_000
MEMORY_PEAK_KIB = 24 * 1024
FILL_THE_PIPE = """
import os
os.read(0, 1)
os.set_blocking(1, False)
left = 1_000_000
try:
    while left:
        left -= os.write(1, bytes(left))
except BlockingIOError:
    open("/mnt/full", "w").close()
os.set_blocking(1, True)
while left:
    left -= os.write(1, bytes(left))
"""
EVERY_BYTE = "import sys; [f.buffer.write(bytes(range(256)) * 64) for f in (sys.{0}, sys.{1})]"


async def test_every_byte_reaches_the_segments_as_it_was_written(attempt: Attempt) -> None:
    """Output that is no text at all comes out of small segments byte for byte."""
    await attempt.python(EVERY_BYTE.format("stdout", "stderr"), segment_bytes=1000)
    record = await attempt.exit()

    expected = bytes(range(256)) * 64
    assert attempt.stream("stdout") == attempt.stream("stderr") == expected
    assert (record["stdout_bytes"], record["stderr_bytes"]) == (len(expected), len(expected))
    sizes = {path.stat().st_size for path in attempt.directory.glob("stdout.*")}
    assert max(sizes) == 1000


async def test_a_peer_hears_how_much_output_there_is(attempt: Attempt) -> None:
    """The last size is announced, and what it counts can be read by then."""
    await attempt.start(["/bin/cat"])
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("write", b"line\n" * 10, offset=0)
        size = 0
        while size < 50:
            size = (await peer.event("output"))["stdout"]
            assert len(attempt.stream("stdout")) >= size
        assert (await peer.ask("status"))["stdout"] == 50


async def test_stdin_is_addressed_so_that_sending_again_changes_nothing(attempt: Attempt) -> None:
    """Bytes that were taken are ignored, overlaps are cut, and gaps are refused."""
    await attempt.shell("cat; read go < /mnt/go", **with_scratch(attempt))
    async with Peer(attempt) as peer:
        await peer.attach()
        assert (await peer.ask("write", b"abcdef", offset=0))["taken"] == 6
        assert (await peer.ask("write", b"abcdef", offset=0))["taken"] == 6
        assert (await peer.ask("write", b"efgh", offset=4))["taken"] == 8
        assert (await peer.ask("write", b"bc", offset=1))["taken"] == 8
        refused = await peer.ask("write", b"z", offset=9)
        assert (refused["code"], refused["taken"]) == ("gap", 8)
        await peer.ask("close_stdin")
        assert (await peer.ask("close_stdin"))["ok"]
        (attempt.directory / "scratch" / "go").write_bytes(b"go\n")

    record = await attempt.exit()
    assert attempt.stream("stdout") == b"abcdefgh"
    assert (attempt.directory / "stdin.log").read_bytes() == b"abcdefgh"
    assert (record["exit_code"], record["stdin_bytes"]) == (0, 8)


async def test_stdin_that_nobody_reads_waits_on_disk(attempt: Attempt) -> None:
    """Far more than a pipe holds is taken at once and fed when the agent reads at last."""
    await attempt.shell("read go < /mnt/go; cat", **with_scratch(attempt))
    content = bytes(range(256)) * 1024 * 16
    async with Peer(attempt) as peer:
        await peer.attach()
        for offset in range(0, len(content), 262144):
            reply = await peer.ask("write", content[offset : offset + 262144], offset=offset)
        assert reply["taken"] == len(content)
        status = await peer.ask("status")
        assert 0 < status["stdin_fed"] < len(content)
        await peer.ask("close_stdin")
        refused = await peer.ask("write", b"more", offset=len(content))
        assert refused["code"] == "stdin_closed"
        (attempt.directory / "scratch" / "go").write_bytes(b"go\n")
        assert (await peer.event("exit"))["exit_code"] == 0
    assert attempt.stream("stdout") == content


def with_scratch(attempt: Attempt) -> dict[str, list[str]]:
    """A directory bound into the sandbox, with a fifo in it that an agent can wait for."""
    scratch = attempt.directory / "scratch"
    scratch.mkdir()
    os.mkfifo(scratch / "go")
    args = attempt.record([])["args"]
    return {"args": [*args, "--bind", str(scratch), "/mnt"]}


async def test_an_agent_without_stdin_reads_nothing(attempt: Attempt) -> None:
    """`null` gives the end of the file at once, and a write is refused by name."""
    await attempt.shell("cat; sleep 60", stdin="null")
    async with Peer(attempt) as peer:
        await peer.attach()
        assert (await peer.ask("write", b"x", offset=0))["code"] == "no_stdin"


async def test_an_agent_that_closes_its_stdin_costs_nothing(attempt: Attempt) -> None:
    """Bytes that nobody will read are taken and logged, and the keeper does not spin."""
    await attempt.shell("exec <&-; echo closed; sleep 60")
    async with Peer(attempt) as peer:
        await peer.attach()
        await until(lambda: attempt.stream("stdout") == b"closed\n")
        assert (await peer.ask("write", b"x" * 200_000, offset=0))["taken"] == 200_000
        before = cpu_ticks(attempt.pid)
        for _ in range(50):
            await peer.ask("status")
        assert cpu_ticks(attempt.pid) - before < 20


def cpu_ticks(pid: int) -> int:
    fields = proc(pid, "stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_a_background_child_that_keeps_stdout_open_does_not_hold_the_end(
    attempt: Attempt,
) -> None:
    """The end is the agent's end: what it left running dies and the streams end with it."""
    await attempt.shell("sleep 600 & echo done")
    record = await attempt.exit()
    assert (record["exit_code"], record["ended_by"]) == (0, "agent")
    assert attempt.stream("stdout") == b"done\n"


async def test_held_output_waits_in_its_pipe(attempt: Attempt) -> None:
    """Nothing is read while held, everything is after the release."""
    await attempt.python(FILL_THE_PIPE, **with_scratch(attempt))
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("hold")
        await peer.ask("write", b"\n", offset=0)
        await until((attempt.directory / "scratch" / "full").exists)
        status = await peer.ask("status")
        assert (status["stdout"], status["held"]) == (0, True)
        await peer.ask("release")
        assert (await peer.event("exit"))["stdout_bytes"] == 1_000_000


async def test_a_hold_ends_with_the_connection_that_asked_for_it(attempt: Attempt) -> None:
    """An agent does not wait for a daemon that never comes back, nor for one that was evicted."""
    await attempt.python(FILL_THE_PIPE, **with_scratch(attempt))
    async with Peer(attempt) as first:
        await first.attach(1)
        await first.ask("hold")
        async with Peer(attempt) as second:
            assert (await second.attach(2))["held"] is False
            await second.ask("hold")
            await second.ask("write", b"\n", offset=0)
            await until((attempt.directory / "scratch" / "full").exists)
    record = await attempt.exit()
    assert record["stdout_bytes"] == 1_000_000


async def test_more_output_than_may_be_stored_ends_the_agent(attempt: Attempt) -> None:
    """Both outputs count; what is stored by then has no hole, and the record says why."""
    script = "trap '' TERM; yes 0123456789 >&2 & yes 0123456789"
    await attempt.shell(script, output_limit_bytes=1 << 20, term_grace_s=0.2)
    record = await attempt.exit()
    sizes = record["stdout_bytes"] + record["stderr_bytes"]
    assert record["ended_by"] == "output_limit"
    assert 1 << 20 <= sizes < (1 << 20) + 2 * 65536
    assert sizes == len(attempt.stream("stdout")) + len(attempt.stream("stderr"))


async def test_the_last_words_of_an_agent_that_said_too_much_are_named_as_well(
    attempt: Attempt,
) -> None:
    """One that ends by itself behind its limit was cut all the same."""
    await attempt.shell("printf 0123456789", output_limit_bytes=5)
    assert (await attempt.exit())["ended_by"] == "output_limit"


async def test_a_full_disk_loses_nothing(attempt: Attempt) -> None:
    """A refused write is announced, kept, and carried out after the release."""
    content = "import sys; sys.stdin.read(1); sys.stdout.write('0123456789' * 50000)"
    await attempt.python(content)
    async with Peer(attempt) as peer:
        await peer.attach()
        unlimited = resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, (100_000, unlimited[1]))
        await peer.ask("write", b"x", offset=0)
        failed = await peer.event("storage")
        assert failed["error"].startswith("cannot store stdout: ")
        assert (await peer.ask("status"))["storage_error"] == failed["error"]
        assert (await peer.ask("release"))["storage_error"] == failed["error"]
        resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, unlimited)
        assert (await peer.ask("release"))["storage_error"] is None
        assert (await peer.event("storage"))["error"] is None
        assert (await peer.event("exit"))["stdout_bytes"] == 500_000
    assert attempt.stream("stdout") == b"0123456789" * 50_000


async def test_an_agent_killed_on_a_full_disk_keeps_its_last_bytes(attempt: Attempt) -> None:
    """What the pipe held at the end is stored once there is room, before exit.json."""
    await attempt.python(FILL_THE_PIPE, **with_scratch(attempt))
    async with Peer(attempt) as peer:
        await peer.attach()
        unlimited = resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, (10_000, unlimited[1]))
        await peer.ask("write", b"\n", offset=0)
        await peer.event("storage")
        await until((attempt.directory / "scratch" / "full").exists)
        await peer.ask("signal", target="tree", signal=9)
        while (status := await peer.ask("status"))["running"]:
            pass
        assert "exit" not in status
        resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, unlimited)
        await peer.ask("release")
        record = await peer.event("exit")
    assert record["stdout_bytes"] == len(attempt.stream("stdout")) >= 65536


async def test_a_hold_on_a_full_disk_does_not_keep_the_end_out(attempt: Attempt) -> None:
    """What was refused is tried again at the agent's end, even when nobody releases the hold."""
    await attempt.python(FILL_THE_PIPE, **with_scratch(attempt))
    async with Peer(attempt) as peer:
        await peer.attach()
        unlimited = resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, (10_000, unlimited[1]))
        await peer.ask("write", b"\n", offset=0)
        await peer.event("storage")
        await until((attempt.directory / "scratch" / "full").exists)
        await peer.ask("hold")
        resource.prlimit(attempt.pid, resource.RLIMIT_FSIZE, unlimited)
        await peer.ask("signal", target="tree", signal=9)
        record = await peer.event("exit")
    assert record["stdout_bytes"] == len(attempt.stream("stdout")) >= 65536


@pytest.mark.parametrize("attached", [True, False])
async def test_a_flood_is_stored_whole_in_bounded_memory(attempt: Attempt, attached: bool) -> None:
    """200 MB pass through a keeper that stays small, whether or not a peer reads along."""
    await attempt.shell(f"read line; head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x; read line")
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("write", b"\n", offset=0)
        if attached:
            while (await peer.event("output"))["stdout"] < FLOOD_BYTES:
                pass
    async with Peer(attempt) as peer:
        await peer.attach(2)
        while (await peer.ask("status"))["stdout"] < FLOOD_BYTES:
            await peer.event("output")
        peak = proc_value(attempt.pid, "status", "VmHWM:")
        await peer.ask("write", b"\n", offset=1)
        record = await peer.event("exit")
    assert peak < MEMORY_PEAK_KIB
    assert record["stdout_bytes"] == FLOOD_BYTES
    digest = hashlib.sha256()
    for path in sorted(attempt.directory.glob("stdout.*"), key=lambda path: int(path.suffix[1:])):
        digest.update(path.read_bytes())
    assert digest.digest() == hashlib.sha256(b"x" * FLOOD_BYTES).digest()
