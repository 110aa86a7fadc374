"""Writes docs/openrpc.json and the TypeScript declarations of the Node client, from the code.

openrpc.py [--check]: with --check nothing is written; exit 1 names what is out of date.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coachman.event_types import EVENT_TYPES
from coachmand.methods import build_registry
from coachmand.rpc.openrpc import document

ROOT = Path(__file__).parents[1]
TYPES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
Schema = Mapping[str, Any]


def main(argv: list[str]) -> int:
    """Write the files, or tell which of them differ."""
    made = document(build_registry(), EVENT_TYPES)
    files = {
        ROOT / "docs/openrpc.json": json.dumps(made, indent=1) + "\n",
        ROOT / "docs/clients/node/coachman.d.ts": "\n".join(typescript(made)) + "\n",
    }
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" not in argv:
        for path in stale:
            path.write_text(files[path])
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run scripts/openrpc", file=sys.stderr)
    return int(bool(stale))


def typescript(document: Schema) -> Iterator[str]:
    """The lines of a declaration file: schemas, methods, notifications and errors."""
    yield "// Made by scripts/openrpc from docs/openrpc.json."
    for name, schema in document["components"]["schemas"].items():
        yield from ("", *_comment(schema.get("description"), ""))
        yield f"export type {_name(name)} = {_type(schema, '')};"
    yield from _table("Methods", (_method(method) for method in document["methods"]))
    notifications = document["x-notifications"]
    yield from _table(
        "Notifications", (f'  "{n["name"]}": {_type(n["params"], "  ")};' for n in notifications)
    )
    names = (json.dumps(name) for name in document["components"]["errors"])
    yield from ("", f"export type ErrorName = {' | '.join(names)};")


def _table(name: str, rows: Iterator[str]) -> Iterator[str]:
    yield from ("", f"export interface {name} {{", *rows, "}")


def _method(method: Schema) -> str:
    params = {
        "type": "object",
        "properties": {param["name"]: param["schema"] for param in method["params"]},
        "required": [param["name"] for param in method["params"] if param["required"]],
    }
    result = _type(method["result"]["schema"], "    ")
    lines = [
        *_comment(method["summary"], "  "),
        f'  "{method["name"]}": {{',
        f"    params: {_type(params, '    ')};",
        f"    result: {result};",
        "  };",
    ]
    return "\n".join(lines)


def _type(schema: Schema, indent: str) -> str:
    """One schema as a type; ``indent`` is that of the line it stands in."""
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " | ".join(_type(option, indent) for option in schema[choice])
    match schema.get("type"):
        case "array":
            return f"Array<{_type(schema.get('items', {}), indent)}>"
        case "object":
            return _object(schema, indent)
        case kind:
            return TYPES.get(str(kind), "null" if kind == "null" else "unknown")


def _object(schema: Schema, indent: str) -> str:
    if not schema.get("properties"):
        values = schema.get("additionalProperties", {})
        empty = "properties" in schema
        return f"Record<string, {'never' if empty else _type(values, indent)}>"
    required = schema.get("required", ())
    inner = indent + "  "
    members = (
        f"{inner}{json.dumps(name)}{'' if name in required else '?'}: {_type(of, inner)};"
        for name, of in schema["properties"].items()
    )
    return "\n".join(("{", *members, indent + "}"))


def _name(name: str) -> str:
    """``Event.run.state`` as a TypeScript name: EventRunState."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace("_", ".").split("."))


def _comment(text: str | None, indent: str) -> Iterator[str]:
    if text:
        words = text.replace("``", "`").replace("\n", f"\n{indent} * ").replace("* \n", "*\n")
        yield f"{indent}/** {words} */"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
