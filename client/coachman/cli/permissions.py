"""``coachman permissions``: what agents ask to be allowed."""

from ..wire import EXIT_OK
from .asked import (
    answer_text,
    asked_whole,
    choice_names,
    option_names,
    question_whole,
    reply_text,
)
from .choices import words_for
from .options import Command, Option
from .proposed import proposed
from .render import left
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..results import Permission, Question
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "permissions [X] [OPTIONS]",
    "List what waits for an answer, of one run or of all that live: requests of agents to be\n"
    "allowed something, and questions of runs in words.",
    Option("-a --all", "settled ones too, with who answered; those of an ended run if X names it"),
    operands=(0, 1),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Print each request whole, with its choices."""
    run, settled = arguments.operands[0] if arguments.operands else None, arguments.has("all")
    page = console.client().permission.list(run, pending=not settled, dir=console.directory)
    # A daemon of an earlier version knows of none.
    questions = page.get("questions") or []
    if console.json:
        console.document(page)
        return EXIT_OK
    for asked in (*page["permissions"], *questions):
        if console.quiet:
            console.line(visible(asked["request"]))
    for request in page["permissions"] if not console.quiet else ():
        _print(console, request)
    for question in questions if not console.quiet else ():
        _print_question(console, question)
    if not page["permissions"] and not questions and not console.quiet:
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
    handle, resolved = visible(request["handle"]), request.get("resolved")
    console.line(_head(request, answer_text(resolved) if resolved else None))
    if request.get("question"):
        console.line("  " + console.paint(asked_whole(request), "yellow"))
    if not resolved:
        for line in proposed(request, handle):
            console.line(line)
        console.line("  " + "   ".join(choice_names(request)))
        console.line(f"  coachman answer {handle} {words_for(request)}")


def _print_question(console: "Console", question: "Question") -> None:
    handle, resolved = visible(question["handle"]), question["resolved"]
    console.line(_head(question, reply_text(resolved) if resolved else None))
    console.line("  " + console.paint(question_whole(question), "yellow"))
    if not resolved:
        if options := option_names(question):
            console.line("  " + "   ".join(options))
        console.line(f"  coachman answer {handle} TEXT")


def _head(asked: "Any", settled: str | None) -> str:
    """Whose it is, and how long it waits or how it was settled."""
    waits = left(asked.get("deadline"))
    state = settled or f"waiting{', ' + waits if waits else ''}"
    handle, request = visible(asked["handle"]), visible(asked["request"])
    return f"{handle}  {request}  {visible(asked['agent'])}  {state}"
