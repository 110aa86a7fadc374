"""From queued to active: a run's worktree, home and keeper, made side by side."""

from typing import TYPE_CHECKING

import trio

from ...failpoints import reach
from ...rpc.errors import RpcError
from ..control import inbox
from ..keepers.starting import KeeperError, Starting
from ..preparing.prepare import prepare
from . import adoption
from .setup import set_up

if TYPE_CHECKING:
    from ..run import Run


class Preparation:
    """Puts in place what an agent needs, and starts it there unless the run was stopped."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Preparation of {self._run.fixed.handle}>"

    def start(self) -> None:
        """Begin; a message tells the run when everything is there."""
        self._scope = trio.CancelScope()
        self._run.spawn(self._prepare)

    def stop(self) -> None:
        """Leave off."""
        self._scope.cancel()

    async def _prepare(self) -> None:
        run = self._run
        starting: Starting | None = None
        try:
            with self._scope:
                # Its interpreter loads while the worktree is made.
                starting = await adoption.begin_keeper(run)
                reach("prepare.loaded")
                await run.services.logins.ready(run)
                launch = await prepare(
                    run.attempts.acting,
                    run.directory,
                    run.services,
                    run.environment,
                    run.view.site.start,
                    run.view.attempt + 1,
                )
                # What it was lent is known before anything is told of it.
                run.redact(launch.mask)
                launch = await set_up(run, launch)
                reach("prepare.placed")
                run.post(inbox.Prepared(launch, starting))
                starting = None
        except (RpcError, KeeperError) as error:
            run.post(inbox.Failed(str(error)))
        finally:
            if starting is not None:
                await starting.abandon()

    async def take(self, message: inbox.Prepared | inbox.SettingUp) -> None:
        """Everything is in place, or something on the way there is to be on record."""
        match message:
            case inbox.SettingUp(told=told):
                await self._run.record([told])
            case inbox.Prepared():
                await self._over(message)

    async def _over(self, made: inbox.Prepared) -> None:
        self._run.launch = made.launch
        if self._run.view.state == "preparing":
            self._run.services.logins.lend(self._run, made.launch)
            await adoption.start_attempt(self._run, made.launch, made.starting)
        else:
            await made.starting.abandon()
