"""``coachman agents``: the agents that can be run."""

from ..environment import carried
from ..wire import EXIT_OK
from .options import Command
from .render import NOTHING, joined, table
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..results import Agent, AgentPage
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "agents [A]", "List the agents, or tell what one agent wants and can.", operands=(0, 1)
)
_COLUMNS = ("AGENT", "INSTALLED", "VERSION", "PATH")


def main(console: "Console", arguments: "Arguments") -> int:
    """Print a table, or one agent's facts."""
    named = arguments.operands[0] if arguments.operands else None
    # The caller's PATH, so that what is shown is what `run` would find.
    path = carried(console.env, ()).get("PATH")
    page: AgentPage = console.answer("agent.list", {"agent": named, "path": path})
    if console.json:
        console.document(page)
    elif console.quiet:
        for agent in page["agents"]:
            console.line(visible(agent["name"]))
    elif named is not None:
        for agent in page["agents"]:
            _print(console, agent)
    else:
        rows = [_row(agent) for agent in page["agents"]]
        for cells in table(_COLUMNS, rows, width=console.width()):
            console.line(joined(cells))
    return EXIT_OK


def _row(agent: "Agent") -> list[str]:
    return [
        visible(agent["name"]),
        "yes" if agent.get("installed") else "no",
        visible(agent.get("version") or NOTHING),
        visible(agent.get("path") or agent.get("note") or ""),
    ]


def _print(console: "Console", agent: "Agent") -> None:
    credentials = agent.get("credentials") or []
    others = [name for name in agent.get("environment") or () if name not in credentials]
    facts = {
        "agent": f"{visible(agent['name'])} ({visible(agent.get('title') or agent['name'])})",
        "installed": "yes" if agent.get("installed") else "no",
        "path": visible(agent.get("path") or ""),
        "version": visible(agent.get("version") or ""),
        "environment": visible(", ".join(others)),
        "credentials": visible(", ".join(credentials)),
        "efforts": visible(", ".join(agent.get("efforts") or ())),
        "model": "can be chosen" if agent.get("takes_model") else "is its own",
        "resumes": "yes" if agent.get("resumes") else "no",
        "note": visible(agent.get("note") or ""),
    }
    for name, value in facts.items():
        if value:
            console.line(f"{name:<12} {value}")
