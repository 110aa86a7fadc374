"""The OpenRPC document of a registry: methods, errors and events, from the attrs classes."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from attrs import fields_dict, frozen, has

from coachman.wire import API_VERSIONS, ERROR_CODES
from coachmand.rpc.registry import Method, Registry

OPENRPC_VERSION = "1.4.1"
_SCHEMAS = "#/components/schemas/"


@frozen
class Event:
    """One line of a run's journal: the common members, then those of its type."""

    type: str
    seq: int
    ts: int
    run: str
    attempt: int | None = None
    turn: int | None = None
    session: str | None = None
    n: int | None = None


@frozen
class ErrorData:
    """What callers switch on: ``name`` is stable, ``next`` holds commands that run verbatim."""

    name: str
    hint: str | None
    retryable: bool
    retry_after_s: float | None
    detail: dict[str, Any] | None
    next: list[list[str]]


@frozen
class EventNotification:
    """An event of a subscription; the cursor resumes after it."""

    subscription: str
    cursor: str
    event: Event


@frozen
class ProgressNotification:
    """Nothing new matched, and the cursor moved."""

    subscription: str
    cursor: str


@frozen
class EndNotification:
    """The subscription is over."""

    subscription: str
    reason: str


NOTIFICATIONS = {
    "event.event": EventNotification,
    "event.progress": ProgressNotification,
    "event.end": EndNotification,
}


def document(registry: Registry, events: Mapping[str, type] | None = None) -> dict[str, Any]:
    """The document that ``rpc.discover`` serves.

    ``events`` maps event types to the attrs classes of their own members.
    """
    events = dict(sorted((events or {}).items()))
    methods = [registry.methods[name] for name in sorted(registry.methods)]
    schemas, components = _schemas([*_types(methods), *NOTIFICATIONS.values(), *events.values()])
    for kind, cls in events.items():
        components[f"Event.{kind}"] = _event_schema(kind, schemas[cls])
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "coachman",
            "description": "Newline-delimited JSON-RPC 2.0 on a Unix socket, one object a line.",
            "version": f"{API_VERSIONS[-1]}.0.0",
        },
        "methods": [_method(method, schemas, components) for method in methods],
        "components": {
            "schemas": components,
            "errors": {name: _error(name, code) for name, code in ERROR_CODES.items()},
        },
        "x-notifications": [
            {"name": name, "params": schemas[cls]} for name, cls in NOTIFICATIONS.items()
        ],
    }


def _types(methods: Iterable[Method]) -> list[Any]:
    results = [method.result for method in methods if method.result is not None]
    return [Event, ErrorData, *(method.params for method in methods), *results]


def _schemas(types: list[Any]) -> tuple[dict[Any, Any], dict[str, Any]]:
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_SCHEMAS + "{name}")
    return dict(zip(unique, schemas, strict=True)), dict(sorted(components.items()))


def _method(method: Method, schemas: Mapping[Any, Any], components: Any) -> dict[str, Any]:
    result = {} if method.result is None else schemas[method.result]
    return {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": _params(method.params, _resolve(schemas[method.params], components)),
        "result": {"name": "result", "schema": result},
        "errors": [{"$ref": f"#/components/errors/{name}"} for name in method.errors],
    }


def _params(cls: type, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Content descriptors, the required first: OpenRPC wants that order."""
    required = schema.get("required", [])
    names = sorted(schema["properties"], key=lambda name: name not in required)
    return [
        {"name": name, "required": name in required, "schema": schema["properties"][name]}
        for name in names
        if not has(cls) or name in fields_dict(cls)
    ]


def _resolve(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return components[reference.removeprefix(_SCHEMAS)] if reference else schema


def _event_schema(kind: str, members: Any) -> dict[str, Any]:
    return {
        "title": kind,
        "allOf": [
            {"$ref": f"{_SCHEMAS}Event"},
            members,
            {"type": "object", "properties": {"type": {"const": kind}}},
        ],
    }


def _error(name: str, code: int) -> dict[str, Any]:
    return {"code": code, "message": name, "data": {"$ref": f"{_SCHEMAS}ErrorData"}}
