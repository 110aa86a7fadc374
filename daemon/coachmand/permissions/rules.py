"""Standing rules about questions: by kind, command and path, the first that matches decides."""

from collections.abc import Iterable
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import optional

from coachman.wire import TOOL_KINDS

from ..rpc.params import must, must_each
from . import commands, globs
from .subjects import ABOUT_PATHS, Subject

Decide = Literal["allow", "always", "deny", "ask"]
DECISIONS = ("allow", "always", "deny", "ask")
KINDS = TOOL_KINDS
ALLOWS = frozenset({"allow", "always"})
MAX_RULES = 256

_COMMAND = must(
    "a simple command, in which * and ? may stand for what is in a word, and a last * for words",
    lambda text: commands.pattern_of(text) is not None,
)
_PATH = must("a plain path with *, ? and **", lambda text: globs.fault(text) is None)


@frozen
class RuleRequest:
    """Decides what it matches. ``tool`` has kinds of tools, none meaning all of them.

    ``command`` is a pattern of words, ``path`` one of paths below the worktree's top; an
    absolute one is of paths outside, which no allow ever matches.
    """

    decide: Decide
    tool: tuple[str, ...] = field(
        default=(),
        validator=must_each(f"one of {', '.join(KINDS)}", lambda kind: kind in KINDS),
    )
    command: str | None = field(default=None, validator=optional(_COMMAND))
    path: str | None = field(default=None, validator=optional(_PATH))

    @property
    def text(self) -> str:
        """The rule as the command line takes it."""
        words = [self.decide, ",".join(self.tool) or "any"]
        return " ".join([*words, *filter(None, (self.command, self.path))])


@frozen
class Rule(RuleRequest):
    """A rule of a run; ``origin`` says where it is from: request, repo, profile, configuration."""

    origin: str = "request"

    @property
    def requested(self) -> RuleRequest:
        """The rule as somebody may ask for it."""
        return RuleRequest(self.decide, self.tool, self.command, self.path)


@frozen
class Judgement:
    """What a rule decides; ``unclear``: it might be meant, and so a person is asked."""

    decide: Decide
    rule: Rule
    unclear: bool = False


def judge(rules: Iterable[Rule], subject: Subject) -> Judgement | None:
    """What the first rule that matches decides; None where none does."""
    for rule in rules:
        matched = _matches(rule, subject)
        if matched:
            return Judgement(rule.decide, rule)
        # What it might forbid is not let pass because it is hard to read.
        if matched is None and rule.decide not in ALLOWS:
            return Judgement("ask", rule, unclear=True)
    return None


def of_origin(rules: Iterable[Any], origin: str) -> tuple[Rule, ...]:
    """Rules of a request or of the configuration as those of ``origin``."""
    return tuple(
        Rule(rule.decide, tuple(rule.tool), rule.command, rule.path, origin) for rule in rules
    )


def _matches(rule: Rule, subject: Subject) -> bool | None:
    """Whether the rule is about the question; None: that cannot be told."""
    if rule.tool and subject.kind not in rule.tool:
        return False
    found = [_by_command(rule, subject), _by_path(rule, subject)]
    if False in found:
        return False
    if rule.decide in ALLOWS and not _may_be_allowed(subject):
        return False
    return None if None in found else True


def _may_be_allowed(subject: Subject) -> bool:
    """What leaves the worktree is never allowed by a rule, nor what does not say where it is."""
    says = bool(subject.paths) or subject.kind not in ABOUT_PATHS
    return subject.whole and all(placed.inside for placed in subject.paths) and says


def _by_command(rule: Rule, subject: Subject) -> bool | None:
    if rule.command is None:
        return True
    if subject.words is None:
        return None if subject.command is not None or subject.kind == "execute" else False
    pattern = commands.pattern_of(rule.command)
    return pattern is not None and commands.matches(pattern, subject.words)


def _by_path(rule: Rule, subject: Subject) -> bool | None:
    """An allow is about all of the paths, any other rule about one of them."""
    if rule.path is None:
        return True
    found = [globs.matches(rule.path, placed.path) for placed in subject.paths]
    if rule.decide in ALLOWS:
        return bool(found) and all(found)
    if any(found):
        return True
    is_certain = subject.whole and bool(found) and all(p.certain for p in subject.paths)
    return False if is_certain or subject.kind not in ABOUT_PATHS else None
