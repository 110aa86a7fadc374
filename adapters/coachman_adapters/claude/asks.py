"""Permission requests of Claude Code: asked once, answered once, or taken back."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp.permissions import question
from coachman_adapters.asks import OpenAsks
from coachman_adapters.claude import frames, questions
from coachman_adapters.claude.state import State
from coachman_adapters.claude.tools import described
from coachman_adapters.conversation import Action, Answer, Ask, Option, Span

ALLOW = Option("allow", "allow_once", "Allow once")
DENY = Option("deny", "reject_once", "Deny", takes_message=True)
ALWAYS = "always"
# The CLI takes no denial without a reason, and the model reads it.
DENIED = "Permission to use this tool was denied."
CANCELLED = "Nobody answered this request: it was cancelled."
NAME_CHARS = 200


class Asks(OpenAsks[State]):
    """The unanswered questions in ``state``."""

    def request(self, number: str, request: Mapping[str, Any], span: Span) -> list[Action]:
        """Ask, after telling the tool call if it is new; refuse once nobody can answer."""
        given = request.get("input")
        given = given if isinstance(given, dict) else {}
        told, tool = self._tools.asked(
            described(request.get("tool_use_id"), request.get("tool_name"), given), span
        )
        asked: dict[str, Any] = {"id": number}
        if self._is_refused() or not self._state.running:
            return [*told, *self._turn_away(asked)]
        always = _for_session(request.get("permission_suggestions"))
        # What was shortened on its way here must not be what the tool does: the CLI takes an
        # empty input for its own.
        kept = {} if span.cut and request.get("tool_name") != questions.TOOL else given
        asked |= {"call": request.get("tool_use_id"), "tool": request.get("tool_name")}
        key = self._open({**asked, "input": kept, "always": always})
        return [*told, _ask(key, tool, request.get("tool_name"), given, always)]

    def settle(self) -> list[Action]:
        """The CLI waits for none once its turn is over."""
        return self.forget()

    def _refusal(self, asked: Mapping[str, Any]) -> Action:
        return frames.answer(asked["id"], _denied(CANCELLED))

    def _answered(self, asked: Mapping[str, Any], answer: Answer) -> list[Action]:
        decision = _decision(asked, answer)
        write = frames.answer(asked["id"], decision)
        allowed = decision["behavior"] == "allow" and texts.is_id(asked["call"])
        return [write, *(self._tools.begin(asked["call"]) if allowed else [])]


def _ask(
    key: str, tool: Mapping[str, Any], name: Any, given: Mapping[str, Any], always: list[Any]
) -> Ask:
    if name == questions.TOOL:
        options = (*questions.options(given), DENY)
        return Ask(key, tool, questions.text(given), options)
    offered = [Option(ALWAYS, "allow_always", _always_name(always))] if always else []
    return Ask(key, tool, question(tool), (ALLOW, *offered, DENY))


def _decision(asked: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    option, given = answer.option, asked["input"]
    if asked["tool"] == questions.TOOL and option not in (None, DENY.id):
        answers = questions.answers(given, str(option), answer.message)
        return {"behavior": "allow", "updatedInput": {**given, "answers": answers}}
    if option == ALLOW.id:
        return {"behavior": "allow", "updatedInput": given}
    if option == ALWAYS and asked["always"]:
        always = asked["always"]
        return {"behavior": "allow", "updatedInput": given, "updatedPermissions": always}
    return _denied(answer.message or (DENIED if option == DENY.id else CANCELLED))


def _denied(message: str) -> dict[str, Any]:
    return {"behavior": "deny", "message": message}


def _for_session(suggestions: Any) -> list[dict[str, Any]]:
    """What the CLI suggests to allow from now on: for the session, never into the worktree."""
    listed = suggestions if isinstance(suggestions, list) else []
    return [{**each, "destination": "session"} for each in listed if isinstance(each, dict)]


def _always_name(suggestions: list[dict[str, Any]]) -> str:
    shown = [text for each in suggestions for text in _grants(each)]
    return f"Allow in this session: {', '.join(shown)}"[:NAME_CHARS]


def _grants(suggestion: Mapping[str, Any]) -> list[str]:
    """What one suggestion would grant, in the CLI's own notation."""
    if "mode" in suggestion:
        return [f"mode {suggestion['mode']}"]
    rules = suggestion.get("rules")
    found = [
        f"{rule.get('toolName')}({rule['ruleContent']})"
        if rule.get("ruleContent")
        else str(rule.get("toolName"))
        for rule in (rules if isinstance(rules, list) else ())
        if isinstance(rule, dict)
    ]
    directories = suggestion.get("directories")
    return found + [str(each) for each in (directories if isinstance(directories, list) else ())]
