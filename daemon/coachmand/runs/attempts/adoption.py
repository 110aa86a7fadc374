"""How a run gets its agent: a fresh attempt, or the one that outlived a daemon.

The flock on an attempt's lock file is the truth about its keeper: held, there is
one, or one is just starting; free, there is none and exit.json says the rest.
"""

import os
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import asdict

from coachman_sandbox.profiles import caps

from ... import durable, keeper
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...ownership import FencedError
from ..control import inbox
from ..control.turns import started
from ..facts import deadlines
from ..keepers.link import KeeperLink
from ..keepers.starting import (
    KeeperError,
    Starting,
    end_keeper,
    keeper_alive,
    read_exit,
    read_state,
)
from ..preparing.launching import launch_record
from ..preparing.policy import agent_request
from ..preparing.prepare import Launch, compile_launch
from ..preparing.shown import is_shown, show_repository
from .attempt import Attempt
from .dialogue import ReplayDivergedError
from .replay import latest_checkpoint

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("run")
KEEPER_START_LIMIT_S = 20.0
RETRY_S = 0.05


class Watcher:
    """Turns what the keeper of an attempt tells into messages for its run."""

    def __init__(self, run: "Run", attempt: int) -> None:
        self._run = run
        self._attempt = attempt

    def output(self, stdout: int, stderr: int) -> None:
        self._run.timing.heard()
        self._run.post(inbox.OutputGrew())

    def network(self, size: int) -> None:
        self._run.post(inbox.NetworkDecided())

    def exited(self, record: dict[str, Any]) -> None:
        self._run.post(inbox.Exited(self._attempt, record))

    def storage(self, error: str | None, number: int | None) -> None:
        if error is None:
            return
        self._run.services.storage.refused(OSError(number, error), "an agent's output")
        if number not in durable.NO_ROOM:
            self._run.post(inbox.StorageRefused(error))

    def gone(self, evicted: bool) -> None:
        # Evicted by ourselves, or by a newer daemon, which the fence will tell.
        if not evicted:
            self._run.post(inbox.KeeperGone())


async def resume(run: "Run") -> None:
    """Bring a run back to where it was; a new one is just queued.

    Of each that was found again the admission hears soon, for the others' places wait for that.
    """
    view, admission = run.view, run.services.admission
    if view.again is not None and view.attempt_over:
        (admission.take if view.state == "preparing" else admission.leave)(run.fixed.run)
        await _wait_again(run)
        return
    if view.state == "queued" or view.credentials is not None:
        if await run.lending.is_there():
            run.queue_for_place()
        return
    if view.goes_on:
        run.attempts.hold()
    (admission.leave if view.state == "parked" else admission.take)(run.fixed.run)
    if view.attempt == 0 or _never_ran(run):
        await _prepare_again(run)
    elif view.attempt_over:
        await _read_again(run)
    else:
        await _adopt(run)


async def _wait_again(run: "Run") -> None:
    """Between two attempts: the keeper of the last one may still know what is to be masked."""
    path = run.directory.attempt(run.view.attempt)
    link = await _reach(run, path)
    if link is not None:
        run.redact(link.mask)
        run.attempts.past = Attempt(run, run.view.attempt, link)
    run.attempts.remember_tree()
    if not await run.lending.is_there():
        return
    if run.view.state == "preparing":
        run.preparation.start()
    else:
        run.attempts.hold()


def _never_ran(run: "Run") -> bool:
    """Whether the last attempt's keeper never came to write that it was there."""
    path = run.directory.attempt(run.view.attempt)
    return not run.view.attempt_over and not keeper_alive(path) and read_state(path) is None


async def _prepare_again(run: "Run") -> None:
    # A stopping run without an agent has nothing more to wait for.
    if run.view.state != "stopping" and await run.lending.is_there():
        run.preparation.start()


# --- a fresh attempt -------------------------------------------------------------


async def begin_keeper(run: "Run") -> Starting:
    """Load the next attempt's keeper. Raises KeeperError.

    One that a killed daemon had loaded leaves as soon as it finds nobody at its stdin.
    """
    number = run.view.attempt + 1
    path = run.directory.attempt(number)
    await trio.to_thread.run_sync(durable.make_directory, path)
    with trio.move_on_after(KEEPER_START_LIMIT_S):
        while keeper_alive(path):  # noqa: ASYNC110 - a lock tells nobody that it is free
            await trio.sleep(RETRY_S)
    starting = await Starting.begin(os.path.join(path, keeper.LOCK_NAME), run.services.python)
    native = run.fixed.walls.native
    bounds = None if native else caps(run.services.boundary.host)
    run.services.scopes.enclose(starting, f"{run.fixed.run}.{number}", bounds, run.spawn)
    return starting


