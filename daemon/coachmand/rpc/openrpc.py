"""The OpenRPC document of a registry: methods, errors, notifications and events, from their types.

Parameters and notifications are attrs classes; results and events are the typed
dictionaries that the client's own callers are checked against.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from attrs import frozen

from coachman import results
from coachman.event_envelope import Envelope
from coachman.wire import API_VERSIONS, ERROR_CODES
from coachmand.rpc.registry import Method, Registry

OPENRPC_VERSION = "1.4.1"
_SCHEMAS = "#/components/schemas/"
Schema = dict[str, Any]


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
    event: results.Event


@frozen
class ProgressNotification:
    """Nothing new matched, and the cursor moved."""

    subscription: str
    cursor: str


@frozen
class EndNotification:
    """The subscription is over, and why.

    ``run_ended``; or ``interrupted``: there is more behind the cursor; or ``given_up``: the disk
    refused the journal, and a later daemon goes on with the run.
    """

    subscription: str
    cursor: str
    reason: str


@frozen
class LeavingNotification:
    """The daemon restarts. What it has not answered it will not carry out: connect, ask again."""

    reason: str


NOTIFICATIONS = {
    "event.event": EventNotification,
    "event.progress": ProgressNotification,
    "event.end": EndNotification,
    "daemon.leaving": LeavingNotification,
}


def document(registry: Registry, events: Mapping[str, type] | None = None) -> Schema:
    """The document that ``rpc.discover`` serves.

    ``events`` maps event types to the classes of their own members.
    """
    methods = [registry.methods[name] for name in sorted(registry.methods)]
    answers = [method.result for method in methods if method.result is not None]
    made, components = _schemas([Envelope, ErrorData, *NOTIFICATIONS.values(), *answers])
    given, of_params = _schemas(method.params for method in methods)
    happenings, of_events = _events(dict(sorted((events or {}).items())), components["Envelope"])
    document = {
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "coachman",
            "description": "Newline-delimited JSON-RPC 2.0 on a Unix socket, one object a line.",
            "version": f"{API_VERSIONS[-1]}.0.0",
        },
        "methods": [
            _method(method, made, _resolve(given[method.params], of_params)) for method in methods
        ],
        "x-notifications": [
            {"name": name, "summary": _first_line(cls), "params": made[cls]}
            for name, cls in NOTIFICATIONS.items()
        ],
    }
    # A name that an event's members share with a result stands for the result.
    schemas = {**of_params, **of_events, **components, **happenings}
    errors = {name: _error(name, code) for name, code in ERROR_CODES.items()}
    used = _used([document, errors], schemas)
    return {**document, "components": {"schemas": used, "errors": errors}}


def _schemas(types: Iterable[Any]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(
        unique, ref_template=_SCHEMAS + "{name}", schema_hook=_hook
    )
    return dict(zip(unique, schemas, strict=True)), components


def _hook(cls: type) -> Schema:
    if cls is results.Event:
        return {"$ref": f"{_SCHEMAS}Event"}
    raise NotImplementedError


def _method(method: Method, made: Mapping[Any, Schema], params: Schema) -> Schema:
    result = {} if method.result is None else made[method.result]
    return {
        "name": method.name,
        "summary": method.summary,
        **({"description": params["description"]} if params["properties"] else {}),
        "paramStructure": "by-name",
        "params": _params(params),
        "result": {"name": "result", "schema": result},
        "errors": [{"$ref": f"#/components/errors/{name}"} for name in method.errors],
    }


def _params(schema: Schema) -> list[Schema]:
    """Content descriptors, the required first: OpenRPC wants that order."""
    required = schema.get("required", [])
    names = sorted(schema["properties"], key=lambda name: name not in required)
    return [
        {"name": name, "required": name in required, "schema": schema["properties"][name]}
        for name in names
    ]


def _resolve(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    reference = schema.get("$ref")
    return components[reference.removeprefix(_SCHEMAS)] if reference else schema


def _events(
    events: Mapping[str, type], envelope: Schema
) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """A schema for each type of event and one for any of them; what these refer to."""
    members, components = _schemas(events.values())
    made = {
        f"Event.{kind}": _event(kind, envelope, _resolve(members[cls], components))
        for kind, cls in events.items()
    }
    known = [{"$ref": f"{_SCHEMAS}{name}"} for name in made]
    any_of = {"oneOf": known} if known else {"$ref": f"{_SCHEMAS}Envelope"}
    about = {"title": "Event", "description": "One line of a run's journal, by its `type`."}
    return {**made, "Event": {**about, **any_of}}, components


def _event(kind: str, envelope: Schema, members: Schema) -> Schema:
    required = {*envelope["required"], *members.get("required", ())}
    return {
        "title": f"Event.{kind}",
        "description": members.get("description", ""),
        "type": "object",
        "properties": {
            **envelope["properties"],
            "type": {"const": kind},
            **members["properties"],
        },
        "required": sorted(required),
    }


def _used(document: Any, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Those of ``schemas`` that the document leads to."""
    found: dict[str, Schema] = {}
    waiting = [document]
    while waiting:
        for name in _references(waiting.pop()) - found.keys():
            found[name] = schemas[name]
            waiting.append(schemas[name])
    return dict(sorted(found.items()))


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        reference = str(value.get("$ref", ""))
        own = {reference.removeprefix(_SCHEMAS)} if reference.startswith(_SCHEMAS) else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


def _error(name: str, code: int) -> Schema:
    return {"code": code, "message": name, "data": {"$ref": f"{_SCHEMAS}ErrorData"}}
