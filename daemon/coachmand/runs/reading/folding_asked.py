"""What is asked in a run and how it is settled: to be allowed, or in words."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...journal import vocabulary as v
from ..facts.members import MAX_REMEMBERED, Permission, Question

if TYPE_CHECKING:
    from .view import View

Event = Mapping[str, Any]
MAX_PASSED = 32
# Of questions that are settled: whoever lost the connection asks again for the answer.
MAX_REPLIES = 16


def _requested(view: "View", event: Event) -> None:
    view.asked += 1
    view.pending[event["request"]] = Permission(
        event["request"],
        event["tool"],
        event["question"],
        event["options"],
        event["ts"],
        event.get("deadline"),
        event.get("deadline_boottime_s"),
        event.get("deadline_boot"),
    )


def _passed(view: "View", event: Event) -> None:
    asked = view.pending.get(event["request"])
    if asked is not None and len(asked.passed) < MAX_PASSED:
        asked.passed.append({"by": event["by"], "reason": event["reason"]})


def resolve(view: "View", event: Event) -> None:
    told = event["type"] == v.PERMISSION_RESOLVED
    request, option_kind = event["request"], event.get("kind" if told else "option_kind") or ""
    asked = view.pending.pop(request, None)
    if request in view.answered:
        view.answered[request]["resolved"] = True
        return
    outcome = event["outcome"]
    view.allowed += option_kind.startswith("allow")
    view.denied += option_kind.startswith("reject") or outcome in ("denied", "expired")
    known = {name: event.get(name) for name in ("option", "by", "outcome")}
    view.answered[request] = {
        **known,
        "kind": option_kind or None,
        "resolved": told,
        "asked": asked.summary() if asked else {},
    }
    if len(view.answered) > MAX_REMEMBERED:
        del view.answered[next(iter(view.answered))]


def _question_asked(view: "View", event: Event) -> None:
    view.questions_asked += 1
    view.questions[event["request"]] = Question(
        event["request"],
        event["question"],
        event["options"],
        event["ts"],
        event["deadline"],
        event["deadline_boottime_s"],
        event["deadline_boot"],
        event.get("key"),
    )


def _question_answered(view: "View", event: Event) -> None:
    asked = view.questions.pop(event["request"], None)
    if asked is None:
        return
    reply = {name: event.get(name) for name in ("outcome", "answer", "by")}
    view.replies[event["request"]] = {**asked.public(), "key": asked.key, **reply}
    if len(view.replies) > MAX_REPLIES:
        del view.replies[next(iter(view.replies))]


READERS: dict[str, Callable[["View", Event], None]] = {
    v.PERMISSION_REQUESTED: _requested,
    v.PERMISSION_PASSED: _passed,
    v.PERMISSION_RESOLVED: resolve,
    v.QUESTION_ASKED: _question_asked,
    v.QUESTION_ANSWERED: _question_answered,
}
