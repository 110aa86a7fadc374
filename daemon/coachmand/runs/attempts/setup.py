"""What a new worktree is given before an agent works in it: files of the user's, and a command.

The command runs in the run's own boundary, in a keeper of its own. A worktree is set up once;
where that failed or was interrupted, the task's next run that may write there does it again.
"""

from typing import TYPE_CHECKING

import trio
from attrs import evolve

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...repos.errors import RepoError
from ...rpc.errors import RpcError
from ..control import inbox, noting
from ..facts.clock import boottime_s
from ..facts.deadlines import KEEPER_MARGIN_S
from ..keepers.starting import KeeperError, end_keeper
from ..preparing.prepare import Launch
from ..preparing.worktree import admin_dir
from ..tasks import TaskStore
from . import beside

if TYPE_CHECKING:
    from ..run import Run

SETUP_LIMIT_S = 1800.0
SHOWN_CHARACTERS = 400


async def set_up(run: "Run", launch: Launch) -> Launch:
    """Set the run's worktree up if that is still to be done. Raises RpcError.

    What is there afterwards is what the run starts from: none of it is its agent's work.
    """
    record, store = run.fixed, TaskStore(run.services.state)
    if not record.writes or not (record.setup or record.copy):
        return launch
    task = await trio.to_thread.run_sync(store.get, record.repository.key, record.task)
    if task is None or not task.bare:
        return launch
    try:
        repo = record.repository
        if record.copy:
            await run.services.workers.copy_files(
                repo.toplevel, record.copy, record.worktree, key=repo.common_dir
            )
        if record.setup:
            await _carry_out(run, evolve(launch, command=beside.shell("setup", record.setup)))
        snapshot = await run.services.workers.snapshot(
            record.repository.common_dir,
            admin_dir(record, launch.site.admin),
            record.worktree,
            ref=None,
            parents=(launch.site.start or record.repository.base,),
            message=f"coachman: set up before run {record.run}",
        )
    except (RepoError, KeeperError, OSError, ValueError) as error:
        raise RpcError("AgentFailed", f"cannot set the worktree up: {error}") from error
    await trio.to_thread.run_sync(store.set_bare, record.repository.key, record.task, False)
    return evolve(launch, site=evolve(launch.site, start=snapshot.commit))


async def _carry_out(run: "Run", planned: Launch) -> None:
    """Run the command to its end, or find the one that a killed daemon had begun."""
    path = run.directory.attempt(run.view.attempt + 1) / "setup"
    try:
        if not await trio.Path(path).exists():
            run.post(inbox.SettingUp(Entry(v.SETUP_STARTED, {"command": run.fixed.setup})))
            wall_s = run.fixed.wall.due_boottime_s(run.boot) + KEEPER_MARGIN_S
            await beside.start(
                run.services, planned, path, min(wall_s, boottime_s() + SETUP_LIMIT_S)
            )
        await beside.until_over(run, path)
    except trio.Cancelled:
        # A daemon that leaves lets it go on; a run that was stopped does not.
        if run.view.state == "stopping":
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(end_keeper, path)
        raise
    # A setup that fails for want of a host is told with the reason, though no agent ever starts.
    for told in await noting.new_in(run, path):
        run.post(inbox.SettingUp(told))
    ended = await trio.to_thread.run_sync(beside.record_of, path, "setup", None)
    run.post(inbox.SettingUp(Entry(v.SETUP_ENDED, ended)))
    if ended["exit"] != 0:
        why = ended.get("error") or _status(ended["exit"], ended["signal"])
        said = ended["output"].strip()[-SHOWN_CHARACTERS:]
        raise ValueError(f"`{run.fixed.setup}` {why}" + (f": {said}" if said else ""))


def _status(code: int | None, signal: int | None) -> str:
    return f"was ended by signal {signal}" if code is None else f"ended with status {code}"
