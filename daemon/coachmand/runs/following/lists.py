"""Lists of runs: the living from memory, the ended from the index."""

import time
from collections.abc import Mapping
from typing import Any

import trio
from attrs import evolve, field, frozen

from ...evidence.state import repo_key
from ...repos.errors import RepoError
from ...rpc.errors import RpcError
from ..reading.summary import summary_of
from ..supervisor import Supervisor
from .references import resolve, resolve_among

RECENT_MS = 12 * 3600 * 1000
MAX_ROWS = 1000
# The label of what was started together.
BATCH = "batch"
# Labels and repositories are few in a page: rows are fetched so many at a time.
FETCH_ROWS = 200
# What a cursor among the living runs begins with; no run's id does.
LIVING = "living-"
BEHIND_THE_LIVING = f"{LIVING}1000000000"
MAX_CURSOR_DIGITS = 18
Summary = dict[str, Any]


@frozen
class Filter:
    """Which runs; the members are those of ``run.list``."""

    state: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    task: str | None = None
    agent: str | None = None
    labels: Mapping[str, str] = field(factory=dict)
    here: str | None = None
    since: int | None = None
    attention: bool | None = None
    parent: str | None = None
    ancestor: str | None = None
    all: bool = False
    limit: int = 100
    cursor: str | None = None


def with_batch(labels: Mapping[str, str], batch: str | None, verb: str) -> Mapping[str, str]:
    """The labels that are wanted where a batch is, which is one of them. Raises RpcError."""
    if batch is None:
        return labels
    if labels.get(BATCH, batch) != batch:
        text = f"cannot {verb}: `batch` and the label of that name differ"
        raise RpcError("InvalidParams", text, detail={"member": "batch"})
    return {**labels, BATCH: batch}


async def list_runs(
    supervisor: Supervisor, wanted: Filter, caller: str | None = None
) -> tuple[list[Summary], int, str | None]:
    """A page of summaries, how many runs ended too long ago for it, and where the next starts.

    What needs attention comes first, then the newest. A ``caller`` is a run, which sees itself
    and what it started.
    """
    if caller is not None:
        return await _list_family(supervisor, wanted, caller)
    if (named := wanted.ancestor or wanted.parent) is not None:
        run = await resolve(supervisor, named, None)
        wanted = _named(wanted, run)
        return await _list_family(supervisor, wanted, run)
    repo = await _repo(supervisor, wanted.here)
    limit = max(1, min(wanted.limit, MAX_ROWS))
    living, skipped = _page_of_living(supervisor, wanted, repo)
    if len(living) > limit:
        return living[:limit], 0, f"{LIVING}{skipped + limit}"
    # One way to a thread and back: under load each is a wait of its own.
    ended, cursor, older = await trio.to_thread.run_sync(
        _behind_the_living, supervisor, wanted, repo, limit - len(living)
    )
    names = set(supervisor.runs)
    ended = [summary for summary in ended if summary["run"] not in names]
    return [*living, *ended], older, cursor


def _named(wanted: Filter, run: str) -> Filter:
    """The same with the run's id where it was named otherwise."""
    return evolve(wanted, ancestor=wanted.ancestor and run, parent=wanted.parent and run)


async def _list_family(
    supervisor: Supervisor, wanted: Filter, run: str
) -> tuple[list[Summary], int, str | None]:
    """The same of ``run`` and what came from it, which are few: a cursor is a number."""
    seen = await supervisor.families.seen_by(run)
    if (named := wanted.ancestor or wanted.parent) is not None:
        wanted = _named(wanted, resolve_among(seen, named))
    found = [summary for summary in seen if _matches(summary, wanted, None)]
    found.sort(key=lambda summary: summary["attention"] is None)
    first = _number(wanted.cursor or "0")
    end = first + max(1, min(wanted.limit, MAX_ROWS))
    return found[first:end], 0, str(end) if end < len(found) else None


