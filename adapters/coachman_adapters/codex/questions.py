"""What the app server asks: each kind of question, the options it has, and their results."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from coachman_adapters import in_words, texts
from coachman_adapters.acp.permissions import NAME_CHARS
from coachman_adapters.acp.tools import FINAL, Tools
from coachman_adapters.codex import tools as calls
from coachman_adapters.conversation import Event, Option, Span

Params = Mapping[str, Any]
Results = dict[str, Any]
Choice = tuple[Option, Results]

PATCH = "patch"
"""The parameter that `asks` adds to a question about a patch: the tool call that waits for it."""

# Decisions that codex takes as they are, by their names on the wire.
_ALLOW = ("accept", "allow_once", "Allow")
_ALLOW_SESSION = ("acceptForSession", "allow_always", "Allow for the session")
# codex takes it for every question, and the turn goes on, though it is not always offered.
_DECLINE = ("decline", "reject_once", "Reject")
_NO_ANSWER = Option("decline", "reject_once", "Decline to answer")
_OFFERED = ("accept", "acceptForSession")


@frozen
class Question:
    """A request in our terms. ``cancel`` is the result that chooses nothing."""

    tool: dict[str, Any]
    choices: tuple[Choice, ...]
    cancel: Results
    told: tuple[Event, ...] = ()
    text: str | None = None


def _decided(identity: str, kind: str, name: str, decision: Any = None) -> Choice:
    return Option(identity, kind, name[:NAME_CHARS]), {"decision": decision or identity}


def _decisions(given: Any) -> tuple[Choice, ...]:
    """The choices of a list of decisions; "cancel" is none, it is what no choice means."""
    offered = given if isinstance(given, list) else _OFFERED
    found = [choice for each in offered for choice in _choice(each)]
    choices = {choice[0].id: choice for choice in (*found, _decided(*_DECLINE))}
    return tuple(choices.values())


def _choice(decision: Any) -> tuple[Choice, ...]:
    for known in (_ALLOW, _ALLOW_SESSION, _DECLINE):
        if decision == known[0]:
            return (_decided(*known),)
    if not isinstance(decision, dict):
        return ()
    for name, inner in decision.items():
        if name == "acceptWithExecpolicyAmendment" and isinstance(inner, dict):
            words = inner.get("execpolicy_amendment")
            text = " ".join(map(str, words)) if isinstance(words, list) else "it"
            return (_decided(name, "allow_always", f"Always allow: {text}", decision),)
        if name == "applyNetworkPolicyAmendment" and isinstance(inner, dict):
            return _network(name, inner.get("network_policy_amendment"), decision)
    return ()


def _network(name: str, rule: Any, decision: Any) -> tuple[Choice, ...]:
    if not isinstance(rule, dict) or rule.get("action") not in ("allow", "deny"):
        return ()
    allows = rule["action"] == "allow"
    kind, verb = ("allow_always", "allow") if allows else ("reject_always", "deny")
    text = f"Always {verb}: {rule.get('host')}"
    return (_decided(f"{name}.{verb}", kind, text, decision),)


def _command(params: Params, tools: Tools, span: Span) -> Question:
    call: dict[str, Any] = {"toolCallId": params.get("itemId")}
    if isinstance(params.get("command"), str):
        call |= calls.command(params)
        reason = params.get("reason")
        call["rawInput"] = {**call["rawInput"], **({"reason": reason} if reason else {})}
    told, tool = tools.asked(call, span)
    choices = _decisions(params.get("availableDecisions"))
    return Question(tool, choices, {"decision": "cancel"}, tuple(told))


def _change(params: Params, tools: Tools, span: Span) -> Question:
    # The request itself does not say what the patch is; the item did.
    unseen = {"toolCallId": params.get("itemId"), "kind": "edit"}
    told, tool = tools.asked(params.get(PATCH) or unseen, span)
    return Question(tool, _decisions(None), {"decision": "cancel"}, tuple(told))


def _permissions(params: Params, tools: Tools, span: Span) -> Question:
    """The model wants more than its sandbox allows, for a turn or for the session."""
    wanted = params.get("permissions")
    nothing: Results = {"permissions": {}, "scope": "turn"}
    reason = params.get("reason")
    title = f"more permissions{f': {reason}' if isinstance(reason, str) and reason else ''}"
    call = {"toolCallId": params.get("itemId"), "title": title, "rawInput": wanted}
    told, tool = tools.asked(call, span)
    once, always = ({"permissions": wanted, "scope": scope} for scope in ("turn", "session"))
    choices = (
        (Option("turn", "allow_once", "Allow for the turn"), once),
        (Option("session", "allow_always", "Allow for the session"), always),
        (Option("decline", "reject_once", "Reject"), nothing),
    )
    return Question(tool, choices, nothing, tuple(told))


def _mcp(params: Params, tools: Tools, span: Span) -> Question | None:
    """A tool of an MCP server; None for whatever else such a server wants of its user."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or meta.get("codex_approval_kind") != "mcp_tool_call":
        return None
    name = calls.mcp_name(params.get("serverName"), meta.get("tool_name"))
    told = {"name": name, "title": name, "kind": "other", "status": "pending"}
    tool = {"tool_call_id": _open(tools, name), **told, "input": meta.get("tool_params")}
    accept: Results = {"action": "accept", "content": {}}
    choices: list[Choice] = [
        (Option("accept", "allow_once", "Allow"), accept),
        (Option("decline", "reject_once", "Reject"), {"action": "decline"}),
    ]
    persist = meta.get("persist")
    if isinstance(persist, list) and "session" in persist:
        always = Option("session", "allow_always", "Allow for the session")
        choices.insert(1, (always, {**accept, "_meta": {"persist": "session"}}))
    return Question(texts.fit(tool, span.size), tuple(choices), {"action": "cancel"})


