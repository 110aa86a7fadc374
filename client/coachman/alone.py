"""Ask the daemon's program what it can tell without a daemon; it starts and changes nothing."""

import json

from .autostart import run_program
from .errors import CoachmanError, from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ANSWER_TIMEOUT_S = 180.0


def ask(
    env: "Mapping[str, str]",
    method: str,
    params: "Mapping[str, object]",
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> "Any":
    """The result of a method of the wire, as a daemon started from here would answer it.

    Raises CoachmanError as it was answered, or where the program cannot be run.
    """

    def failed(cause: str) -> CoachmanError:
        return CoachmanError(f"cannot ask the daemon's program: {cause}")

    given = {name: value for name, value in params.items() if value is not None}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
    line = json.dumps(request).encode() + b"\n"
    _, words = run_program(env, "--answer", failed, stdin=line, timeout_s=timeout_s)
    for word in reversed(words):
        if (reply := _reply_in(word)) is not None:
            if "error" in reply:
                raise from_wire(reply["error"])
            return reply["result"]
    raise failed(words[-1] if words else "it gave no answer")


def _reply_in(line: str) -> "dict[str, Any] | None":
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.get("jsonrpc") == "2.0" else None
