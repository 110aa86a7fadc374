"""``coachman doctor``: what keeps runs from working here, and what to do about it."""

from ..environment import carried
from ..errors import CoachmanError
from ..wire import EXIT_OK
from .console import command
from .options import Command
from .run import lent
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..results import Diagnosis, Examination
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "doctor [AGENT]",
    "Look at everything that runs need: the sandbox, disk, clock, configuration, the daemon, and\n"
    "each agent (or the one that is named): its program, its login, its hosts from inside a\n"
    "sandbox. With a daemon it tells what that sees. Exits 0 where nothing failed, else with the\n"
    "code that a run would exit with for the first that did.",
    operands=(0, 1),
)
# The colours of each status, all as long as the longest.
_COLORS = {"ok": "green", "warning": "yellow", "failed": "red"}


def main(console: "Console", arguments: "Arguments") -> int:
    """Ask the daemon, or its program; look at what only a client sees; print all of it."""
    from .surroundings import surroundings

    agent = arguments.operands[0] if arguments.operands else None
    found, refusal = _examined(console, agent)
    diagnoses = [*surroundings(console, refusal), *found["diagnoses"]]
    failed = [each for each in diagnoses if each["status"] == "failed"]
    if console.json:
        by = "daemon" if refusal is None else "program"
        console.document({**found, "ok": not failed, "by": by, "diagnoses": diagnoses})
    else:
        _print(console, diagnoses)
    return next((each["exit"] for each in failed if each["exit"]), EXIT_OK)


def _examined(console: "Console", agent: str | None) -> "tuple[Examination, CoachmanError | None]":
    """What was found; and why by the daemon's program, where no daemon found it."""
    try:
        client = console.client()
        return client.daemon.doctor(agent, env=lent(console, client, agent)), None
    except CoachmanError as error:
        # The one is about the question. A daemon that is hurt, or too old, is a finding.
        if error.name in ("NotFound", "Usage"):
            raise
        refusal = error
    from ..alone import ask

    params = {"agent": agent, "env": carried(console.env, console.env)}
    found: Examination = ask(console.env, "daemon.doctor", params)
    return found, refusal


def _print(console: "Console", diagnoses: "list[Diagnosis]") -> None:
    shown = [each for each in diagnoses if not console.quiet or each["status"] != "ok"]
    columns = max((len(visible(each["area"])) for each in shown), default=0)
    for each in shown:
        for line in _lines(console, each, columns):
            console.line(line)
    if not console.quiet:
        console.line(_summary(diagnoses))


def _lines(console: "Console", each: "Diagnosis", columns: int) -> "Iterator[str]":
    status, area = each["status"], visible(each["area"])
    painted = console.paint(f"{status:<8}", _COLORS[status])
    yield f"{painted} {area:<{columns}}  {visible(each['found'])}"
    steps = [command(argv) for argv in each["next"]]
    for step in filter(None, (each["remedy"], "; ".join(steps))):
        yield f"{'':8} {'':<{columns}}  next: {visible(step)}"


def _summary(diagnoses: "list[Diagnosis]") -> str:
    counts = {
        status: sum(each["status"] == status for each in diagnoses)
        for status in ("failed", "warning")
    }
    if not any(counts.values()):
        return "all is well"
    warnings = f"{counts['warning']} warning" + "s" * (counts["warning"] != 1)
    return f"{counts['failed']} failed, {warnings}"
