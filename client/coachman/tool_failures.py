"""Why a tool failed, in a line, from whatever its agent gives as its output."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHARACTERS = 160
# Members in which agents put what was said, the likeliest first.
_SAID = ("error", "stderr", "output", "stdout", "message", "text", "content")
_STATUS = ("exit_code", "exitCode", "code")


def reason(output: "Any") -> str:
    """The last line that it said, shortened; its exit status where it said nothing."""
    said = _last_line(output)
    return said if len(said) <= CHARACTERS else said[: CHARACTERS - 1] + "…"


def _last_line(output: "Any") -> str:
    if isinstance(output, str):
        return next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")
    if isinstance(output, list):
        return next((said for each in reversed(output) if (said := _last_line(each))), "")
    if not isinstance(output, dict):
        return ""
    for name in _SAID:
        if said := _last_line(output.get(name)):
            return said
    status = next((output[name] for name in _STATUS if output.get(name) is not None), None)
    return "" if status is None else f"exit status {status}"
