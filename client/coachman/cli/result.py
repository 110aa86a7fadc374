"""``coachman result``: how a run ended, and its final message."""

from ..errors import CoachmanError
from ..wire import exit_of_result
from .choices import words_for
from .durations import spoken
from .options import Command
from .render import ending, left_behind
from .visible import cut, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records import Check
    from ..results import RunResult
    from .console import Console
    from .options import Arguments

CHECK_COLUMNS = 100
CHECK_LINES = 20
COMMAND = Command(
    "result [X]",
    "Print how a run ended: its final message, what it changed, where the evidence lies.\n"
    "The exit code tells the outcome.",
    operands=(0, 1),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the result; the final message alone with -q."""
    run = arguments.operands[0] if arguments.operands else "@"
    try:
        result = console.client().run.result(run, dir=console.directory)
    except CoachmanError as error:
        if error.name == "Conflict":
            _say_what_it_waits_for(console, run, error)
        raise
    if console.json:
        console.document(result)
    else:
        _print(console, result)
    return exit_of_result(str(result.get("outcome")), result.get("stop_reason"))


def _say_what_it_waits_for(console: "Console", run: str, error: CoachmanError) -> None:
    """A run that asks something does not end by being waited for."""
    page = console.client().permission.list(run, pending=True, dir=console.directory)
    for request in page["permissions"][:1]:
        handle = request["handle"]
        error.hint = f"it waits for an answer: coachman answer {handle} {words_for(request)}"
        error.next = [["coachman", "permissions", handle]]


def _print(console: "Console", result: "RunResult") -> None:
    message = visible(result.get("final_message") or "", lines=True).rstrip("\n")
    if message:
        console.line(message)
    if result.get("final_message_truncated"):
        console.note(f"  [cut; all of it is in {visible(result.get('final_path'))}]")
    if console.quiet:
        return
    if message:
        console.line()
    for line in ending(result):
        console.line(line)
    for line in _left(result):
        console.line("  " + line)


def checked(check: "Check | None") -> list[str]:
    """How the check went and, where it failed, the end of what it said."""
    if check is None:
        return []
    duration_s = check.get("duration_s")
    took = f" after {spoken(duration_s)}" if duration_s else ""
    command = cut(check["command"], CHECK_COLUMNS)
    if check.get("exit") == 0:
        return [f"check passed{took}: {command}"]
    said = visible(check.get("output") or "", lines=True).splitlines()[-CHECK_LINES:]
    return [f"check failed{took}: {command}", *(f"  {line}" for line in said)]


def _left(result: "RunResult") -> list[str]:
    lines = [*checked(result.get("check")), *left_behind(result)]
    lines += [f"warning: {visible(warning)}" for warning in result.get("warnings") or ()]
    if evidence := result.get("evidence_dir"):
        lines.append(f"evidence: {visible(evidence)}")
    return lines
