"""``coachman prompt``: give a kept run another prompt; resume one that has ended."""

from ..wire import EXIT_OK
from .options import Command, Option
from .run import lent
from .sources import read_prompt
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..results import Prompted
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "prompt X [TEXT|@FILE|-]",
    "Give a run that was started with --keep another prompt. It waits for its turn and never\n"
    "pre-empts; a parked run begins with it. A run that has ended is resumed as a new one.",
    Option("--wait", "stay until the prompt's turn is over; its end is the exit code"),
    Option("--prompt-file", "read the prompt from a file", "FILE"),
    Option("--request-key", "the same key gives the same prompt once", "KEY"),
    operands=(1, 2),
    missing="name a run, its task, or @",
    surplus="quote what belongs together",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Hand the prompt over and tell what happened to it."""
    run, *texts = arguments.operands
    text = read_prompt(
        console, texts[0] if texts else None, arguments.text("prompt-file"), verb="prompt"
    )
    client = console.client(introduced=True)
    details = client.run.get(run, dir=console.directory)
    prompted = client.run.prompt(
        details["run"],
        text,
        env=lent(console, client, details["agent"], details["profile"]),
        request_key=arguments.text("request-key"),
    )
    if arguments.has("wait"):
        from .foreground import Foreground

        asking = details["permissions"] == "ask"
        known = prompted["new"] and not prompted["resumed"]
        after = details["last_seq"] if known else None
        watched = Foreground(
            console, client, prompted["run"], prompted["handle"], asking=asking, after_seq=after
        )
        if not console.json and not console.quiet:
            console.note(_told(details["handle"], prompted))
        return watched.stay_for_turn(prompted["prompt"])
    if console.json:
        console.document(prompted)
    elif console.quiet:
        console.line(visible(prompted["handle"]))
    else:
        console.line(_told(details["handle"], prompted))
    return EXIT_OK


def _told(asked: str, prompted: "Prompted") -> str:
    handle, turn = visible(prompted["handle"]), prompted["turn"]
    if prompted["resumed"]:
        queued = ", queued until there is a place" if prompted["waits_for"] else ""
        return f"{visible(asked)} has ended: resumed as {handle}{queued}"
    if turn is None:
        return f"{handle}  prompt {prompted['prompt']} was given before"
    if prompted["waits_for"] == "turn":
        ahead = prompted["ahead"]
        turns = "1 turn" if ahead == 1 else f"{ahead} turns"
        return f"{handle}  prompt {prompted['prompt']} is queued behind {turns}"
    if prompted["waits_for"] == "place":
        return f"{handle}  turn {turn} starts once there is a place"
    return f"{handle}  turn {turn} starts"
