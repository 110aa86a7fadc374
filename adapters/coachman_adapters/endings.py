"""How a process's end reads as an error."""

from typing import Any

from coachman_adapters.conversation import Ending

STDERR_TAIL_CHARS = 2000


def exited(what: str, ending: Ending, hint: str | None = None) -> dict[str, Any]:
    """The error of a turn whose process ended first. ``data`` has exit_code, signal, stderr."""
    how = f"was killed by signal {ending.signal}"
    if ending.signal is None:
        how = f"exited with code {ending.exit_code}"
    data: dict[str, Any] = {"exit_code": ending.exit_code, "signal": ending.signal}
    message = f"the {what} {how} before its turn ended"
    tail = ending.stderr_tail.decode("utf-8", "replace").strip()[-STDERR_TAIL_CHARS:]
    for name, said in (("stderr", tail), ("hint", hint)):
        if said:
            data[name] = said
            message += f": {said.splitlines()[-1]}"
    return {"message": message, "code": "agent_exited", "data": data}
