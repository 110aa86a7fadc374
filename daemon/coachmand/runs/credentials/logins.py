"""The logins that runs were lent, and that each of them is renewed in time, once.

One renewal of a login at a time, whoever wants it: the first run that starts close to its end, or
the clock while runs live that have it. Others wait, and find it done. What is renewed is handed
on to every run that has the login, before its agent would have to renew it and could not.
"""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio
from attrs import define, field, frozen

from coachman_adapters import logins
from coachman_adapters.conversation import Adapter
from coachman_adapters.logins import LoginError

from ...evidence import userlogin
from ...evidence.seeds import write_seed
from ..control import inbox
from ..facts.places import places_of
from ..intake.adopted import source_of
from ..locks import Locks
from . import renewal
from .renewal import REFUSED, RENEWED, Means, Outcome, Own

if TYPE_CHECKING:
    from ..preparing.prepare import Launch
    from ..run import Run
    from ..services import Services

log = structlog.get_logger("logins")
# Agents renew theirs five minutes before its end; by then they have a new one.
EARLY_S = 600.0
# One that failed is not tried again before, and each time that it fails again twice as long.
AGAIN_S, AGAIN_MOST_S = 60.0, 3600.0
# The clock of the day may be set, and a machine may sleep.
LOOK_S = 60.0


@define
class _Lent:
    """A login in a run's home. ``access``: digests of the access tokens that it was given."""

    run: "Run"
    own: Own
    home: Path
    access: set[str] = field(factory=set)


@frozen
class _Failure:
    """A renewal that did not work out, of the refresh token of that digest: ``wait_s`` from then
    on it is not tried.
    """

    token: str
    wait_s: float
    again_s: float


