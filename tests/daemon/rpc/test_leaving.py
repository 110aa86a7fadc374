"""A listener that leaves: what it took is answered, what it did not take is said not to be."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from coachmand.rpc.registry import Registry
from rpc_server import Client, Server, registry

Eventually = Callable[..., object]
NOTICE = {"jsonrpc": "2.0", "method": "daemon.leaving", "params": {"reason": "restart"}}


def with_long_poll() -> Registry:
    """The methods of the other tests, and one that waits for nothing in particular."""
    made = registry()

    @made.method("test.poll", summary="Wait for something to happen", waits=True)
    async def poll(context: Any, _params: Any) -> dict[str, Any]:
        context.log.append("polling")
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    return made


@pytest.fixture
def server(state_dir: Path) -> Iterator[Server]:
    """A server that is about to leave."""
    with Server(state_dir / "s.sock", with_long_poll()) as server:
        yield server


def leave(server: Server, limit_s: float = 20.0) -> threading.Thread:
    assert server.listener is not None
    work = threading.Thread(
        target=trio.from_thread.run,
        args=(server.listener.leave, limit_s),
        kwargs={"trio_token": server.token},
    )
    work.start()
    return work


def test_what_was_taken_is_answered_first(server: Server, eventually: Eventually) -> None:
    """The reply comes, then the notice, then the end."""
    with server.client() as client:
        client.request("test.wait")
        eventually(lambda: server.log == ["waiting"])
        leaving = leave(server)
        server.do(server.gate.set)

        assert client.read()["result"] == {"waited": True}
        assert client.read() == NOTICE
        assert client.at_end()
    leaving.join()


def test_a_long_poll_is_dropped(server: Server, eventually: Eventually) -> None:
    """Nobody waits for what may never happen; its client knows that it may ask again."""
    with server.client() as client:
        client.request("test.poll")
        eventually(lambda: server.log == ["polling"])
        leaving = leave(server)

        assert client.read() == NOTICE
        assert client.at_end()
    leaving.join()


def test_what_comes_while_it_leaves_is_not_carried_out(
    server: Server, eventually: Eventually
) -> None:
    """A request behind the last that was taken has no effect, as the notice says."""
    with server.client() as client:
        client.request("test.wait", request_id=1)
        eventually(lambda: server.log == ["waiting"])
        leaving = leave(server)
        eventually(lambda: server.do(lambda: server.listener.is_leaving))
        client.request("test.open", request_id=2)
        client.request("test.wait", request_id=3)
        server.do(server.gate.set)
        said = [client.read(), client.read()]
    leaving.join()

    assert [message.get("id") for message in said] == [1, None]
    assert server.log == ["waiting"]


def test_what_takes_too_long_is_cut_off_without_a_promise(
    server: Server, eventually: Eventually
) -> None:
    """What was cancelled midway may have had its effect: no notice says that it had none."""
    with server.client() as client:
        client.request("test.wait")
        eventually(lambda: server.log == ["waiting"])
        leave(server, limit_s=0.05).join()

        assert client.at_end()
    assert server.log == ["waiting", "cancelled"]


def test_who_connects_while_it_leaves_waits_for_the_next(server: Server) -> None:
    """The backlog takes them; they are neither served nor refused."""
    leave(server).join()
    with Client(server.path) as client:
        client.request("daemon.ping")
        client.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
