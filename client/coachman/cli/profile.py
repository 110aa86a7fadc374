"""``coachman profile``: what a run may touch."""

from ..errors import UsageError
from ..wire import EXIT_OK
from .options import Command, Option
from .policy import fact_lines, policy_lines
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..results import Profile, ProfileExplained, ProfilePage
    from .console import Console
    from .options import Arguments

# What the compiler calls a network in which nothing is allowed.
NOTHING = "nothing"
COMMAND = Command(
    "profile list|explain [PROFILE]",
    "List the profiles, or explain one down to the compiled policy.",
    Option("-a --agent", "explain it for this agent", "AGENT"),
    operands=(1, 2),
    missing="say list, or explain PROFILE",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Dispatch on the first operand."""
    action, *rest = arguments.operands
    if action == "list" and not rest:
        return _list(console)
    if action == "explain":
        if not rest:
            raise UsageError("cannot explain: name a profile", hint="coachman profile list")
        return _explain(console, rest[0], arguments.text("agent"))
    raise UsageError(
        f"cannot profile {action!r}: {COMMAND.missing}", hint=f"usage: coachman {COMMAND.usage}"
    )


def _list(console: "Console") -> int:
    page: ProfilePage = console.answer("profile.list", {})
    if console.json:
        console.document(page)
        return EXIT_OK
    for profile in page["profiles"]:
        console.line(_named(profile))
        if not console.quiet:
            _facts(console, profile.get("facts") or {})
    return EXIT_OK


def _named(profile: "Profile") -> str:
    name, parent = visible(profile["name"]), profile.get("inherits")
    trusted = ", trusted" if profile.get("trusted") else ""
    return f"{name} (inherits {visible(parent)}{trusted})" if parent else name


def _explain(console: "Console", name: str, agent: str | None) -> int:
    params = {"profile": name, "agent": agent}
    explained: ProfileExplained = console.answer("profile.explain", params)
    if console.json:
        console.document(explained)
        return EXIT_OK
    console.line(visible(explained["profile"]))
    _facts(console, explained["facts"])
    if not console.quiet:
        policy = dict(explained["policy"])
        if policy.get("network") == NOTHING:
            policy["network"] = f"{NOTHING}: {_lacks_hosts(agent)}"
        for line in policy_lines(policy):
            console.line(line)
    return EXIT_OK


def _lacks_hosts(agent: str | None) -> str:
    if agent is None:
        return "no agent is named, whose hosts it would have; see --agent"
    return f"{visible(agent)} declares no hosts; a run has those of its credentials and base URLs"


def _facts(console: "Console", facts: "Mapping[str, str]") -> None:
    for line in fact_lines(facts):
        console.line(line)
