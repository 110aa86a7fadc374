"""Runs as people read them: states, numbers, tables, the summary of an end."""

import time

from .console import quoted
from .durations import coarse, spoken
from .visible import cut, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

NOTHING = "–"
NOW_COLUMNS = 60
_MIN_NOW_COLUMNS = 10
_SHOWN_USD = 0.005
# What agents say where they have no login, or one that is not taken.
_LOGIN_SIGNS = ("unauthorized", "authentication", "not logged in", "api key", "api-key")
_WORKING = {"active": "working"}


def tokens(count: "Any") -> str:
    """A number of tokens: ``950``, ``81k``, ``1.2M``."""
    if not isinstance(count, (int, float)):
        return NOTHING
    if count < 1000:
        return str(int(count))
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def cost(usd: "Any") -> str:
    """A price in dollars; what rounds to nothing is still not free."""
    if not isinstance(usd, (int, float)):
        return NOTHING
    return f"${usd:.2f}" if usd >= _SHOWN_USD or usd <= 0 else "<$0.01"


def changes(counts: "Mapping[str, Any] | None") -> str:
    """Files changed, lines added and removed: ``2 files +120 -14``."""
    if not counts or not any(counts.values()):
        return NOTHING
    return f"{files(counts.get('files', 0))} +{counts.get('added', 0)} -{counts.get('removed', 0)}"


def files(count: int) -> str:
    """A number of files."""
    return "1 file" if count == 1 else f"{count} files"


def size(count: "Any") -> str:
    """Bytes in the largest binary unit."""
    if not isinstance(count, (int, float)):
        return NOTHING
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def left(deadline_ms: "Any", now_s: float | None = None) -> str:
    """How long until a deadline: ``58m left``."""
    if not isinstance(deadline_ms, (int, float)):
        return ""
    remaining = deadline_ms / 1000 - (time.time() if now_s is None else now_s)
    return f"{coarse(remaining)} left" if remaining > 0 else "overdue"


def state(summary: "Mapping[str, Any]", now_s: float | None = None) -> str:
    """What a run is doing, in the words of the table."""
    attention = summary.get("attention")
    if attention:
        remaining = left(attention.get("deadline"), now_s)
        return f"needs you ({remaining})" if remaining else "needs you"
    if summary.get("outcome"):
        return visible(summary["outcome"]).replace("_", " ")
    current = visible(summary.get("state") or "unknown")
    reason = summary.get("reason")
    if current == "waiting" and (again := summary.get("resumes_at")):
        until = time.strftime("%H:%M", time.localtime(again / 1000))
        return f"limited until {until}" if reason == "limit" else f"tries again at {until}"
    if current == "queued" and (held := summary.get("held_until")):
        return f"limited until {time.strftime('%H:%M', time.localtime(held / 1000))}"
    if current == "waiting" and reason:
        return f"waiting: {cut(reason, 24)}"
    return _WORKING.get(current, current)


def state_color(summary: "Mapping[str, Any]") -> str | None:
    """The colour of that state, None for the terminal's own."""
    if summary.get("attention"):
        return "yellow"
    outcome = summary.get("outcome")
    if outcome:
        return "green" if outcome == "succeeded" else "red"
    return "cyan" if summary.get("state") == "active" else None


def question(attention: "Mapping[str, Any]") -> str:
    """The question of a permission request, on one line."""
    name = tool_name(attention.get("tool"))
    asked = visible(attention.get("question") or "may it?")
    return f"{name}: {asked}" if name and not asked.startswith(name) else asked


def tool_name(tool: "Any") -> str:
    """A tool's name, whether it is given as text or as a record."""
    if isinstance(tool, dict):
        tool = tool.get("name") or tool.get("kind") or ""
    return visible(tool or "")


def run_row(summary: "Mapping[str, Any]", now_s: float) -> list[str]:
    """One run as the cells of the table."""
    began = summary.get("started_at") or summary.get("created_at")
    attention = summary.get("attention")
    return [
        visible(summary.get("handle") or summary.get("run")),
        visible(summary.get("task") or NOTHING),
        visible(summary.get("agent") or NOTHING),
        state(summary, now_s),
        coarse(now_s - began / 1000) if began else NOTHING,
        tokens(summary.get("tokens")),
        cost(summary.get("cost_usd")),
        changes(summary.get("changes")),
        question(attention) if attention else _now(summary),
    ]


def _now(summary: "Mapping[str, Any]") -> str:
    """What the run is at, and what waits behind it; once it has ended, why it is no success."""
    if summary.get("outcome"):
        return cause(summary)
    waiting = summary.get("queued_prompts") or 0
    prompts = "1 prompt waits" if waiting == 1 else f"{waiting} prompts wait"
    held = "queued behind a limit of its provider" if summary.get("held_until") else ""
    now = visible(summary.get("now") or held)
    return (f"{now} · {prompts}" if now else prompts) if waiting else now


RUN_COLUMNS = ("RUN", "TASK", "AGENT", "STATE", "AGE", "TOKENS", "COST", "CHANGES", "NOW")
RUN_NUMBERS = frozenset({"TOKENS", "COST"})


