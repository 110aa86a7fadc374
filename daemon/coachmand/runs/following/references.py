"""From what people write (an id, a handle, a prefix, a task, @) to one run."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import trio

from ...evidence.ids import handle_of, is_run_id
from ...evidence.state import repo_key
from ...repos.errors import RepoError
from ...rpc.errors import RpcError
from ..reading.summary import summary_of
from ..supervisor import Supervisor

NEWEST = "@"
MAX_CANDIDATES = 8
Summary = dict[str, Any]


async def resolve(supervisor: Supervisor, reference: str, directory: str | None) -> str:
    """The id of the run that ``reference`` means. Raises RpcError NotFound or InvalidParams.

    ``directory`` is the caller's: it says which repository "@" and a task's name are of.
    """
    if not reference:
        raise RpcError("InvalidParams", "cannot find a run: its name is empty")
    if reference in supervisor.runs:
        return reference
    if is_run_id(reference):
        return await _known(supervisor, reference)
    repo = await repo_of(supervisor, directory)
    if reference == NEWEST:
        return await _newest(supervisor, repo, directory)
    if tasks := await _of_task(supervisor, reference):
        here = [s for s in tasks if s["repo"] == repo] or tasks
        return str(max(here, key=_created)["run"])
    found = await _candidates(supervisor, reference)
    if len(found) == 1:
        return str(found[0]["run"])
    if found:
        raise _ambiguous(reference, found)
    raise await _unknown(supervisor, reference)


def resolve_among(seen: Sequence[Summary], reference: str, itself: str | None = None) -> str:
    """The same for a caller that sees only the runs of ``seen``, newest first.

    Nothing is told of any other. "@" is the newest but ``itself``. Raises RpcError.
    """
    if not reference:
        raise RpcError("InvalidParams", "cannot find a run: its name is empty")
    if reference == NEWEST:
        found = [summary for summary in seen if summary["run"] != itself][:1]
    else:
        found = [summary for summary in seen if reference == summary["run"]]
        found = found or [summary for summary in seen if reference == summary["task"]][:1]
        found = found or [summary for summary in seen if _begins(summary, reference)]
    if len(found) == 1:
        return str(found[0]["run"])
    if found:
        raise _ambiguous(reference, found)
    raise RpcError(
        "NotFound",
        f"cannot find {reference[:100]!r}: the run that asks has started none of that name",
        hint="coachman list shows those that it started",
    )


def _begins(summary: Summary, reference: str) -> bool:
    return any(str(summary[name]).startswith(reference) for name in ("run", "handle"))


async def _known(supervisor: Supervisor, run: str) -> str:
    path = supervisor.services.state.run(run)
    if not await trio.Path(path).is_dir():
        raise RpcError("NotFound", f"cannot find run {run}: there is none of that id")
    return run


async def repo_of(supervisor: Supervisor, directory: str | None) -> str | None:
    """The key of the repository that ``directory`` lies in; None where it lies in none."""
    if directory is None:
        return None
    try:
        return repo_key((await supervisor.services.workers.locate(directory)).common_dir)
    except RepoError:
        return None


async def _newest(supervisor: Supervisor, repo: str | None, directory: str | None) -> str:
    if repo is None:
        raise RpcError(
            "InvalidParams",
            f"cannot find @: {directory or 'the caller'} is in no repository",
            hint="name a run or a task instead",
        )
    living = _summaries(supervisor, lambda summary: summary["repo"] == repo)
    ended = await trio.to_thread.run_sync(supervisor.services.index.newest, "repo", repo)
    if not (runs := [*living, *ended]):
        raise RpcError("NotFound", "cannot find @: this repository has no run yet")
    return str(max(runs, key=_created)["run"])


async def _of_task(supervisor: Supervisor, task: str) -> list[Summary]:
    ended = await trio.to_thread.run_sync(supervisor.services.index.newest, "task", task)
    return [*_summaries(supervisor, lambda summary: summary["task"] == task), *ended]


def _summaries(supervisor: Supervisor, wanted: Callable[[Summary], bool]) -> list[Summary]:
    """Those of the living runs that are wanted."""
    found = (summary_of(run.fixed, run.view) for run in supervisor.runs.values())
    return [summary for summary in found if wanted(summary)]


def _created(summary: Summary) -> tuple[int, str]:
    return summary["created_at"], summary["run"]


async def _candidates(supervisor: Supervisor, reference: str) -> list[Summary]:
    living = _summaries(
        supervisor,
        lambda summary: _begins(summary, reference),
    )
    ended = await trio.to_thread.run_sync(supervisor.services.index.find, reference)
    names = {s["run"] for s in living}
    return [*living, *(s for s in ended if s["run"] not in names)]


def _ambiguous(reference: str, found: Iterable[Summary]) -> RpcError:
    shown = sorted(found, key=lambda s: s["run"], reverse=True)[:MAX_CANDIDATES]
    text = ", ".join(f"{handle_of(s['run'])} ({s['task']})" for s in shown)
    return RpcError(
        "InvalidParams",
        f"cannot tell which run {reference!r} is: {text}",
        hint="write more of it",
        detail={"candidates": [s["run"] for s in shown]},
    )


async def _unknown(supervisor: Supervisor, reference: str) -> RpcError:
    names: set[str] = set()
    for run in supervisor.runs.values():
        names |= {run.fixed.handle, run.fixed.task}
    recent = await trio.to_thread.run_sync(lambda: supervisor.services.index.page(limit=200))
    for summary in recent:
        names |= {summary["handle"], summary["task"]}
    near = get_close_matches(reference, names, n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else "coachman list -a shows all runs"
    text = f"cannot find {reference!r}: no run or task is named so"
    return RpcError("NotFound", text, hint, next=[["coachman", "list", "-a"]])
