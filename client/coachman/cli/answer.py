"""``coachman answer``: allow or deny what an agent asks."""

from ..errors import CoachmanError, UsageError
from ..wire import EXIT_OK
from .choices import LEND, choose, takes
from .options import Command, Option
from .progress import answer_text
from .run import lent
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client import Client
    from ..results import Permission
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "answer X CHOICE",
    "Answer what run, task or request X asks. CHOICE is allow, always or deny, the number of\n"
    "an option, or its id. The first answer wins. Where X lacks what a shell lent before the\n"
    "daemon was restarted, `lend` gives it what this one has of that. With --file\n"
    "X is left out: BASE.req asks, and no daemon is talked to: BASE.req.response is written.",
    Option("-m --message", "what to tell the agent with it", "TEXT"),
    Option("--file", "answer the file handler's question in BASE.req", "BASE"),
    operands=(1, 2),
    missing="name a run (or a request) and a choice: allow, always, deny, a number or an id",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Answer the one request that waits there."""
    if (base := arguments.text("file")) is not None:
        from .answer_file import answer_file

        return answer_file(console, base, arguments)
    if len(arguments.operands) == 1:
        raise UsageError(f"cannot answer: {COMMAND.missing}")
    named, typed = arguments.operands
    client = console.client(introduced=True)
    if typed == LEND:
        return _lend(console, client, named)
    request = _waiting(client, named, console.directory)
    choice: dict[str, Any] = dict(choose(request, typed))
    answered = client.permission.answer(
        request["request"], run=request["run"], message=arguments.text("message"), **choice
    )
    if console.json:
        console.document(answered)
    elif not console.quiet:
        kind = visible(answered.get("kind") or answered.get("option")).replace("_", " ")
        console.line(f"{visible(request['handle'])}  {kind}")
    return EXIT_OK


def _lend(console: "Console", client: "Client", named: str) -> int:
    """Give a run the variables of this process that its agent declares."""
    details = client.run.get(named, dir=console.directory)
    given = client.run.lend(details["run"], lent(console, client, details["agent"]) or {})
    if console.json:
        console.document(given)
    elif not console.quiet:
        console.line(f"{visible(given['handle'])}  lent {visible(', '.join(given['names']))}")
    return EXIT_OK


def _waiting(client: "Client", named: str, directory: str | None) -> "Permission":
    everywhere = client.permission.list(pending=True, dir=directory)["permissions"]
    by_request = [request for request in everywhere if request["request"] == named]
    if len(by_request) == 1:
        return by_request[0]
    requests = client.permission.list(named, pending=False, dir=directory)["permissions"]
    waiting = [request for request in requests if not request.get("resolved")]
    waiting = [request for request in waiting if request["state"] == "pending"] or waiting
    if len(waiting) == 1:
        return waiting[0]
    if not waiting and takes(client.run.get(named, dir=directory).get("attention"), LEND):
        raise UsageError(
            f"cannot answer {visible(named)}: it asks for nothing but what a shell lends",
            hint=f"choose {LEND}",
            next=[["coachman", "answer", named, LEND]],
        )
    raise _several(named, waiting) if waiting else _nothing(named, requests)


def _several(named: str, waiting: "list[Permission]") -> UsageError:
    return UsageError(
        f"cannot answer {visible(named)}: {len(waiting)} requests wait",
        hint="name one: " + ", ".join(visible(request["request"]) for request in waiting),
        detail={"candidates": [request["request"] for request in waiting]},
        next=[["coachman", "permissions", named]],
    )


def _nothing(named: str, settled: "list[Permission]") -> CoachmanError:
    last = settled[-1] if settled else None
    resolved = last.get("resolved") if last else None
    return CoachmanError(
        f"cannot answer {visible(named)}: nothing waits for an answer",
        name="Conflict",
        hint=f"the last request was settled: {answer_text(resolved)}" if resolved else None,
        detail={"resolved": resolved} if resolved else None,
        next=[["coachman", "permissions"]],
    )
