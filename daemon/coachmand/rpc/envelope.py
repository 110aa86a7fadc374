"""One line of the wire to a request or a refusal, and replies back to lines.

Parsing never raises. A document that two parsers could read differently
(repeated members, lone surrogates, integers beyond 64 bits) is a parse error.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
from attrs import frozen
from jsonrpcserver.request import Request
from jsonrpcserver.sentinels import NOID

from coachmand.rpc.errors import RpcError

MAX_INTEGER_BITS = 64

RequestId = int | str


@frozen
class Refusal:
    """A line that is no request: answered with ``error``, under ``id`` where one was readable.

    ``silent``: it is a well-formed notification all the same, which is never answered.
    """

    id: RequestId | None
    error: RpcError
    silent: bool = False


class _MalformedError(ValueError):
    """Names in words what a document may not hold."""


def parse(line: bytes) -> Request | Refusal:
    """Read one line. A notification's id is ``NOID``; params are always an object."""
    try:
        document = _decode(line)
    except _MalformedError as error:
        return Refusal(None, RpcError("ParseError", f"cannot read the line: {error}"))
    if not isinstance(document, dict):
        return Refusal(None, _invalid(_not_an_object(document)))
    request_id = document.get("id", NOID)
    if request_id is not NOID and not _is_id(request_id):
        return Refusal(None, _invalid("`id` must be an integer or a string"))
    fault = _fault(document)
    if fault is not None:
        if request_id is not NOID:
            return Refusal(request_id, fault)
        return Refusal(None, fault, silent=fault.name == "InvalidParams")
    return Request(document["method"], document.get("params", {}), request_id)


def _decode(line: bytes) -> Any:
    try:
        document = msgspec.json.decode(line)
        _STRICT.decode(line.decode().strip())
    except _MalformedError:
        raise
    except RecursionError:
        raise _MalformedError("it is nested too deeply") from None
    except msgspec.MsgspecError as unreadable:
        cause = str(unreadable).removeprefix("JSON is malformed: ")
        raise _MalformedError(cause) from None
    except ValueError:
        raise _MalformedError("it is not JSON in UTF-8") from None
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _MalformedError("an object repeats a member")
    return members


def _bounded(digits: str) -> int:
    # 20 digits hold every 64-bit integer; longer ones are not worth converting.
    if len(digits) > 20 or int(digits).bit_length() > MAX_INTEGER_BITS:
        raise _MalformedError(f"an integer exceeds {MAX_INTEGER_BITS} bits")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise _MalformedError(f"{name} is not JSON")


# msgspec is strict about everything but these; it keeps the last of repeated members.
_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_bounded, parse_constant=_refuse_constant
)


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _not_an_object(document: Any) -> str:
    if isinstance(document, list):
        return "batches are not supported; send one request a line"
    return "a request is an object"


def _fault(document: dict[str, Any]) -> RpcError | None:
    if document.get("jsonrpc") != "2.0":
        return _invalid('`jsonrpc` must be "2.0"')
    if not isinstance(document.get("method"), str):
        return _invalid("`method` must be a string")
    params = document.get("params", {})
    if isinstance(params, list):
        return RpcError(
            "InvalidParams",
            f"cannot call {document['method'][:100]}: parameters go by name, in an object",
        )
    if not isinstance(params, dict):
        return _invalid("`params` must be an object")
    return None


def _invalid(why: str) -> RpcError:
    return RpcError("InvalidRequest", f"cannot accept the request: {why}")


_ENCODER = msgspec.json.Encoder()


def encode(document: Mapping[str, Any]) -> bytes:
    """One line of the wire, newline included. Lone surrogates become question marks."""
    try:
        return _ENCODER.encode(document) + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(document), ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"


def encode_result(request_id: RequestId, result: Any) -> bytes:
    """The line that answers a request; attrs instances become objects, None is kept."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId | None, error: RpcError) -> bytes:
    """The line that refuses a request; the id is null when none was readable."""
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error.wire()})


def encode_notification(method: str, params: Any) -> bytes:
    """The line of a notification, to be handed to ``Peer.send_events``."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})
