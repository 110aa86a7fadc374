"""``coachman cancel``: end runs now."""

from ..wire import EXIT_OK
from .options import Command
from .selecting import SELECTORS, selected
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "cancel X… [SELECTORS]",
    "End runs now. What they changed is kept; those that ended already are no error.",
    *SELECTORS,
    operands=(0, None),
    missing="name a run, its task, or @",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Cancel all that are named."""
    runs = selected(console, arguments, COMMAND)
    cancelled = console.client(introduced=True).run.cancel(runs, dir=console.directory)
    if console.json:
        console.document(cancelled)
    elif not console.quiet:
        for run in cancelled["runs"]:
            state = visible(run["state"])
            console.line(f"{visible(run['handle'])}  {'already ' if run['already'] else ''}{state}")
    return EXIT_OK