def table(
    head: "Sequence[str]",
    rows: "Sequence[Sequence[str]]",
    *,
    numbers: "frozenset[str]" = frozenset(),
    width: int | None = None,
) -> list[list[str]]:
    """Cells padded to columns; the last column is cut to ``width``, or ``NOW_COLUMNS``."""
    widths = [
        max(len(title), *(len(row[i]) for row in rows)) if rows else len(title)
        for i, title in enumerate(head[:-1])
    ]
    used = sum(widths) + 2 * len(widths)
    room = NOW_COLUMNS if width is None else max(_MIN_NOW_COLUMNS, width - used)
    padded = []
    for row in [head, *rows]:
        cells = [
            f"{cell:>{widths[i]}}" if head[i] in numbers else f"{cell:<{widths[i]}}"
            for i, cell in enumerate(row[:-1])
        ]
        padded.append([*cells, cut(row[-1], room)])
    return padded


def joined(cells: "Sequence[str]") -> str:
    """A padded row as a line."""
    return "  ".join(cells).rstrip()


def left_behind(result: "Mapping[str, Any]") -> list[str]:
    """The files that a run changed and the artifacts that it made, a line each."""
    lines = [
        f"{_mark(change)} {visible(_path(change))}" for change in result.get("changed_files") or ()
    ]
    return lines + artifacts(result)


def artifacts(result: "Mapping[str, Any]") -> list[str]:
    """The artifacts that a run made, a line each, by the paths at which they lie.

    A run is told no path of the host: it has their names alone.
    """
    lines = []
    for artifact in result.get("artifacts") or ():
        whole = ", may not be whole" if artifact.get("partial") else ""
        path = str(artifact.get("path"))
        if evidence := result.get("evidence_dir"):
            path = quoted(f"{evidence}/artifacts/{path}")
        lines.append(f"artifact {visible(path)} ({size(artifact.get('size'))}{whole})")
    return lines


def _path(change: object) -> object:
    return change.get("path") if isinstance(change, dict) else change


def _mark(change: object) -> str:
    status = str(change.get("status") or "") if isinstance(change, dict) else ""
    return visible(status[:1].upper() or "M")


def duration_of(result: "Mapping[str, Any]") -> str:
    """How long a run took, from its start (or its creation) to its end."""
    began = result.get("started_at") or result.get("created_at")
    ended = result.get("ended_at")
    return spoken((ended - began) / 1000) if began and ended else ""


def error_text(error: "Any") -> str | None:
    """What went wrong, whether it is given as text or as ``{message}``."""
    if isinstance(error, dict):
        error = error.get("message")
    return str(error) if error else None


def denied(result: "Mapping[str, Any]") -> str:
    """How many requests were denied: a success may lack what they were about."""
    count = (result.get("permissions_decided") or {}).get("denied") or 0
    return f"{count} {'request' if count == 1 else 'requests'} denied" if count else ""


def unreached(result: "Mapping[str, Any]") -> str:
    """How many destinations its network did not have, and how many nobody answered at."""
    counts = result.get("network_decided") or {}
    words = (("denied", "denied"), ("unreachable", "not reached"))
    said = [f"{counts[name]} {verdict}" for name, verdict in words if counts.get(name)]
    return f"network: {', '.join(said)}" if said else ""


def cause(result: "Mapping[str, Any]") -> str:
    """Why a run did not succeed, on one line; empty where nobody said."""
    error = error_text(result.get("error"))
    if error or result.get("outcome") == "succeeded":
        return visible(error or "")
    reason = result.get("stop_reason")
    return "" if reason == result.get("outcome") else visible(reason or "")


def ending(result: "Mapping[str, Any]") -> list[str]:
    """The summary of a run that has ended: verdict, what is kept, what to do next."""
    handle = visible(result.get("handle") or result.get("run"))
    verdict = visible(result.get("outcome") or "ended").replace("_", " ")
    after = f" after {took}" if (took := duration_of(result)) else ""
    why = f": {reason}" if (reason := cause(result)) else ""
    lines = [f"{handle} {verdict}{after}{why}"]
    if kept := _kept(result):
        lines.append("  " + kept)
    if result.get("outcome") != "succeeded":
        doctor = f"; coachman doctor {quoted(result['agent'])}" if _wants_doctor(result) else ""
        lines.append(f"  next: coachman log {handle}; coachman show {handle}{doctor}")
    return lines


def _wants_doctor(result: "Mapping[str, Any]") -> bool:
    """Whether its agent was not let in, or reached nobody: a login or a network to be mended.

    A run that looks at another is told no place of the host, and could mend nothing.
    """
    if result.get("outcome") != "failed" or not result.get("agent"):
        return False
    if not result.get("evidence_dir"):
        return False
    said = (error_text(result.get("error")) or "").lower()
    missed = (result.get("network_decided") or {}).get("unreachable")
    refused = "401" in [word.strip("():,.") for word in said.split()]
    return bool(missed) or refused or any(sign in said for sign in _LOGIN_SIGNS)


def _kept(result: "Mapping[str, Any]") -> str:
    changed = result.get("changed_files") or []
    usage, price = result.get("usage") or {}, result.get("cost") or {}
    parts = []
    if changed:
        work = "work" if result.get("outcome") == "succeeded" else "work kept"
        named = visible(result.get("handle") or result.get("run"))
        parts.append(f"{work}: {files(len(changed))}, coachman diff {named}")
    if refused := denied(result):
        parts.append(refused)
    if missed := unreached(result):
        parts.append(missed)
    if (total := usage.get("total")) is not None:
        spent = price.get("usd") if isinstance(price, dict) else None
        parts.append(f"{tokens(total)} tokens" + (f", {cost(spent)}" if spent else ""))
    return "      ".join(parts)
