"""The official ACP schema, version 1, as a judge of frames in both directions."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).parents[1] / "adapters" / "fixtures" / "acp" / "schema-v1.json"
SCHEMA_SHA256 = "0d0b1ca83c4872e5473f68926a894c7a8203b59b118e2a79bfe43dd76fbcbc1a"


@cache
def _document() -> dict[str, Any]:
    data = SCHEMA.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SCHEMA_SHA256
    return json.loads(data)


@cache
def _methods() -> dict[tuple[str, str], str]:
    """(method, "Request" | "Response" | "Notification") to the name of its definition."""
    found = {}
    for name, definition in _document()["$defs"].items():
        for kind in ("Request", "Response", "Notification"):
            if "x-method" in definition and name.endswith(kind):
                found[definition["x-method"], kind] = name
    return found


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/$defs/{name}", "$defs": _document()["$defs"]}
    return jsonschema.Draft202012Validator(schema)


class Judge:
    """Checks the frames of one connection; responses need the requests before them."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, Any], str] = {}
        self.judged: list[str] = []

    def check(self, side: str, line: str | bytes) -> None:
        """Raise where a frame that ``side`` ("client" or "agent") sent breaks the schema."""
        frame = json.loads(line)
        assert frame["jsonrpc"] == "2.0"
        if "method" in frame:
            kind = "Request" if "id" in frame else "Notification"
            if "id" in frame:
                self._asked[side, frame["id"]] = frame["method"]
            self._validate(frame["method"], kind, frame.get("params"))
            return
        asker = "agent" if side == "client" else "client"
        method = self._asked[asker, frame["id"]]
        assert ("result" in frame) != ("error" in frame)
        if "error" in frame:
            _validator("Error").validate(frame["error"])
        else:
            self._validate(method, "Response", frame["result"])

    def _validate(self, method: str, kind: str, value: Any) -> None:
        _validator(_methods()[method, kind]).validate(value)
        self.judged.append(f"{method} {kind}")
