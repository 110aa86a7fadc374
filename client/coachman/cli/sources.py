"""Where a prompt comes from: exactly one source."""

import os
import sys

from ..errors import UsageError
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .console import Console

_WAYS = "give PROMPT, @FILE, --prompt-file FILE, - (stdin), or pipe it in"


def read_prompt(
    console: "Console",
    operand: str | None,
    prompt_file: str | None = None,
    *,
    has_program: bool = False,
    verb: str = "run",
) -> str:
    """The prompt's text; a program of the `command` agent may go without.

    A positional prompt leaves stdin alone: in an agent's shell stdin may be a
    pipe that never ends. Raises UsageError for none, two, or an unreadable one.
    """
    if operand is not None and prompt_file is not None:
        raise UsageError(f"cannot {verb}: two prompts were given", hint=_WAYS)
    if prompt_file is not None:
        return _checked(_from_file(prompt_file), verb, has_program)
    if operand == "-":
        return _checked(_decoded(sys.stdin.buffer.read(), "stdin"), verb, has_program)
    if operand is not None:
        text = _from_file(operand[1:]) if operand.startswith("@") else operand
        return _checked(text, verb, has_program)
    if has_program:
        return ""
    return _checked(_without_operand(console, verb), verb, has_program)


def _without_operand(console: "Console", verb: str) -> str:
    if sys.stdin is not None and not sys.stdin.isatty():
        return _decoded(sys.stdin.buffer.read(), "stdin")
    if console.no_input or console.json:
        raise UsageError(f"cannot {verb}: there is no prompt", hint=_WAYS)
    return _from_editor(console.env, verb)


def _checked(text: str, verb: str, has_program: bool) -> str:
    if not text.strip() and not has_program:
        raise UsageError(f"cannot {verb}: the prompt is empty", hint=_WAYS)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"cannot {verb}: the prompt is not UTF-8") from None
    return text


def _from_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return _decoded(file.read(), visible(path))
    except OSError as error:
        raise UsageError(
            f"cannot read the prompt from {visible(path)}: {os.strerror(error.errno or 0)}"
        ) from None


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read the prompt from {source}: byte {error.start} is not UTF-8"
        ) from None


def _from_editor(env: "Mapping[str, str]", verb: str) -> str:
    import shlex
    import tempfile

    editor = shlex.split(env.get("VISUAL") or env.get("EDITOR") or "vi")
    handle, path = tempfile.mkstemp(prefix="coachman-", suffix=".md")
    os.close(handle)
    try:
        status = os.spawnvp(os.P_WAIT, editor[0], [*editor, path])  # noqa: S606 - the user's own
        if status != 0:
            raise UsageError(
                f"cannot {verb}: the editor {visible(editor[0])} ended with {status}", hint=_WAYS
            )
        return _from_file(path)
    finally:
        os.unlink(path)
