"""Which runs a verb is about: those that are named, and the living ones that fit what is said."""

from ..errors import CoachmanError, UsageError
from ..wire import RUN_STATES
from .labels import labels_of
from .options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments, Command

PAGE_ROWS = 1000
LIVING = tuple(state for state in RUN_STATES if state != "ended")
SELECTORS = (
    Option("-l --label", "the living runs with this label", "KEY=VALUE", repeat=True),
    Option("--batch", "the living runs of this batch", "NAME"),
    Option("--state", "the living runs in these states", "STATE", repeat=True, choices=LIVING),
    Option("--here", "the living runs of this directory's repository"),
)


def selected(console: "Console", arguments: "Arguments", command: "Command") -> list[str]:
    """The runs that are meant, by id where they were selected.

    Raises UsageError where nothing says which, CoachmanError (NotFound) where none fits.
    """
    named = list(arguments.operands)
    if not any(arguments.has(option.name) for option in SELECTORS):
        if not named:
            raise UsageError(
                f"cannot {command.verb}: {command.missing}",
                hint=f"usage: coachman {command.usage}",
            )
        return named
    fitting = [run for run in _fitting(console, arguments, command.verb) if run not in named]
    if not fitting and not named:
        raise CoachmanError(
            f"cannot {command.verb}: no living run fits",
            name="NotFound",
            next=[["coachman", "list"]],
        )
    return [*named, *fitting]


def _fitting(console: "Console", arguments: "Arguments", verb: str) -> list[str]:
    states = arguments.words("state") or list(LIVING)
    for state in states:
        if state not in LIVING:
            raise UsageError(f"cannot select state {state!r}: choose {', '.join(LIVING)}")
    labels = labels_of(arguments, verb)
    here = console.directory if arguments.has("here") else None
    client, cursor, found = console.client(introduced=True), None, list[str]()
    while True:
        page = client.run.list(
            state=states, labels=labels, here=here, limit=PAGE_ROWS, cursor=cursor
        )
        found += [run["run"] for run in page["runs"]]
        cursor = page.get("next_cursor")
        if not cursor:
            return found
