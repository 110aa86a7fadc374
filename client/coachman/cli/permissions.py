"""``coachman permissions``: what agents ask to be allowed."""

from ..wire import EXIT_OK
from .choices import words_for
from .options import Command, Option
from .progress import answer_text, asked_whole, choice_names
from .render import left
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..results import Permission
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "permissions [X] [OPTIONS]",
    "List the requests that wait for an answer, of one run or of all that live.",
    Option("-a --all", "settled ones too, with who answered; those of an ended run if X names it"),
    operands=(0, 1),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Print each request whole, with its choices."""
    run, settled = arguments.operands[0] if arguments.operands else None, arguments.has("all")
    page = console.client().permission.list(run, pending=not settled, dir=console.directory)
    if console.json:
        console.document(page)
        return EXIT_OK
    for request in page["permissions"]:
        if console.quiet:
            console.line(visible(request["request"]))
        else:
            _print(console, request)
    if not page["permissions"] and not console.quiet:
        console.note(_nothing(run is not None, settled))
    return EXIT_OK


def _nothing(is_named: bool, settled: bool) -> str:
    """What there is none of: an ended run has settled requests, and only it is asked for them."""
    if not settled:
        return "nothing waits for an answer"
    if is_named:
        return "it asked nothing"
    return "no living run asked anything; of one that has ended: coachman permissions X -a"


def _print(console: "Console", request: "Permission") -> None:
    handle = visible(request["handle"])
    waits = left(request.get("deadline"))
    resolved = request.get("resolved")
    state = answer_text(resolved) if resolved else f"waiting{', ' + waits if waits else ''}"
    console.line(f"{handle}  {visible(request['request'])}  {visible(request['agent'])}  {state}")
    if request.get("question"):
        console.line("  " + console.paint(asked_whole(request), "yellow"))
    if not resolved:
        console.line("  " + "   ".join(choice_names(request)))
        console.line(f"  coachman answer {handle} {words_for(request)}")
