"""``coachman interrupt``: end the turn that runs, then go on with another prompt."""

from ..wire import EXIT_OK
from .options import Command, Option
from .sources import read_prompt
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..results import Interrupted
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "interrupt X [TEXT|@FILE|-]",
    "End the turn that runs. With TEXT a kept run goes on with that at once; prompts that wait\n"
    "already are dropped. Without it a kept run parks, and any other one ends.",
    Option("--keep-queue", "leave what waits where it is: it comes after TEXT"),
    Option("--turn", "only if this turn is the one that runs", "N"),
    Option("--request-key", "the same key gives the same TEXT once", "KEY"),
    operands=(1, 2),
    missing="name a run, its task, or @",
    surplus="quote what belongs together",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Interrupt, and tell what that did."""
    run, *texts = arguments.operands
    interrupted = console.client(introduced=True).run.interrupt(
        run,
        read_prompt(console, texts[0], verb="interrupt") if texts else None,
        keep_queue=arguments.has("keep-queue") or None,
        turn=arguments.count("turn"),
        request_key=arguments.text("request-key"),
        dir=console.directory,
    )
    if console.json:
        console.document(interrupted)
    elif not console.quiet:
        for line in _lines(interrupted):
            console.line(line)
    return EXIT_OK


def _lines(interrupted: "Interrupted") -> list[str]:
    handle, turn = visible(interrupted["handle"]), interrupted["turn"]
    if turn is None:
        what = f"no turn is running ({visible(interrupted['state'])})"
    else:
        what = f"turn {turn} {'is being interrupted already' if interrupted['already'] else 'ends'}"
    following = interrupted["prompt"]
    then = f", then prompt {following}" if following is not None else ""
    dropped = [
        f"  dropped: prompt {prompt['prompt']}: {visible(prompt['title'])}"
        for prompt in interrupted["dropped"]
    ]
    return [f"{handle}  {what}{then}", *dropped]
