"""A run's own socket: what is asked over it, and what of the answers is not for an agent."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import structlog
import trio
from jsonrpcserver.request import Request

from ..evidence.rundir import RunDirectory
from ..rpc.bounds import OF_DELEGATES
from ..rpc.errors import RpcError
from ..rpc.listener import Listener, ListenError
from ..rpc.params import members_of
from ..rpc.peer import Peer
from ..rpc.registry import Method, Methods, Registry
from ..runs.run import Run
from . import delegated
from .hiding import Hiding

log = structlog.get_logger("delegates")
# Where the disk has no room for the socket, or a dying daemon still holds it.
LISTEN_AGAIN_S = 0.5
START = "run.start"
UNKNOWN = "it is not offered there"


class AllowList:
    """The methods of a registry that the tables let through; answers come back through ``hiding``.

    ``directory`` is where a run works that is started. Raises RpcError Denied, naming the method
    or the parameter that is not let through.
    """

    def __init__(self, registry: Methods, hiding: Hiding, directory: str) -> None:
        self._registry = registry
        self._hiding = hiding
        self._directory = directory

    def __repr__(self) -> str:
        return f"<AllowList of {len(delegated.ALLOWED)} methods>"

    def find(self, name: str) -> Method:
        """The method of that name, where it is offered."""
        method = self._registry.find(name)
        if name not in delegated.ALLOWED:
            why = delegated.CLOSED.get(name, UNKNOWN)
            raise _denied(f"cannot call {name} over a run's own socket: {why}", method=name)
        return method

    def call(self, context: Any, request: Request) -> Any:
        """Answer a request for an inline method."""
        check(self.find(request.method), request.params)
        with self._hiding.of_refusals():
            return self._hiding.of(self._registry.call(context, request))

    async def call_async(self, context: Any, request: Request) -> Any:
        """Answer a request for a method that awaits."""
        check(self.find(request.method), request.params)
        if request.method == START:
            params: Any = request.params
            request = request._replace(params={**params, "dir": self._directory})
        with self._hiding.of_refusals():
            return self._hiding.of(await self._registry.call_async(context, request))


def check(method: Method, given: Any) -> None:
    """Raise RpcError Denied for the first parameter that is not let through."""
    allowed = delegated.ALLOWED[method.name]
    # A parameter that does not exist is the method's own to complain of.
    known = set(parameters_of(method.params))
    for name in _named(given, known):
        if name in known and name not in allowed:
            verb = method.name.rpartition(".")[2]
            why = delegated.REFUSED.get(method.name, {}).get(name, UNKNOWN)
            text = f"cannot {verb}: `{name}` may not be given over a run's own socket: {why}"
            raise _denied(text, method=method.name, member=name)


def parameters_of(cls: type, prefix: str = "") -> Iterator[str]:
    """The parameters that a class takes; members of an object that is a class are dotted."""
    for name, inner in members_of(cls):
        yield prefix + name
        if inner is not None:
            yield from parameters_of(inner, f"{prefix}{name}.")


def _named(given: Mapping[str, Any], known: set[str], prefix: str = "") -> Iterator[str]:
    for name, value in given.items():
        dotted = prefix + name
        yield dotted
        if isinstance(value, dict) and any(each.startswith(f"{dotted}.") for each in known):
            yield from _named(value, known, f"{dotted}.")


def _denied(text: str, **detail: Any) -> RpcError:
    return RpcError("Denied", text, detail=detail)


class Delegates:
    """Offers each run its socket for as long as it lives; ``make_context`` says who calls."""

    def __init__(self, registry: Registry, make_context: Callable[[Peer, str], Any]) -> None:
        self._registry = registry
        self._make_context = make_context
        self._listeners: set[Listener] = set()

    def __repr__(self) -> str:
        return f"<Delegates, {len(self._listeners)} sockets>"

    async def offer(self, run: Run) -> None:
        """Serve ``run``'s socket until cancelled. Its directory is bound: a new one is seen."""
        hiding = Hiding.of_run(run)
        while True:
            try:
                listener = await trio.to_thread.run_sync(_listen, run.directory)
            except ListenError as error:
                log.warning("no_delegate_socket", run=run.fixed.run, error=str(error))
                await trio.sleep(LISTEN_AGAIN_S)
                continue
            with listener:
                self._listeners.add(listener)
                try:
                    await self._serve(listener, run, hiding)
                finally:
                    self._listeners.discard(listener)

    async def _serve(self, listener: Listener, run: Run, hiding: Hiding) -> None:
        def context_of(peer: Peer) -> Any:
            peer.veil = hiding.lines
            return self._make_context(peer, run.fixed.run)

        allowed = AllowList(self._registry, hiding, run.fixed.dir)
        await listener.serve(allowed, context_of)
        # It takes no more because the daemon is about to come back.
        await trio.sleep_forever()

    async def leave(self, limit_s: float) -> None:
        """Answer what was asked over all of them, and take no more."""
        async with trio.open_nursery() as nursery:
            for listener in list(self._listeners):
                nursery.start_soon(listener.leave, limit_s)


def _listen(directory: RunDirectory) -> Listener:
    return Listener(os.fspath(directory.delegate / "control.sock"), bounds=OF_DELEGATES)
