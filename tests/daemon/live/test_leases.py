"""A run to oneself: who may prompt it, and how that ends."""

from collections.abc import Callable
from pathlib import Path

import coachman
import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess


def parked(daemon: DaemonProcess, repo: Path) -> str:
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    return run


def test_only_the_holder_prompts_a_run(daemon: DaemonProcess, repo: Path) -> None:
    """Others are told who has it and for how long; they may look, and they may cancel."""
    run = parked(daemon, repo)
    with daemon.client() as holder, daemon.client() as other:
        holder.name = "leader"
        holder.close()
        claimed = holder.lease.claim(run, 60)
        again = holder.lease.claim(run, 60)
        refused = [
            live.refused(other.run.prompt, run, "say two"),
            live.refused(other.run.interrupt, run, prompt="say two"),
            live.refused(other.run.close, [run]),
            live.refused(other.lease.claim, run),
            live.refused(other.lease.release, run),
        ]
        holder.run.prompt(run, "say mine")
        live.until_said(daemon, run, "mine")
        seen = other.run.get(run)["run"]
        other.run.cancel([run])
        other.run.wait([run], timeout_s=30)

    assert (claimed["new"], again["new"]) == (True, False)
    assert {error.name for error in refused} == {"Conflict"}
    assert all("leader, pid" in error.message for error in refused)
    assert all(error.detail["by"]["client"] == "leader" for error in refused)
    assert all(0 < (error.retry_after_s or 0) <= 60 for error in refused)
    assert all(daemon.cli(*argv[1:], cwd=repo).returncode == 0 for e in refused for argv in e.next)
    assert seen == run
    assert at.result(daemon, run)["outcome"] == "cancelled"


def test_a_lease_ends_with_its_time_and_when_it_is_given_back(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Nobody waits for one that forgot it; to give back what one has not is no error."""
    run = parked(daemon, repo)
    with daemon.client() as holder, daemon.client() as other:
        holder.lease.claim(run, 0.2)
        eventually(lambda: _claims(other, run))
        other.run.prompt(run, "say two")
        given = [other.lease.release(run)["released"] for _ in range(2)]
        third = holder.lease.claim(run, 60)["new"]
        long = live.refused(holder.lease.claim, run, 100_000)

    assert given == [True, False]
    assert third
    assert long.name == "InvalidParams"


def _claims(client: coachman.Client, run: str) -> bool:
    """Whether the run can be had by now."""
    try:
        client.lease.claim(run, 60)
    except coachman.CoachmanError as error:
        if error.name != "Conflict":
            raise
        return False
    return True


def test_a_lease_ends_with_its_connection(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """A client that goes away, or is killed, keeps nobody out."""
    run = parked(daemon, repo)
    with daemon.client() as other:
        with daemon.client() as holder:
            holder.lease.claim(run, 3600)
            refused = live.refused(other.run.prompt, run, "say two")
        eventually(lambda: _claims(other, run))

    assert refused.name == "Conflict"


def test_only_what_lives_can_be_claimed(daemon: DaemonProcess, repo: Path) -> None:
    """A run that has ended takes no prompts: it is resumed, as a run of its own."""
    run = at.start(daemon, repo, "say one")
    at.result(daemon, run)
    with daemon.client() as client:
        refused = live.refused(client.lease.claim, run)

    assert (refused.name, refused.detail) == ("Conflict", {"state": "ended"})
