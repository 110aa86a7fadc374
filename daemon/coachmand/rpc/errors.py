"""Errors as the wire carries them: a code, a message, and data to switch on."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from jsonrpcserver.exceptions import JsonRpcError

from coachman.wire import ERROR_CODES

log = structlog.get_logger("rpc")


class RpcError(JsonRpcError):
    """What a handler raises to refuse a request.

    ``name`` is one of ``coachman.wire.ERROR_CODES``; ``message`` reads "cannot X: Y";
    ``next`` holds argument vectors that run verbatim.
    """

    code: int
    message: str
    data: dict[str, Any]

    def __init__(
        self,
        name: str,
        message: str,
        hint: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        detail: Mapping[str, Any] | None = None,
        next: Sequence[Sequence[str]] = (),
    ) -> None:
        data = {
            "name": name,
            "hint": hint,
            "retryable": retryable,
            "retry_after_s": retry_after_s,
            "detail": None if detail is None else dict(detail),
            "next": [list(argv) for argv in next],
        }
        super().__init__(ERROR_CODES[name], message, data)

    @property
    def name(self) -> str:
        """The error's name, as in ``data.name``."""
        return str(self.data["name"])

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"<RpcError {self.name}: {self.message}>"

    def wire(self) -> dict[str, Any]:
        """The error object of a JSON-RPC reply."""
        return {"code": self.code, "message": self.message, "data": self.data}


def internal_error(error: BaseException, method: str) -> RpcError:
    """Log an unexpected exception under a fresh incident id and hide it behind that id."""
    incident = secrets.token_hex(4)
    log.error("request_failed", incident=incident, method=method, exc_info=error)
    return RpcError(
        "InternalError",
        f"cannot answer {method}: an internal error, incident {incident}",
        hint=f"the daemon's log has the details: search it for {incident}",
        detail={"incident": incident},
    )


def as_rpc_error(error: BaseException, method: str) -> RpcError:
    """The error to answer with: a refusal, also one inside a group, else an incident.

    What happened beside the refusal in the same group is logged, never lost.
    """
    leaves = list(_leaves(error))
    refusals = [leaf for leaf in leaves if isinstance(leaf, RpcError)]
    if not refusals:
        return internal_error(error, method)
    if any(not isinstance(leaf, RpcError) for leaf in leaves):
        internal_error(error, method)
    return refusals[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
