"""The methods of the wire about the daemon, and about having a run to oneself."""

from .nouns import Noun, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from . import results

# Ending every run is bounded by the daemon, at 60 s.
STOP_TIMEOUT_S = 90.0
# Each agent is tried in a real sandbox, a few at a time.
DOCTOR_TIMEOUT_S = 180.0


class DaemonMethods(Noun):
    """The daemon itself."""

    def hello(self) -> "results.DaemonHello":
        """Who answers, and the limits it keeps; `connect(name=…)` introduces the caller."""
        answer: results.DaemonHello = self._caller.call("daemon.hello")
        return answer

    def ping(self) -> None:
        """Return as soon as the daemon answers."""
        self._caller.call("daemon.ping")

    def status(self) -> "results.DaemonStatus":
        """Version, load, storage and whether sandboxes work here."""
        answer: results.DaemonStatus = self._caller.call("daemon.status")
        return answer

    def doctor(
        self,
        agent: str | None = None,
        *,
        env: "Mapping[str, str] | None" = None,
        timeout_s: float | None = DOCTOR_TIMEOUT_S,
    ) -> "results.Examination":
        """What would keep runs from working, as the daemon sees it; of one agent, or of all.

        ``env`` is what a run would be lent of the caller's environment (`environment.carried`).
        """
        params = given(agent=agent, env=env)
        answer: results.Examination = self._caller.call(
            "daemon.doctor", params, timeout_s=timeout_s
        )
        return answer

    def shutdown(
        self, mode: str = "detach", *, timeout_s: float | None = None
    ) -> "results.DaemonLeaving":
        """Stop the daemon: ``detach`` leaves runs going, ``drain`` waits, ``stop`` ends them.

        Whatever is not over after ``timeout_s`` goes on without it.
        """
        params = given(mode=mode, timeout_s=timeout_s)
        # Draining lasts as long as the turns do.
        patience = None if mode == "drain" else STOP_TIMEOUT_S
        patience = patience if timeout_s is None else timeout_s + STOP_TIMEOUT_S
        answer: results.DaemonLeaving = self._caller.call(
            "daemon.shutdown", params, timeout_s=patience
        )
        return answer

    def restart(self, mode: str = "detach") -> "results.DaemonRestarting":
        """Let the daemon come back as the build on disk; calls that follow wait for it."""
        answer: results.DaemonRestarting = self._caller.call("daemon.restart", {"mode": mode})
        return answer

    def cleanup(  # noqa: PLR0913 - the method's selectors, each by keyword
        self,
        runs: "Sequence[str] | None" = None,
        *,
        tasks: "Sequence[str] | None" = None,
        older_than_s: float | None = None,
        larger_than: int | None = None,
        outcome: "Sequence[str] | None" = None,
        all: bool | None = None,
        only: str | None = None,
        dry_run: bool | None = None,
        dir: str | None = None,
        timeout_s: float | None = None,
    ) -> "results.Cleanup":
        """Remove what ended runs left; without names or ``all`` only tell what could go."""
        params = given(
            runs=runs,
            tasks=tasks,
            older_than_s=older_than_s,
            larger_than=larger_than,
            outcome=outcome,
            all=all,
            only=only,
            dry_run=dry_run,
            dir=dir,
        )
        answer: results.Cleanup = self._caller.call("daemon.cleanup", params, timeout_s=timeout_s)
        return answer

    def reindex(self, *, timeout_s: float | None = None) -> "results.Reindexed":
        """Make the index of ended runs anew from their directories."""
        answer: results.Reindexed = self._caller.call("daemon.reindex", timeout_s=timeout_s)
        return answer


class LeaseMethods(Noun):
    """A run to oneself: one connection alone may prompt it, until that ends or time is over."""

    def claim(
        self, run: str, ttl_s: float | None = None, *, dir: str | None = None
    ) -> "results.LeaseClaimed":
        """Claim a run for ``ttl_s`` seconds (60), or prolong that; a Conflict names its holder.

        The lease ends with this client's connection, which a restart of the daemon ends as well.
        """
        params = given(run=run, ttl_s=ttl_s, dir=dir)
        answer: results.LeaseClaimed = self._caller.call("lease.claim", params)
        return answer

    def release(self, run: str, *, dir: str | None = None) -> "results.LeaseReleased":
        """Let others prompt the run again."""
        params = given(run=run, dir=dir)
        answer: results.LeaseReleased = self._caller.call("lease.release", params)
        return answer
