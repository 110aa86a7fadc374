"""``coachman answer --file``: the answer to a question that lies in a file, with no daemon."""

import json
import os

from ..errors import CoachmanError, UsageError
from ..wire import EXIT_OK
from .asked import choice_names
from .choices import choose, words
from .regular_file import read_regular
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .console import Console
    from .options import Arguments

MAX_REQUEST_BYTES = 1024 * 1024
FILE_MODE = 0o600


def answer_file(console: "Console", base: str, arguments: "Arguments") -> int:
    """Check the choice against what BASE.req offers, and write BASE.req.response whole."""
    if len(arguments.operands) > 1:
        raise UsageError(
            "cannot answer --file: name one choice, and no run: the file says whose question it is",
            hint="usage: coachman answer --file BASE CHOICE",
        )
    asked = _read(f"{base}.req")
    if not arguments.operands:
        raise UsageError(
            f"cannot answer {visible(asked['request'])}: there is no choice",
            hint=f"usage: coachman answer --file BASE CHOICE; choose {', '.join(words(asked))},"
            f" or: {', '.join(choice_names(asked))}",
        )
    option = _chosen(asked, arguments.operands[0])
    message = arguments.text("message")
    if option.get("requires_message") and not message:
        raise UsageError(
            f"cannot answer {visible(asked['request'])}: option {visible(option['id'])}"
            " needs a message",
            hint="pass it with -m TEXT",
        )
    if message and not option.get("takes_message", True):
        raise UsageError(
            f"cannot answer {visible(asked['request'])}: option {visible(option['id'])}"
            " takes no message, so the agent would not hear it",
            hint="answer without -m",
        )
    names = ("run", "request", "requested_at")
    answer = {name: asked[name] for name in names if name in asked}
    answer["option"] = option["id"]
    if message is not None:
        answer["message"] = message
    _write(f"{base}.req.response", answer)
    if console.json:
        console.document({**answer, "kind": option["kind"]})
    elif not console.quiet:
        kind = visible(option["kind"]).replace("_", " ")
        console.line(f"{visible(asked['request'])} of {visible(str(asked['run'])[-5:])}  {kind}")
    return EXIT_OK


def _read(path: str) -> "dict[str, Any]":
    try:
        found = json.loads(read_regular(path, MAX_REQUEST_BYTES))
    except FileNotFoundError:
        raise CoachmanError(
            f"cannot answer: nothing is asked in {visible(path)}",
            name="NotFound",
            hint="the question may have been settled elsewhere",
            next=[["coachman", "permissions", "-a"]],
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {visible(path)}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"cannot answer: {visible(path)} is no request") from None
    if not isinstance(found, dict) or not {"run", "request", "options"} <= set(found):
        raise UsageError(f"cannot answer: {visible(path)} is no request")
    return found


def _chosen(asked: "Mapping[str, Any]", typed: str) -> "dict[str, Any]":
    """The one option that is meant. Raises UsageError that lists them."""
    [(name, value)] = choose(asked, typed).items()
    name = "id" if name == "option" else name
    found = [option for option in asked["options"] if option[name] == value]
    if len(found) == 1:
        return dict(found[0])
    problem = "several options are" if found else "no option is"
    raise UsageError(
        f"cannot answer {visible(asked['request'])}: {problem} {visible(value)}",
        hint=f"choose one of: {', '.join(choice_names(asked))}",
    )


def _write(path: str, answer: "Mapping[str, Any]") -> None:
    """Whole, or not at all; never over an answer that is there already."""
    if os.path.lexists(path):
        raise CoachmanError(
            f"cannot answer: {visible(path)} is there already, and not taken yet",
            name="Conflict",
            hint="it is taken once a daemon runs; remove it to answer otherwise",
            next=[["coachman", "daemon", "start"]],
        )
    beside = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with open(fd, "w") as file:
            file.write(json.dumps(answer) + "\n")
        os.rename(beside, path)
    except OSError as error:
        raise UsageError(f"cannot write {visible(path)}: {os.strerror(error.errno or 0)}") from None
