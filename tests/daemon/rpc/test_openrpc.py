"""The OpenRPC document says what the attrs classes say."""

import json
from typing import Any, TypedDict

import jsonschema
from attrs import frozen

from coachman.wire import ERROR_CODES
from coachmand.rpc.openrpc import document
from coachmand.rpc.registry import Registry
from rpc_server import registry


@frozen
class Chunk:
    """A piece of the agent's message."""

    text: str
    message_id: str | None = None


Diff = TypedDict("Diff", {"from": str, "to": str})


def by_name(made: dict[str, Any], name: str) -> dict[str, Any]:
    return next(method for method in made["methods"] if method["name"] == name)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_methods_take_parameters_by_name_with_types_and_defaults() -> None:
    """Each field is a parameter, the required first, with its schema and default."""
    method = by_name(document(registry()), "test.echo")

    assert method["paramStructure"] == "by-name"
    assert method["params"] == [
        {"name": "text", "required": True, "schema": {"type": "string"}},
        {"name": "times", "required": False, "schema": {"type": "integer", "default": 1}},
    ]
    assert method["result"] == {
        "name": "result",
        "schema": {"$ref": "#/components/schemas/Echoed"},
    }


def test_docstrings_become_descriptions() -> None:
    """A class's docstring describes its schema."""
    schemas = document(registry())["components"]["schemas"]

    assert schemas["Echoed"]["description"] == "The text as often as asked, and nothing else."


def test_every_reference_leads_somewhere() -> None:
    """No reference of the document dangles."""
    made = document(registry(), {"agent.message_chunk": Chunk})
    for reference in references(made):
        place: Any = made
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_every_error_is_a_component() -> None:
    """Each error of the wire is a component with its code."""
    errors = document(registry())["components"]["errors"]

    assert {name: error["code"] for name, error in errors.items()} == ERROR_CODES


def test_events_are_schemas_of_their_type() -> None:
    """An event's schema takes a journal line of its type and no other."""
    made = document(registry(), {"agent.message_chunk": Chunk})
    schema = {
        "$ref": "#/components/schemas/Event.agent.message_chunk",
        "components": made["components"],
    }
    line = {"type": "agent.message_chunk", "seq": 1, "ts": 2, "run": "r", "text": "hello"}

    jsonschema.validate(line, schema)
    for broken in ({**line, "type": "tool.call"}, {**line, "text": 1}, {**line, "seq": None}):
        assert not jsonschema.Draft202012Validator(schema).is_valid(broken)


def test_a_result_may_have_members_that_python_reserves() -> None:
    """A TypedDict describes a result whose members are no Python names."""
    made = Registry()
    made.method("run.diff", result=Diff, summary="Diff")(lambda _context, _params: {})

    schema = document(made)["components"]["schemas"]["Diff"]
    assert list(schema["properties"]) == ["from", "to"]


def test_the_document_is_stable_json() -> None:
    """Two registries with the same methods give the same bytes."""
    assert json.dumps(document(registry())) == json.dumps(document(registry()))