def _behind_the_living(
    supervisor: Supervisor, wanted: Filter, repo: str | None, limit: int
) -> tuple[list[Summary], str | None, int]:
    """So many that ended, where the next page starts, and how many are too old for it. Blocks."""
    found: list[Summary] = []
    cursor = None
    if _wants_ended(wanted):
        found, cursor = _ended(supervisor, wanted, repo, limit)
    recent_ms = _recent_ms(wanted)
    older = 0 if recent_ms is None else supervisor.services.index.count(recent_ms)
    return found, cursor, older


def _page_of_living(
    supervisor: Supervisor, wanted: Filter, repo: str | None
) -> tuple[list[Summary], int]:
    """The living runs from the cursor on, and how many came before it.

    They come first and are counted: a cursor among them is a number, one behind them a run.
    """
    if wanted.cursor is None:
        return _living(supervisor, wanted, repo), 0
    if not wanted.cursor.startswith(LIVING):
        return [], 0
    skipped = _number(wanted.cursor.removeprefix(LIVING))
    return _living(supervisor, wanted, repo)[skipped:], skipped


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > MAX_CURSOR_DIGITS:
        raise RpcError("InvalidParams", "cannot list: that is no cursor of this daemon")
    return int(text)


def _recent_ms(wanted: Filter) -> int | None:
    """Since when a list goes back that was asked for nothing in particular; else None."""
    particular = (wanted.since, wanted.all, wanted.outcome, wanted.task, wanted.labels)
    if any(particular):
        return None
    return time.time_ns() // 1_000_000 - RECENT_MS


def _wants_ended(wanted: Filter) -> bool:
    if wanted.attention:
        return False
    return not wanted.state or "ended" in wanted.state


async def _repo(supervisor: Supervisor, here: str | None) -> str | None:
    if here is None:
        return None
    try:
        return repo_key((await supervisor.services.workers.locate(here)).common_dir)
    except RepoError as error:
        raise RpcError("InvalidParams", f"cannot list: {error.message}", error.hint) from error


def _living(supervisor: Supervisor, wanted: Filter, repo: str | None) -> list[Summary]:
    found = [summary_of(run.fixed, run.view, run.held_until_ms) for run in supervisor.runs.values()]
    matching = [summary for summary in found if _matches(summary, wanted, repo)]
    return sorted(matching, key=lambda s: (s["attention"] is not None, s["run"]), reverse=True)


def _ended(
    supervisor: Supervisor, wanted: Filter, repo: str | None, limit: int
) -> tuple[list[Summary], str | None]:
    since = wanted.since if wanted.since is not None else _recent_ms(wanted)
    equal = {"repo": repo, "task": wanted.task, "agent": wanted.agent}
    found: list[Summary] = []
    before = None if wanted.cursor is None or wanted.cursor.startswith(LIVING) else wanted.cursor
    # Where the index chooses, one row more than wanted tells whether there is another page.
    fetch = FETCH_ROWS if wanted.labels else limit + 1
    while len(found) <= limit:
        rows = supervisor.services.index.page(
            before=before,
            ended_since_ms=since,
            equal={key: value for key, value in equal.items() if value is not None},
            outcomes=wanted.outcome,
            limit=fetch,
        )
        found += [row for row in rows if _matches(row, wanted, repo)]
        if len(rows) < fetch:
            break
        before = rows[-1]["run"]
    page = found[:limit]
    if len(found) <= limit:
        return page, None
    return page, page[-1]["run"] if page else BEHIND_THE_LIVING


def _matches(summary: Summary, wanted: Filter, repo: str | None) -> bool:
    labels = summary["labels"]
    return (
        (not wanted.state or summary["state"] in wanted.state)
        and (not wanted.outcome or summary["outcome"] in wanted.outcome)
        and (wanted.task is None or summary["task"] == wanted.task)
        and (wanted.agent is None or summary["agent"] == wanted.agent)
        and (wanted.parent is None or summary.get("parent") == wanted.parent)
        and (wanted.ancestor is None or wanted.ancestor in (summary.get("ancestors") or ()))
        and (repo is None or summary["repo"] == repo)
        and (wanted.attention is None or wanted.attention == (summary["attention"] is not None))
        and all(labels.get(key) == value for key, value in wanted.labels.items())
    )