async def start_attempt(run: "Run", prepared: Launch, starting: Starting) -> None:
    """Start the agent: its attempt is on record before its keeper has its own."""
    number = run.view.attempt + 1
    path = run.directory.attempt(number)
    session = run.attempts.acting.session
    resumes = {"resumes": session} if session is not None else {}
    why = run.attempts.why
    asked = {"asked": run.view.asked} if run.view.asked else {}
    members = {"attempt": number, "why": why, **asdict(prepared.site), **resumes, **asked}
    await run.record([Entry(v.ATTEMPT_STARTED, members)])
    reach("attempt.intended")
    due_s = run.fixed.wall.due_boottime_s(run.boot) + deadlines.KEEPER_MARGIN_S
    record = {
        **launch_record(prepared, run.services, path, due_s),
        "output_limit_bytes": run.fixed.output_limit,
    }
    try:
        await starting.launch(record)
    except KeeperError as error:
        await _end_keeper(run, path)
        run.end.fail(str(error))
        return
    reach("attempt.launched")
    link = await _reach(run, path)
    reach("attempt.attached")
    run.attempt = Attempt(run, number, link)
    run.attempt.begin(_conversation(run))
    await run.attempts.let_go()
    await _activate(run, path)
    run.disk.begin()
    reach("attempt.active")
    await first_words(run)
    if link is None:
        await _read_end(run, path)
    else:
        # What was said before we were attached is announced to nobody.
        run.post(inbox.NetworkDecided())
        run.post(inbox.OutputGrew())


async def _activate(run: "Run", path: os.PathLike[str]) -> None:
    """The agent is there: say so, each line once."""
    if run.view.state != "preparing":
        return
    if run.view.started_ms is None:
        launch = run.launch
        members = {
            "policy_digest": launch.policy.digest if launch else run.fixed.policy_digest,
            "agent_version": launch.program.version if launch else None,
            "keeper_pid": (read_state(path) or {}).get("pid"),
        }
        await run.record([Entry(v.RUN_STARTED, members)])
    await run.enter("active")


async def first_words(run: "Run") -> None:
    """Start the dialogue and give it its first prompt, each once in an attempt's life."""
    view = run.view
    if view.turn > view.turn_started:
        # A crash came between the two lines that a turn begins with.
        await run.record([started(run.boot, view.turn, view.prompt)])
    elif view.turn == view.turn_base and not view.cancel_told:
        await run.turns.begin()


def _conversation(run: "Run") -> Any:
    adapter = run.services.adapters[run.fixed.adapter]
    return adapter.converse(agent_request(run.attempts.acting, adapter, run.view.site.subfolder))


# --- an attempt that is there already --------------------------------------------


async def _adopt(run: "Run") -> None:
    number = run.view.attempt
    path = run.directory.attempt(number)
    link = await _reach(run, path)
    if link is not None:
        run.redact(link.mask)
    elif read_state(path) is None:
        # It was just starting, and did not come to it.
        await _prepare_again(run)
        return
    run.attempt = Attempt(run, number, link)
    run.timing.heard_s = await trio.to_thread.run_sync(run.attempt.last_output_s)
    try:
        await _restore(run, run.attempt)
        await (_read_end(run, path) if link is None else _go_on(run, path))
    except ReplayDivergedError as error:
        log.error("replay_diverged", run=run.fixed.run, error=str(error))
        await _end_keeper(run, path)
        run.end.lost("replay_diverged", str(error))


async def _go_on(run: "Run", path: os.PathLike[str]) -> None:
    assert run.attempt is not None
    await _activate(run, path)
    run.disk.begin()
    await _catch_up(run.attempt)
    if run.view.goes_on:
        await run.attempts.close_agent()
    elif run.view.state == "stopping":
        # Where on its ladder it was, nobody knows: the rungs may be taken twice.
        await run.climb()
    else:
        await first_words(run)
    run.post(inbox.NetworkDecided())
    run.post(inbox.OutputGrew())


async def _reach(run: "Run", path: os.PathLike[str]) -> KeeperLink | None:
    """The keeper of an attempt; None where there is none any more. Raises FencedError."""
    with trio.move_on_after(KEEPER_START_LIMIT_S):
        while keeper_alive(path):
            try:
                return await _attach(run, path)
            except KeeperError as error:
                if error.code == "stale_generation":
                    raise FencedError(str(error)) from error
                await trio.sleep(RETRY_S)
    return None


