"""``coachman log``: the transcript of a run."""

from ..wire import EXIT_OK
from .options import Command, Option
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..results import LogLine
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "log [X] [OPTIONS]",
    "Print the transcript: merged text, one line a tool; its last lines, unless more are\n"
    "asked for.",
    Option("-f --follow", "go on with the events as they happen (like tail)"),
    Option("-n --lines", "how many lines", "N"),
    Option("--cursor", "the lines before a page, as it tells", "CURSOR"),
    operands=(0, 1),
)
_PREFIX = {
    "tool": "  > ",
    "state": "  [",
    "permission": "  ? ",
    "question": "  ? ",
    "answer": "  = ",
    "note": "  note: ",
    "error": "  error: ",
    "thought": "thinking: ",
    "user": "prompt: ",
    "output": "  | ",
}


def main(console: "Console", arguments: "Arguments") -> int:
    """Print a page of the transcript."""
    run = arguments.operands[0] if arguments.operands else "@"
    if arguments.has("follow"):
        from .tail import follow

        return follow(console, run)
    lines, cursor = arguments.count("lines"), arguments.integer("cursor")
    page = console.client().run.log(run, lines=lines, cursor=cursor, dir=console.directory)
    if console.json:
        console.document(page)
        return EXIT_OK
    if page.get("truncated") and page.get("next_cursor"):
        console.note(
            f"  [before these: coachman log {visible(run)} --cursor {page['next_cursor']}]"
        )
    for line in page["lines"]:
        console.line(_shown(line))
    return EXIT_OK


def _shown(line: "LogLine") -> str:
    text = visible(line["text"], lines=True).rstrip("\n")
    prefix = _PREFIX.get(line["kind"], "")
    if line["kind"] == "output":
        text = text.replace("\n", "\n" + prefix)
    return prefix + text + ("]" if prefix.endswith("[") else "")
