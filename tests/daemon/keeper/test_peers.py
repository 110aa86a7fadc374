"""Peers of the keeper's socket: fenced by generation, and none can hurt it."""

import json
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import trio

from coachmand.keeper.peers import MAX_PEERS
from keeper_attempts import Attempt, Peer, proc_value, until

pytest_plugins = ("keeper_fixtures",)

MANY_PEERS = 40
MEMORY_PEAK_KIB = 24 * 1024


@pytest.fixture
async def echo(attempt: Attempt) -> AsyncIterator[Attempt]:
    """An attempt whose agent repeats its stdin."""
    await attempt.start(["/bin/cat"], mask=["secret"])
    yield attempt
    async with Peer(attempt) as peer:
        status = await peer.attach(1_000_000)
        assert status["running"], "the agent did not survive"
        reply = await peer.ask("write", b"still here\n", offset=status["stdin_taken"])
        assert reply["ok"]
        await until(lambda: attempt.stream("stdout").endswith(b"still here\n"))


async def test_a_peer_introduces_itself_and_attaches(echo: Attempt) -> None:
    """`hello` names the version and the pid, `attach` gives the status and what to mask."""
    async with Peer(echo) as peer:
        hello = await peer.ask("hello", version=1)
        assert (hello["version"], hello["pid"]) == (1, echo.pid)
        assert (await peer.ask("hello", version=2))["code"] == "version"
        assert (await peer.ask("status"))["code"] == "not_attached"
        status = await peer.attach(3)
        assert (status["generation"], status["mask"], status["running"]) == (3, ["secret"], True)
        assert echo.state["generation"] == 3
        assert (await peer.ask("dance"))["code"] == "unknown_op"


async def test_a_later_generation_evicts_and_an_earlier_one_is_refused(echo: Attempt) -> None:
    """The highest generation wins for ever; an equal one is the same daemon come back."""
    async with Peer(echo) as first, Peer(echo) as second, Peer(echo) as third:
        await first.attach(5)
        assert (await second.attach(6))["ok"]
        assert (await first.event("evicted"))["event"] == "evicted"
        await first.hung_up()
        refused = await third.attach(5)
        assert (refused["code"], refused["generation"]) == ("stale_generation", 6)
        assert (await third.ask("write", b"x", offset=0))["code"] == "not_attached"
        assert (await second.ask("status"))["generation"] == 6
        assert (await third.attach(6))["ok"]
        await second.event("evicted")


async def test_a_peer_that_vanished_is_replaced_without_a_loss(echo: Attempt) -> None:
    """What was said to nobody is on disk, and the next peer goes on from where stdin stands."""
    async with Peer(echo) as peer:
        await peer.attach(1)
        await peer.ask("write", b"one\n", offset=0)
    async with Peer(echo) as peer:
        status = await peer.attach(2)
        assert status["stdin_taken"] == 4
        await peer.ask("write", b"one\ntwo\n", offset=0)
        await until(lambda: echo.stream("stdout") == b"one\ntwo\n")


