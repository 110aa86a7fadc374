"""``coachman version``."""

from .. import __version__
from ..wire import EXIT_OK
from .options import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments

COMMAND = Command("version", "Print the version of this client; `status` tells the daemon's.")


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the version; needs no daemon."""
    if console.json:
        console.document({"version": __version__})
    else:
        console.line(__version__ if console.quiet else f"coachman {__version__}")
    return EXIT_OK