def _open(tools: Tools, name: str) -> str | None:
    """The call of the tool that waits."""
    for call, known in reversed(tools.known.items()):
        if known.get("name") == name and known.get("status") not in FINAL:
            return call
    return None


def _words(params: Params, tools: Tools, span: Span) -> Question | None:
    """What the model asks in words; None where nothing is asked."""
    listed = params.get("questions")
    asked = [each for each in listed if _is_asked(each)] if isinstance(listed, list) else []
    if not asked:
        return None
    text = " / ".join(str(each["question"]) for each in asked)
    told, tool = tools.asked({"toolCallId": params.get("itemId"), "title": text}, span)
    labels = in_words.choices(_labels(asked[0]) if len(asked) == 1 else ())
    choices = tuple(
        (option, _said(asked, labels.get(option.id)))
        for option in (*in_words.options(labels.values()), _NO_ANSWER)
    )
    return Question(tool, choices, {"answers": {}}, tuple(told), text)


def written(results: Results, message: str) -> Results:
    """The result with somebody's own words where the answers are."""
    told = {name: {"answers": [message]} for name in results["answers"]}
    return {"answers": told}


def _said(asked: list[dict[str, Any]], label: str | None) -> Results:
    return {"answers": {each["id"]: {"answers": [label] if label else []} for each in asked}}


def _is_asked(each: Any) -> bool:
    if not isinstance(each, dict) or not texts.is_id(each.get("id")):
        return False
    return isinstance(each.get("question"), str)


def _labels(asked: Mapping[str, Any]) -> list[str]:
    offered = asked.get("options")
    listed = offered if isinstance(offered, list) else []
    labels = [each.get("label") for each in listed if isinstance(each, dict)]
    return [label for label in labels if isinstance(label, str)]


WORDS = "item/tool/requestUserInput"
READERS: Mapping[str, Callable[[Params, Tools, Span], Question | None]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _change,
    "item/permissions/requestApproval": _permissions,
    "mcpServer/elicitation/request": _mcp,
    WORDS: _words,
}
