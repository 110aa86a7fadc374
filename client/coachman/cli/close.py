"""``coachman close``: end runs once they have nothing more to do."""

from ..wire import EXIT_OK
from .options import Command
from .selecting import SELECTORS, selected
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "close X… [SELECTORS]",
    "End kept runs once their turn is over and no prompt waits; parked ones end at once. Their\n"
    "outcome is that of the last turn. Those that end anyway, or have, are no error.",
    *SELECTORS,
    operands=(0, None),
    missing="name a run, its task, or @",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Close all that are named."""
    runs = selected(console, arguments, COMMAND)
    closed = console.client(introduced=True).run.close(runs, dir=console.directory)
    if console.json:
        console.document(closed)
    elif not console.quiet:
        for run in closed["runs"]:
            state = visible(run["state"])
            how = f"already {state}" if run["state"] == "ended" else f"closing ({state})"
            console.line(f"{visible(run['handle'])}  {how}")
    return EXIT_OK
