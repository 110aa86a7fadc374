"""The methods of the wire: a table that jsonrpcserver dispatches from, and what describes them."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from attrs import frozen
from jsonrpcserver import async_dispatcher, dispatcher
from jsonrpcserver.request import Request
from jsonrpcserver.result import Result, Success
from oslash.either import Left

from coachmand.rpc import params
from coachmand.rpc.errors import RpcError, as_rpc_error

Handler = Callable[[Any, Any], Any]

# What any method may answer beside its own errors.
COMMON_ERRORS = ("InvalidParams", "InternalError", "Busy", "Cancelled")


@frozen
class Method:
    """One method as it is described to clients.

    ``inline``: it runs within the reader. ``waits``: it only waits for something to happen, so
    that a daemon that leaves need not wait for it. ``descriptors``: it takes those that come along.
    """

    name: str
    summary: str
    params: type
    result: Any
    errors: tuple[str, ...]
    inline: bool
    waits: bool
    descriptors: bool = False


class Methods(Protocol):
    """What a connection dispatches to."""

    def find(self, name: str) -> Method: ...
    def call(self, context: Any, request: Request) -> Any: ...
    async def call_async(self, context: Any, request: Request) -> Any: ...


class Registry:
    """Methods by name. A ``def`` handler runs inline, an ``async def`` one in a task.

    An inline handler costs no task switch, and holds up every other connection
    until it returns: it is for what is answered from memory.
    """

    def __init__(self) -> None:
        self.methods: dict[str, Method] = {}
        # Typed by jsonrpcserver for sync handlers; its async dispatcher reads the same table.
        self._table: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Registry of {len(self.methods)} methods>"

    def method(
        self,
        name: str,
        *,
        params: type = params.NoParams,
        result: Any = None,
        summary: str,
        errors: tuple[str, ...] = (),
        action: str | None = None,
        waits: bool = False,
        descriptors: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Register ``handler(context, params)``, which returns an attrs instance or a dict.

        ``params`` is an attrs class; ``result`` a type that msgspec describes; ``errors``
        the names it may answer with; ``action`` completes "cannot …" in complaints;
        ``waits`` and ``descriptors`` as in `Method`.
        """

        def register(handler: Handler) -> Handler:
            if name in self.methods:
                raise ValueError(f"cannot register {name}: it is registered already")
            inline = not inspect.iscoroutinefunction(handler)
            self.methods[name] = Method(
                name, summary, params, result, (*COMMON_ERRORS, *errors), inline, waits, descriptors
            )
            wrap = _inline if inline else _task
            self._table[name] = wrap(name, handler, params, action or name.rpartition(".")[2])
            return handler

        return register

    def find(self, name: str) -> Method:
        """The method of that name. Raises RpcError MethodNotFound with the nearest one."""
        try:
            return self.methods[name]
        except KeyError:
            nearest = params.near(name, self.methods)
            raise RpcError(
                "MethodNotFound",
                f"cannot call {name[:100]}: no such method",
                hint=f"did you mean {nearest}?" if nearest else "rpc.discover lists the methods",
            ) from None

    def call(self, context: Any, request: Request) -> Any:
        """Answer a request for an inline method. Raises RpcError."""
        _, result = dispatcher.dispatch_request(self._table, context, request)
        return _unwrap(result)

    async def call_async(self, context: Any, request: Request) -> Any:
        """Answer a request for a method that awaits. Raises RpcError."""
        _, result = await async_dispatcher.dispatch_request(self._table, context, request)
        return _unwrap(result)


def _inline(name: str, handler: Handler, cls: type, action: str) -> Callable[..., Result]:
    def call(context: Any, /, **members: Any) -> Result:
        try:
            return Success(handler(context, params.structure(members, cls, action)))
        except Exception as error:
            raise as_rpc_error(error, name) from error

    return _with_signature(call)


def _task(name: str, handler: Handler, cls: type, action: str) -> Callable[..., Awaitable[Result]]:
    async def call(context: Any, /, **members: Any) -> Result:
        try:
            return Success(await handler(context, params.structure(members, cls, action)))
        except Exception as error:
            raise as_rpc_error(error, name) from error

    return _with_signature(call)


def _with_signature(call: Callable[..., Any]) -> Callable[..., Any]:
    # jsonrpcserver binds the arguments on every call; working the signature out
    # anew costs more than the rest of its dispatch.
    call.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
    return call


def _unwrap(result: Any) -> Any:
    if isinstance(result, Left):
        # The wrappers raise nothing but RpcError, so the data names its arguments.
        raise RpcError(message=result._error.message, **result._error.data)
    return result._value.result
