"""``coachman answer``: allow or deny what an agent asks."""

from ..errors import CoachmanError, UsageError
from ..wire import EXIT_OK
from .asked import AT_ONCE, answer_text, reply_text
from .choices import LEND, choose, takes, told
from .options import Command, Option
from .run import lent
from .visible import cut, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..client import Client
    from ..results import PermissionPage
    from .console import Console
    from .options import Arguments

QUESTION_COLUMNS = 60
COMMAND = Command(
    "answer X CHOICE|TEXT",
    "Answer what run, task or request X asks. CHOICE is allow, always or deny, the number of\n"
    "an option, or its id; TEXT is the answer to what a run asks in words (behind -m where it\n"
    "is one of those three words). The first answer wins.\n"
    "Where X lacks what a shell lent before the daemon was restarted, `lend` gives it what this\n"
    "one has of that. With --file X is left out: BASE.req asks, and no daemon is talked to:\n"
    "BASE.req.response is written.",
    Option("-m --message", "what to tell the agent with it, or the answer in words", "TEXT"),
    Option("--request", "which one, where X asks several things", "ID"),
    Option("--file", "answer the file handler's question in BASE.req", "BASE"),
    operands=(0, 2),
    missing="name a run (or a request) and a choice: allow, always, deny, a number or an id",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Answer the one request that waits there."""
    if (base := arguments.text("file")) is not None:
        from .answer_file import answer_file

        return answer_file(console, base, arguments)
    named, typed = [*arguments.operands, None, None][:2]
    if named is None or (typed is None and arguments.text("message") is None):
        raise _incomplete()
    client = console.client(introduced=True)
    if typed == LEND and _lacks(client, named, console.directory):
        return _lend(console, client, named)
    asked = _waiting(client, named, arguments.text("request"), console.directory)
    if _in_words(asked):
        return _tell(console, client, asked, typed, arguments)
    if typed is None:
        raise _incomplete()
    choice: dict[str, Any] = dict(choose(asked, typed))
    answered = client.permission.answer(
        asked["request"], run=asked["run"], message=arguments.text("message"), **choice
    )
    if console.json:
        console.document(answered)
    elif not console.quiet:
        kind = visible(answered.get("kind") or answered.get("option")).replace("_", " ")
        console.line(f"{visible(asked['handle'])}  {kind}")
    return EXIT_OK


def _incomplete() -> UsageError:
    return UsageError(f"cannot answer: {COMMAND.missing}", hint=f"usage: coachman {COMMAND.usage}")


def _in_words(asked: "Mapping[str, Any]") -> bool:
    """Whether it is a question that is answered in words."""
    return "asked_at" in asked


def _tell(
    console: "Console",
    client: "Client",
    asked: "Mapping[str, Any]",
    typed: str | None,
    arguments: "Arguments",
) -> int:
    said = arguments.text("message")
    if (typed is None) == (said is None):
        raise UsageError(
            f"cannot answer {visible(asked['request'])}: it asks in words, and takes one answer",
            hint="write it behind X, or as -m TEXT to have it told as it stands",
        )
    answer = str(said) if typed is None else told(asked, typed)
    answered = client.run.answer(asked["request"], answer, run=asked["run"])
    if console.json:
        console.document(answered)
    elif not console.quiet:
        console.line(f"{visible(asked['handle'])}  answered")
    return EXIT_OK


def _lend(console: "Console", client: "Client", named: str) -> int:
    """Give a run the variables of this process that its agent declares."""
    details = client.run.get(named, dir=console.directory)
    values = lent(console, client, details["agent"], details["profile"])
    given = client.run.lend(details["run"], values or {})
    if console.json:
        console.document(given)
    elif not console.quiet:
        console.line(f"{visible(given['handle'])}  lent {visible(', '.join(given['names']))}")
    return EXIT_OK


def _lacks(client: "Client", named: str, directory: str | None) -> bool:
    """Whether the run lacks what a shell lends; nothing else is answered by that word then."""
    page = client.permission.list(pending=True, dir=directory)
    if any(each["request"] == named for each in _all(page)):
        return False
    attention = client.run.get(named, dir=directory).get("attention")
    return attention is None or attention["kind"] != "question"


def _waiting(
    client: "Client", named: str, request: str | None, directory: str | None
) -> "Mapping[str, Any]":
    """The one that is meant: a request by its id, or what a run asks."""
    everywhere = _all(client.permission.list(pending=True, dir=directory))
    by_id = [each for each in everywhere if each["request"] == named]
    if len(by_id) == 1 and request is None:
        return dict(by_id[0])
    asked = _asked_by(client, named, directory)
    waiting = [each for each in asked if each["state"] == "pending"]
    settled = [each for each in asked if each["state"] != "pending"]
    if request is not None:
        waiting = [each for each in waiting if each["request"] == request]
        settled = [each for each in settled if each["request"] == request]
    if len(waiting) == 1:
        return dict(waiting[0])
    details = client.run.get(named, dir=directory) if not waiting else None
    if details and takes(details.get("attention"), LEND):
        raise UsageError(
            f"cannot answer {visible(named)}: it asks for nothing but what a shell lends",
            hint=f"choose {LEND}",
            next=[["coachman", "answer", named, LEND]],
        )
    if waiting:
        raise _several(named, waiting)
    if request is not None and not settled:
        raise _unknown(named, request)
    raise _nothing(named, settled, lives=bool(details and details["state"] != "ended"))


def _asked_by(client: "Client", named: str, directory: str | None) -> "list[Any]":
    """What the run asked that is meant. Raises who settled the request that is."""
    try:
        return _all(client.permission.list(named, pending=False, dir=directory))
    except CoachmanError as error:
        if error.name != "NotFound":
            raise
        everywhere = _all(client.permission.list(pending=False, dir=directory))
        settled = [each for each in everywhere if each["request"] == named and each["resolved"]]
        if not settled:
            raise
        raise _nothing(named, settled) from None


def _all(page: "PermissionPage") -> "list[Any]":
    """Requests and questions; a daemon of an earlier version knows of no questions."""
    return [*page["permissions"], *(page.get("questions") or ())]


def _several(named: str, waiting: "list[Mapping[str, Any]]") -> UsageError:
    requests = [each["request"] for each in waiting]
    return UsageError(
        f"cannot answer {visible(named)}: {len(waiting)} requests wait",
        hint=f"name one with --request: {', '.join(map(visible, requests))}",
        detail={"candidates": requests},
        next=[["coachman", "permissions", named]],
    )


def _unknown(named: str, request: str) -> CoachmanError:
    return CoachmanError(
        f"cannot answer {visible(request)}: {visible(named)} asks nothing of that id",
        name="NotFound",
        next=[["coachman", "permissions", named, "-a"]],
    )


def _nothing(named: str, settled: "list[Any]", *, lives: bool = False) -> CoachmanError:
    """Nothing waits there; what did last, who settled it and how. What ``lives`` may ask yet."""
    # What policy or a rule settled at once waited for nobody.
    waited = [each for each in settled if not _at_once(each)]
    last = max(waited or settled, key=_asked_at, default=None)
    hint = None
    if last is not None:
        how = reply_text if _in_words(last) else answer_text
        what = f" ({cut(last['question'], QUESTION_COLUMNS)})" if last.get("question") else ""
        hint = f"{visible(last['request'])}{what} was settled: {how(last['resolved'])}"
    return CoachmanError(
        f"cannot answer {visible(named)}: nothing waits for an answer",
        name="Conflict",
        hint=hint,
        detail={"request": last["request"], "resolved": last["resolved"]} if last else None,
        next=[["coachman", "wait", named, "--until", "attention"]]
        if lives
        else [["coachman", "permissions"]],
    )


def _at_once(asked: "Mapping[str, Any]") -> bool:
    return (asked["resolved"].get("by") or {}).get("resolver") in AT_ONCE


def _asked_at(asked: "Mapping[str, Any]") -> int:
    return asked.get("asked_at") or asked.get("requested_at") or 0