GARBAGE = {
    "not json": b"hello there\n",
    "binary": bytes(range(256)) + b"\n",
    "no object": b"[1,2]\n",
    "no op": b'{"id":1}\n',
    "op of the wrong type": b'{"id":1,"op":["hello"]}\n',
    "id of the wrong type": b'{"id":{},"op":"hello"}\n',
    "deep": b"[" * 60_000 + b"\n",
    "long line": b"x" * 200_000,
    "long number": b'{"id":1,"op":"attach","generation":' + b"9" * 10_000 + b"}\n",
    "huge size": b'{"id":1,"op":"write","offset":0,"size":1000000000000}\n',
    "negative size": b'{"id":1,"op":"write","offset":0,"size":-1}\n',
    "size of the wrong type": b'{"id":1,"op":"write","offset":0,"size":"9"}\n',
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_ends_the_connection_that_sent_it(echo: Attempt, name: str) -> None:
    """What is no message is answered with an error at most, and the connection ends."""
    async with Peer(echo) as peer:
        try:
            await peer.stream.send_all(GARBAGE[name])
            await peer.stream.send_eof()
        except trio.BrokenResourceError:
            return
        reply = await peer.next_message()
        assert reply is None or reply["code"] == "bad_message"
        await peer.hung_up()


WRONG_REQUESTS = [
    {"op": "attach"},
    {"op": "attach", "generation": -1},
    {"op": "attach", "generation": True},
    {"op": "write", "offset": "0"},
    {"op": "write", "offset": -5},
    {"op": "signal", "target": "everyone", "signal": 9},
    {"op": "signal", "target": "agent", "signal": 0},
    {"op": "signal", "target": "agent", "signal": 10_000},
    {"op": "signal", "target": ["agent"], "signal": 9},
    {"op": "set_deadline", "boottime_s": []},
]


async def test_a_wrong_request_is_refused_and_the_connection_goes_on(echo: Attempt) -> None:
    """Members of the wrong kind are named, and nothing happens."""
    async with Peer(echo) as peer:
        await peer.attach()
        for request in WRONG_REQUESTS:
            reply = await peer.ask(**request)
            assert (reply["ok"], reply["code"]) == (False, "bad_request"), request
            assert reply["error"].startswith("cannot ")


async def test_a_message_may_arrive_byte_by_byte(echo: Attempt) -> None:
    """How bytes are cut into packets changes nothing, and a half message waits."""
    async with Peer(echo) as peer:
        await peer.attach()
        message = b'{"op":"write","id":7,"offset":0,"size":6}\nhello\n'
        for value in message[:-1]:
            await peer.stream.send_all(bytes([value]))
        async with Peer(echo) as other:
            assert (await other.ask("hello", version=1))["ok"]
        assert echo.stream("stdout") == b""
        await peer.stream.send_all(message[-1:])
        assert await peer.next_message() == {"id": 7, "ok": True, "taken": 6}


async def test_a_half_closed_peer_still_gets_its_answers(echo: Attempt) -> None:
    """What was asked before the end is answered after it."""
    async with Peer(echo) as peer:
        lines = b"".join(
            json.dumps({"op": "hello", "id": number, "version": 1}).encode() + b"\n"
            for number in range(100)
        )
        await peer.stream.send_all(lines)
        await peer.stream.send_eof()
        for number in range(100):
            reply = await peer.next_message()
            assert reply is not None
            assert reply["id"] == number
        await peer.hung_up()


async def test_a_peer_that_never_reads_stops_nobody(echo: Attempt) -> None:
    """Its requests stop being read, the agent's output goes on, and memory stays bounded."""
    request = b'{"op":"status","id":1}\n' * 1000
    async with Peer(echo) as stuck, Peer(echo) as other:
        await stuck.attach()
        with trio.move_on_after(1.0) as flooding:
            while True:
                await stuck.stream.send_all(request)
        assert flooding.cancelled_caught
        assert (await other.ask("hello", version=1))["ok"]
        assert (await other.attach(2))["ok"]
        assert proc_value(echo.pid, "status", "VmHWM:") < MEMORY_PEAK_KIB


async def test_many_connections_push_out_the_idle_ones_only(echo: Attempt) -> None:
    """The attached peer stays however many others come."""
    async with AsyncExitStack() as stack:
        attached = await stack.enter_async_context(Peer(echo))
        await attached.attach()
        others = [await stack.enter_async_context(Peer(echo)) for _ in range(MANY_PEERS)]
        assert (await others[-1].ask("hello", version=1))["ok"]
        assert (await attached.ask("status"))["ok"]
        for peer in others[: 1 - MAX_PEERS]:
            assert await peer.next_message() is None


async def test_only_the_owner_reaches_the_socket(echo: Attempt) -> None:
    """The socket and every file of the attempt belong to the owner alone."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in echo.directory.iterdir()}
    assert "keeper.sock" in modes
    assert {name: mode for name, mode in modes.items() if mode != 0o600} == {}