class Logins:
    """What runs have of the user's logins; `keep` sees that it serves."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._lent: list[_Lent] = []
        self._alone = Locks()
        self._failed: dict[str, _Failure] = {}
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<Logins, {len(self._lent)} lent>"

    # --- what runs do ---

    async def ready(self, run: "Run") -> None:
        """See that what the run is about to be lent serves for a while, as far as that can be."""
        for own in _owned(run, self._services.adapters[run.fixed.adapter]):
            await self._look_after(own, run)

    def lend(self, run: "Run", launch: "Launch | None") -> None:
        """The run has its home, with the logins that were there when it was made."""
        if launch is None or run.fixed.walls.native:
            return
        places = places_of(run.fixed, self._services.state)
        home = places.home(run.fixed.agent, launch.policy.digest)
        owned = _owned(run, self._services.adapters[run.fixed.adapter])
        known = {userlogin.digest(value) for value in run.secrets}
        self.forget(run)
        self._lent += [_Lent(run, own, home, set(known)) for own in owned]
        self._changed.set()

    def forget(self, run: "Run") -> None:
        """The run needs nothing any more."""
        self._lent = [each for each in self._lent if each.run is not run]

    # --- what is done about it ---

    async def keep(self) -> None:
        """Renew in time what living runs have, for as long as this daemon lives."""
        await self._finish_what_was_begun()
        while True:
            self._changed = trio.Event()
            for own in {each.own.key: each.own for each in self._lent}.values():
                await self._look_after(own)
            with trio.move_on_after(min(LOOK_S, await self._due_in_s())):
                await self._changed.wait()

    async def _due_in_s(self) -> float:
        """How long nothing is to be done."""
        due_s = math.inf
        for own in {each.own.key: each.own for each in self._lent}.values():
            tokens = await _tokens(own)
            if tokens is not None:
                failed = self._failed.get(own.key)
                in_s = tokens.expires_s - EARLY_S - time.time()
                due_s = min(due_s, max(in_s, failed.again_s - trio.current_time() if failed else 0))
        return max(0.05, due_s)

    async def _look_after(self, own: Own, asks: "Run | None" = None) -> None:
        try:
            async with self._alone.held(own.path):
                outcome = await self._renewed(own, asks)
                if outcome is not None:
                    self._tell(own, outcome, asks)
                await self._hand_on(own)
        except renewal.FAULTS as error:
            self._tell(own, Outcome(REFUSED, str(error)), asks)

    async def _renewed(self, own: Own, asks: "Run | None") -> Outcome | None:
        """Renew it if it is time to; None where it was not."""
        directory = renewal.directory_of(self._services, own)
        begun = await trio.to_thread.run_sync(renewal.is_begun, directory)
        if not begun and not await self._is_due(own):
            return None
        async with userlogin.alone(own.path):
            if begun:
                await renewal.finish(own, self._services)
            # Another daemon, or the user, may have been faster.
            tokens = await _tokens(own)
            content = await trio.to_thread.run_sync(renewal.content_of, own.path)
            means = self._means(own, asks)
            if tokens is None or content is None or means is None or not await self._is_due(own):
                return None
            try:
                await renewal.begin(own, content, means, self._services)
                outcome = await renewal.finish(own, self._services)
            except renewal.FAULTS as error:
                outcome = Outcome(REFUSED, str(error))
        if outcome.kind == REFUSED:
            self._note_failure(own, userlogin.digest(tokens.refresh))
        return outcome

    def _note_failure(self, own: Own, token: str) -> None:
        before = self._failed.get(own.key)
        again = before is not None and before.token == token
        wait_s = min(2 * before.wait_s, AGAIN_MOST_S) if before and again else AGAIN_S
        self._failed[own.key] = _Failure(token, wait_s, trio.current_time() + wait_s)

    async def _is_due(self, own: Own) -> bool:
        tokens = await _tokens(own)
        if tokens is None or tokens.expires_s - time.time() > EARLY_S:
            return False
        failed = self._failed.get(own.key)
        if failed is None or failed.token != userlogin.digest(tokens.refresh):
            return True
        return failed.again_s <= trio.current_time()

    def _means(self, own: Own, asks: "Run | None") -> Means | None:
        """With whose variables it is renewed: those of a run that has it, or is about to."""
        runs = [asks] if asks is not None else [e.run for e in self._lent if e.own == own]
        if not runs:
            return None
        fixed = runs[0].fixed
        return Means(fixed.agent, fixed.adapter, runs[0].environment, fixed.repository.roots)

    async def _hand_on(self, own: Own) -> None:
        """Give each run that has it the access token that serves now."""
        content = await trio.to_thread.run_sync(renewal.content_of, own.path)
        tokens = await _tokens(own)
        if content is None or tokens is None:
            return
        named = userlogin.digest(tokens.access)
        given = logins.all_lent(own.files.logins, own.login.path, content)
        for each in [each for each in self._lent if each.own == own and named not in each.access]:
            each.access.add(named)
            # Known before it can be said.
            each.run.post(inbox.LoginRenewed((tokens.access, tokens.refresh)))
            try:
                await trio.to_thread.run_sync(write_seed, each.home, own.inside, given)
            except OSError as error:
                self._say(each.run, own, f"could not be handed on to it: {error}")

    def _tell(self, own: Own, outcome: Outcome, asks: "Run | None") -> None:
        log.info("login", path=own.path, outcome=outcome.kind, why=outcome.why)
        if outcome.kind == RENEWED:
            self._failed.pop(own.key, None)
            return
        verb = "was not renewed" if outcome.kind == REFUSED else "was renewed in vain"
        concerned = {id(each.run): each.run for each in self._lent if each.own == own}
        if asks is not None:
            concerned[id(asks)] = asks
        for run in concerned.values():
            self._say(run, own, f"{verb}: {outcome.why}")

    @staticmethod
    def _say(run: "Run", own: Own, what: str) -> None:
        run.post(inbox.LoginTold(f"the login in {own.path} {what}"))

    async def _finish_what_was_begun(self) -> None:
        """What a killed daemon was at: a token that came may be the only one that serves."""
        for directory in await trio.to_thread.run_sync(_begun, self._services.state.logins):
            try:
                told = await trio.to_thread.run_sync(renewal.record_of, directory)
                own = _own_of(told, self._services.adapters[told["adapter"]])
                async with self._alone.held(own.path), userlogin.alone(own.path):
                    outcome = await renewal.finish(own, self._services)
                log.info("login_finished", path=own.path, outcome=outcome.kind, why=outcome.why)
            except (*renewal.FAULTS, KeyError) as error:
                log.warning("login_unfinished", directory=str(directory), error=str(error))


def _owned(run: "Run", adapter: Adapter) -> Iterator[Own]:
    """The user's logins that the run is lent, and needs."""
    if run.fixed.walls.native:
        return
    for files in adapter.spec.user_files:
        for login in files.logins:
            is_used = not any(run.environment.get(name) for name in login.instead)
            if login.renewal is None or not is_used:
                continue
            path = os.path.join(source_of(files, run.environment), login.path)
            # A link to it is the user's way to keep it elsewhere.
            yield Own(os.path.realpath(path), files, login)


def _own_of(told: dict[str, str], adapter: Adapter) -> Own:
    """What an unfinished renewal is of. Raises KeyError where no agent knows it any more."""
    for files in adapter.spec.user_files:
        for login in files.logins:
            if (login.path, login.provider) == (told["login"], told["provider"]):
                return Own(told["path"], files, login)
    raise KeyError(told["login"])


def _begun(path: Path) -> list[Path]:
    try:
        return [each for each in path.iterdir() if renewal.is_begun(each)]
    except FileNotFoundError:
        return []


async def _tokens(own: Own) -> logins.Tokens | None:
    """What the user's file has now; None for no such login. One that never ends is left alone."""
    content = await trio.to_thread.run_sync(renewal.content_of, own.path)
    try:
        return None if content is None else logins.read(own.login, content)
    except LoginError:
        return None
