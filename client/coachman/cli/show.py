"""``coachman show``: everything about one run."""

from ..wire import EXIT_OK
from .choices import takes, words_for
from .durations import clock, spoken
from .options import Command, Option
from .policy import compiled_lines
from .render import (
    changes,
    cost,
    denied,
    error_text,
    left_behind,
    question,
    size,
    state,
    tokens,
)
from .result import checked
from .run import network
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..records import Check
    from ..results import RunDetails, RunResult
    from .console import Console
    from .options import Arguments

PROMPT_LINES = 10
RULE_LINES = 10
# Parking is told with the turns.
_SHOWN_ELSEWHERE = ("parked",)
COMMAND = Command(
    "show [X]",
    "Show one run: by handle, id, task, or @ (the newest here).",
    Option("--policy", "show what its boundary was compiled to, with digests and caps"),
    operands=(0, 1),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the run's facts, a line each."""
    run = arguments.operands[0] if arguments.operands else "@"
    if arguments.has("policy"):
        return _policy(console, run)
    details = console.client().run.get(run, dir=console.directory)
    if console.json:
        console.document(details)
    elif console.quiet:
        console.line(state(details))
    else:
        for name, value in _facts(details):
            if value:
                console.line(f"{name:<12} {value}")
    return EXIT_OK


def _policy(console: "Console", run: str) -> int:
    found = console.client().run.policy(run, dir=console.directory)
    if console.json:
        console.document(found)
    elif console.quiet:
        console.line(visible(found["policy"]["digest"]))
    else:
        console.line(f"{visible(found['handle'])}, attempt {found['attempt']}")
        for line in compiled_lines(found):
            console.line(line)
    return EXIT_OK


def _facts(details: "RunDetails") -> "Iterator[tuple[str, str]]":
    yield "run", f"{visible(details['run'])} ({visible(details['handle'])})"
    yield "state", state(details)
    if details.get("stop_reason"):
        yield "stop reason", visible(details["stop_reason"])
    result: RunResult | dict[str, Any] = details.get("result") or {}
    if details.get("outcome"):
        yield "error", visible(error_text(result.get("error") or details.get("error")) or "")
    yield from _asked(details)
    yield from _work(details)
    yield from _times(details)
    yield from _turns(details)
    attention = details.get("attention")
    if attention:
        asks = takes(attention)
        yield "asks" if asks else "needs you", question(attention)
        if asks:
            yield "answer", f"coachman answer {visible(details['handle'])} {words_for(attention)}"
    yield "tokens", tokens(details.get("tokens"))
    yield "cost", cost(details.get("cost_usd"))
    yield "changes", changes(details.get("changes"))
    for line in left_behind(result):
        yield "", line
    yield from _check(details, result.get("check"))
    yield "denied", denied(result).removesuffix(" denied")
    yield "session", _text(details.get("session"))
    yield "resumable", _resumable(details.get("resumable"))
    yield "resumed from", _text((details.get("resumed_from") or "")[-5:])
    yield "worktree", _text(details.get("worktree"))
    yield "evidence", _text(details.get("evidence_dir"))
    yield "on disk", _on_disk(details)


def _check(details: "RunDetails", check: "Check | None") -> "Iterator[tuple[str, str]]":
    """What decides, or decided, and the end of what it said where it failed."""
    if check is None:
        yield "check", visible(details.get("request", {}).get("check") or "")
        return
    for number, line in enumerate(checked(check)):
        yield "" if number else "check", line.removeprefix("check ")


def _resumable(found: "Any") -> str:
    if not found:
        return ""
    return "yes" if found["ok"] else f"no: {visible(found['why'])}"


def _on_disk(details: "RunDetails") -> str:
    """What the run takes, and what of it is gone."""
    if (taken := details.get("bytes")) is None:
        return ""
    result: RunResult | dict[str, Any] = details.get("result") or {}
    gone: dict[str, Any] = dict(result.get("cleaned") or {})
    parts = {"raw logs": gone.get("logs_at"), "worktree and homes": gone.get("worktree_at")}
    removed = [f"{part} removed {clock(at)}" for part, at in parts.items() if at]
    return "; ".join([size(taken), *removed])


def _asked(details: "RunDetails") -> "Iterator[tuple[str, str]]":
    """The prompt's first lines; its title where that is not the first of them."""
    title = details.get("title") or ""
    lines = visible(details.get("prompt") or "", lines=True).strip("\n").splitlines()
    if not lines or not lines[0].startswith(visible(title).rstrip("…")):
        yield "title", visible(title)
    for number, line in enumerate(lines[:PROMPT_LINES]):
        yield "" if number else "prompt", line
    if len(lines) > PROMPT_LINES:
        yield "", f"[{len(lines) - PROMPT_LINES} more lines]"


def _work(details: "RunDetails") -> "Iterator[tuple[str, str]]":
    yield "task", visible(details["task"])
    result: RunResult | dict[str, Any] = details.get("result") or {}
    # Without -m only the agent knows which it took, and told.
    model, effort = details.get("model") or result.get("model"), details.get("effort")
    with_model = f", {visible(model)}" if model else ""
    yield (
        "agent",
        visible(details["agent"]) + with_model + (f", {visible(effort)}" if effort else ""),
    )
    yield "profile", visible(details["profile"])
    yield "permissions", visible(details["permissions"])
    yield from _deciders(details.get("request") or {})
    yield "network", network(details["network"])
    labels = details.get("labels") or {}
    yield "labels", visible(", ".join(f"{key}={value}" for key, value in labels.items()))
    attempts = details.get("attempts") or 0
    yield "attempts", str(attempts) if attempts > 1 else ""


def _deciders(request: "Mapping[str, Any]") -> "Iterator[tuple[str, str]]":
    """Who decides before and beside people, in the order in which they are asked."""
    rules = request.get("rules") or ()
    for number, rule in enumerate(rules[:RULE_LINES]):
        words = [rule["decide"], ",".join(rule.get("tool") or ()) or "any"]
        words += filter(None, (rule.get("command"), rule.get("path")))
        yield "" if number else "rules", visible(f"{' '.join(words)} ({rule.get('origin')})")
    if len(rules) > RULE_LINES:
        yield "", f"[{len(rules) - RULE_LINES} more rules: --json has all]"
    for handler in request.get("handlers") or ():
        text = f"{handler['kind']}:{handler['path']} ({handler.get('origin')})"
        yield "handler", visible(text)
    if fed := request.get("on_event"):
        yield "fed to", visible(fed["path"])


def _turns(details: "RunDetails") -> "Iterator[tuple[str, str]]":
    """Which turn a kept run is at, and the prompts that wait."""
    if not details.get("keep"):
        return
    reason = details.get("turn_stop_reason")
    over = f", over: {visible(reason).replace('_', ' ')}" if reason else ""
    yield "turn", f"{details.get('turn') or 0}{over}"
    waiting = [queued for queued in details.get("queue") or () if queued["prompt"] > 1]
    for number, queued in enumerate(waiting):
        yield "" if number else "waiting", f"{queued['prompt']} {visible(queued['title'])}"
    if closes := (details.get("deadlines") or {}).get("parked"):
        yield "closes", f"{clock(closes)}, unless it is prompted"


def _times(details: "RunDetails") -> "Iterator[tuple[str, str]]":
    created, started, ended = (
        details.get("created_at"),
        details.get("started_at"),
        details.get("ended_at"),
    )
    if created:
        yield "created", clock(created)
    if started:
        yield "started", clock(started)
    for which, at_ms in (details.get("deadlines") or {}).items():
        if not ended and which not in _SHOWN_ELSEWHERE:
            yield f"ends ({visible(which)})", clock(at_ms)
    if again := details.get("resumes_at"):
        yield "goes on", clock(again)
    if ended:
        took = f" (after {spoken((ended - started) / 1000)})" if started else ""
        yield "ended", clock(ended) + took


def _text(value: "Any") -> str:
    return visible(value) if value else ""
