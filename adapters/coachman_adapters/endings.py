"""How a process's end reads as an error."""

import re
from typing import Any

from coachman_adapters.conversation import Ending

STDERR_TAIL_CHARS = 2000
# What bubblewrap says when it built the sandbox and then had nothing to start in it.
NOT_STARTED = re.compile(r"bwrap: execvp (?P<program>.+): (?P<why>[^:]+)")
ABSENT = "No such file or directory"
FORBIDDEN = "Permission denied"


def exited(what: str, ending: Ending, owed: str = "", hint: str | None = None) -> dict[str, Any]:
    """The error of a process that ended, ``owed`` its protocol something more ("before it …").

    ``data`` has exit_code, signal, stderr, hint. One that never started is told as such.
    """
    data: dict[str, Any] = {"exit_code": ending.exit_code, "signal": ending.signal}
    tail = ending.stderr_tail.decode("utf-8", "replace").strip()[-STDERR_TAIL_CHARS:]
    said = {name: text for name, text in (("stderr", tail), ("hint", hint)) if text}
    message = _not_started(what, ending, tail)
    if message is None:
        words = [f"the {what} {_how(ending)} {owed}".rstrip()]
        message = ": ".join([*words, *(text.splitlines()[-1] for text in said.values())])
    return {"message": message, "code": "agent_exited", "data": {**data, **said}}


def _how(ending: Ending) -> str:
    if ending.signal is not None:
        return f"was killed by signal {ending.signal}"
    if ending.exit_code is None:
        return "ended without an exit status"
    return f"exited with status {ending.exit_code}"


def _not_started(what: str, ending: Ending, tail: str) -> str | None:
    """The reason why there was no process at all; None where there was one.

    bubblewrap reports no status then. With one, the same words are a program's own.
    """
    if ending.exit_code is not None or ending.signal is not None or not tail:
        return None
    last = tail.splitlines()[-1]
    match = NOT_STARTED.fullmatch(last)
    if match is None:
        return f"cannot start the {what}: {last.removeprefix('bwrap: ')}"
    program, why = match["program"], match["why"]
    if why == ABSENT:
        why = f"no such program in the sandbox; {_where(program)}"
    elif why == FORBIDDEN:
        why = "it is not an executable file"
    return f"cannot run {program}: {why}"


def _where(program: str) -> str:
    """Why a program that is there outside may be missing inside."""
    if "/" in program and not program.startswith("/"):
        return "is it committed? uncommitted files are not in the worktree"
    return "of the host only /usr is in there, of the repository what is committed"
