"""Rules that can never decide anything: whoever wrote one believes in something that is not so."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from .commands import begins_command
from .rules import ALLOWS

# What an agent asks in these kinds may come with a command; in others it is no shell's.
WITH_COMMANDS = frozenset({"execute", "other"})
WITHOUT_PATHS = frozenset({"think", "fetch", "switch_mode"})


class Written(Protocol):
    """A rule as a request or the configuration has it."""

    @property
    def decide(self) -> str: ...
    @property
    def tool(self) -> tuple[str, ...]: ...
    @property
    def command(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...


W = TypeVar("W", bound=Written)


def why_dead(rule: Written, before: Iterable[Written] = ()) -> str | None:
    """Why ``rule`` never decides, behind those ``before`` it in its list; None where it may."""
    allows, kinds = rule.decide in ALLOWS, frozenset(rule.tool)
    if allows and (rule.path or "").startswith("/"):
        return "what leaves the worktree is never allowed by a rule"
    if rule.command is not None and kinds and not kinds & WITH_COMMANDS:
        return f"a question about {', '.join(rule.tool)} has no command"
    if rule.path is not None and kinds and kinds <= WITHOUT_PATHS:
        return f"a question about {', '.join(rule.tool)} has no path"
    if allows and rule.command is not None and not begins_command(rule.command):
        return "no simple command begins with that word"
    if any(_covers(earlier, rule) for earlier in before):
        return "a rule before it decides all that it is about"
    return None


def dead(rules: Sequence[W]) -> list[tuple[W, str]]:
    """Those of one list that never decide, and why."""
    found = [(rule, why_dead(rule, rules[:at])) for at, rule in enumerate(rules)]
    return [(rule, why) for rule, why in found if why is not None]


def living(rules: Sequence[W]) -> tuple[W, ...]:
    """The others, which decide the same without them."""
    return tuple(rule for at, rule in enumerate(rules) if why_dead(rule, rules[:at]) is None)


def _covers(earlier: Written, rule: Written) -> bool:
    """An allow leaves to others what it must not allow; what forbids or asks leaves nothing."""
    if earlier.decide in ALLOWS:
        return False
    kinds = not earlier.tool or (bool(rule.tool) and frozenset(rule.tool) <= {*earlier.tool})
    same = earlier.command in (None, rule.command) and earlier.path in (None, rule.path)
    return kinds and same
