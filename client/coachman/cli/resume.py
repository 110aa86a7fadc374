"""``coachman resume``: a new run in the session of one that has ended."""

from ..errors import UsageError
from ..wire import EXIT_OK
from .options import Command, Option
from .run import TIMEOUTS, lent, report, stay, timeouts
from .sources import read_prompt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "resume X [PROMPT|@FILE|-]",
    "Start a run that goes on in the session of X, which has ended: in the same task, with the\n"
    "same agent, model, profile, permissions and timeouts. The exit code tells the new run's\n"
    "outcome.",
    Option("-d --detach", "return once the run is started"),
    Option("--keep", "keep it for more prompts, also where X was not kept"),
    Option("--no-keep", "let it end with its first turn, also where X was kept"),
    Option("-a --agent", "refuse unless X had this agent", "AGENT"),
    Option("-m --model", "refuse unless X had this model", "MODEL"),
    Option("--provider", "refuse unless X had this provider", "PROVIDER"),
    Option("-p --profile", "refuse unless X had this profile", "PROFILE"),
    *TIMEOUTS,
    Option("--prompt-file", "read the prompt from a file", "FILE"),
    Option("--title", "a title for lists", "TEXT"),
    Option("--request-key", "the same key resumes it once", "KEY"),
    Option("--no-wait", "fail instead of queueing"),
    operands=(1, 2),
    missing="name a run, its task, or @",
    surplus="quote what belongs together",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Resume; the exit code is 0 when detached, else the new run's."""
    run, *texts = arguments.operands
    prompt = read_prompt(
        console, texts[0] if texts else None, arguments.text("prompt-file"), verb="resume"
    )
    client = console.client(autostart=True, introduced=True)
    before = client.run.get(run, dir=console.directory)
    started = client.run.resume(
        before["run"],
        prompt,
        env=lent(console, client, before["agent"], before["profile"]),
        keep=_keep(arguments),
        timeouts=timeouts(arguments, "resume"),
        title=arguments.text("title"),
        request_key=arguments.text("request-key"),
        no_wait=arguments.has("no-wait") or None,
        agent=arguments.text("agent"),
        model=arguments.text("model"),
        provider=arguments.text("provider"),
        profile=arguments.text("profile"),
    )
    if arguments.has("detach"):
        report(console, started)
        return EXIT_OK
    return stay(console, client, started, keep=bool(started.get("keep")))


def _keep(arguments: "Arguments") -> bool | None:
    """What is said of keeping it; None leaves that to how X was."""
    keep, end = arguments.has("keep"), arguments.has("no-keep")
    if keep and end:
        raise UsageError("cannot resume: --keep and --no-keep exclude each other")
    return keep if keep or end else None
