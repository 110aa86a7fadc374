"""``run.diff``: what a run or a task changed."""

from typing import Any

from attrs import asdict, frozen

from coachman import records, results

from ..repos.errors import RepoError
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.following import diffs
from .context import Context

DIFF_BYTES = 256 * 1024
MAX_DIFF_BYTES = 4 * 1024 * 1024
MAX_FILES = 1000


@frozen
class DiffParams:
    """What a run changed, or a task since its base; ``offset`` pages through a long patch."""

    run: str | None = None
    task: str | None = None
    dir: str | None = None
    stat: bool = False
    names: bool = False
    offset: int = 0
    limit: int = DIFF_BYTES


def register(registry: Registry) -> None:
    """Add this method."""

    @registry.method(
        "run.diff",
        params=DiffParams,
        result=results.Diff,
        summary="What a run or a task changed, as a patch.",
        errors=("NotFound", "Conflict"),
    )
    async def diff(context: Context, params: DiffParams) -> results.Diff:
        return await _diff(context, params)


async def _diff(context: Context, params: DiffParams) -> results.Diff:
    workers = context.services.workers
    if (params.run is None) == (params.task is None):
        raise RpcError("InvalidParams", "cannot diff: name either a run or a task")
    run = await context.run(params.run or params.task or "", params.dir)
    repository = (await context.supervisor.record_of(run)).repository
    if not repository.is_there:
        text = f"cannot diff: run {run[-5:]} is sealed, and has no worktree"
        again = [["coachman", "result", run[-5:]]]
        raise RpcError("Conflict", text, "what it left is in its result", next=again)
    common = repository.common_dir
    try:
        old, new = await diffs.compared(context.supervisor, run, whole_task=params.task is not None)
        files = await workers.diff_names(common, old, new)
        shown: list[Any] = [asdict(change) for change in files[:MAX_FILES]]
        if params.stat or params.names:
            return _patch(old, new, shown, diffs.Page(None, None, False, None))
        patch = await workers.diff(common, old, new)
    except RepoError as error:
        raise RpcError("NotFound", error.message, hint=error.hint) from error
    page = diffs.page(patch, params.offset, min(params.limit, MAX_DIFF_BYTES))
    return _patch(old, new, shown, page)


def _patch(old: str, new: str, files: list[records.FileChange], page: diffs.Page) -> results.Diff:
    return {
        "source": old,
        "target": new,
        "files": files,
        "patch": page.text,
        "patch_b64": page.encoded,
        "truncated": page.more,
        "next_offset": page.next_offset,
    }