async def _attach(run: "Run", path: os.PathLike[str]) -> KeeperLink:
    watcher = Watcher(run, run.view.attempt)
    link = await KeeperLink.attach(path, run.services.generation, watcher, run.nursery)
    watcher.storage(link.status["storage_error"], link.status["storage_errno"])
    return link


async def _restore(run: "Run", attempt: Attempt) -> None:
    run.launch = await _launch_again(run)
    run.services.logins.lend(run, run.launch)
    checkpoint = await trio.to_thread.run_sync(
        latest_checkpoint, run.directory.path / "attempts", run.journal.size
    )
    await attempt.restore(_conversation(run), checkpoint)


async def _launch_again(run: "Run") -> Launch | None:
    """The sandbox as it was compiled; without it the epilogue is left out, nothing else."""
    services, record = run.services, run.attempts.acting
    adapter = services.adapters[record.adapter]
    plan = adapter.plan(agent_request(record, adapter, run.view.site.subfolder))
    try:
        if is_shown(record) and not await trio.Path(run.directory.git).is_dir():
            # A version that bound the repository itself began the run.
            await show_repository(record, run.directory, services, run.view.site.admin)
        launch, _ = await trio.to_thread.run_sync(
            compile_launch,
            record,
            run.directory,
            services,
            run.environment,
            plan,
            run.view.site,
        )
    except Exception as error:
        log.warning("no_epilogue", run=record.run, error=str(error))
        if plan.epilogue:
            run.end.note(inbox.EpilogueDone(f"its sandbox cannot be made again: {error}"))
        return None
    return launch


async def _catch_up(attempt: Attempt) -> None:
    """Consume all stdout that was there at attach: no new input may come before it."""
    while attempt.behind and await attempt.feed():
        pass
    attempt.dialogue.check_said_again()


async def _read_end(run: "Run", path: os.PathLike[str]) -> None:
    """The keeper is gone: exit.json says how the agent ended, or nobody can."""
    if run.attempt is not None:
        while await run.attempt.feed():
            pass
        run.attempt.dialogue.check_said_again()
    exit = read_exit(path)
    if exit is not None:
        run.post(inbox.Exited(run.view.attempt, exit))
        return
    await _end_keeper(run, path)
    run.end.lost("keeper_lost")


async def _end_keeper(run: "Run", path: os.PathLike[str]) -> None:
    """A killed keeper's sandbox dies with it; whatever lives all the same is ended by its pid."""
    try:
        await trio.to_thread.run_sync(end_keeper, path)
    except KeeperError as error:
        await run.lives_on(path, error)


async def _read_again(run: "Run") -> None:
    """The attempt is over and on record; what is left is to conclude.

    A keeper with values to mask is still there, and tells them.
    """
    link = await _reach(run, run.directory.attempt(run.view.attempt))
    if link is not None:
        run.redact(link.mask)
    run.attempt = Attempt(run, run.view.attempt, link)
    run.attempt.begin(_conversation(run))
    exit = run.view.exit
    if exit is None or "lost" in exit:
        told = {"lost": "keeper_lost"} if exit is None else exit
        run.end.lost(str(told["lost"]), told.get("because"))
    else:
        run.end.conclude_again(exit)


async def find_keeper(run: "Run") -> None:
    """The connection broke while the run lives: take it up again, or read how it ended."""
    if run.attempt is None or run.end.exit is not None:
        return
    path = run.attempt.path
    link = await _reach(run, path)
    if link is not None:
        await run.attempt.rejoin(link)
        run.post(inbox.NetworkDecided())
        run.post(inbox.OutputGrew())
    else:
        await _read_end(run, path)


async def end_broken(run: "Run", why: str) -> None:
    """Carrying the run failed for good: its agent is ended, and what it did is kept."""
    run.services.admission.take(run.fixed.run)
    if run.view.attempt == 0:
        run.end.fail(f"{why.replace('_', ' ')}: see the daemon's log")
        return
    path = run.directory.attempt(run.view.attempt)
    link = await _reach(run, path)
    if link is not None:
        run.redact(link.mask)
    await _end_keeper(run, path)
    run.attempt = Attempt(run, run.view.attempt, None)
    run.attempt.begin(_conversation(run))
    run.end.lost(why)
