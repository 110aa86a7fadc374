"""Whoever comes to the daemon and goes again leaves nothing in it; the storm is in soak."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import daemon_samples as samples
import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess
from run_storm import RunStorm, hangs_up, looks, stands_still

VISITS = (hangs_up, looks, stands_still) * 3
# Longer than an idle worker thread stays.
WITHIN_S = 60.0


def test_what_clients_made_the_daemon_keep_goes_with_them(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Hung up in the middle or read to the end: no task, descriptor or thread is left of them."""
    at.result(daemon, at.start(daemon, repo, "chunks 2000\nsay hi"))
    storm = RunStorm(daemon, [repo], 0, veteran=live.keep(daemon, repo))
    live.until_parked(daemon, storm.veteran)
    before = samples.take(daemon)
    visits = [
        threading.Thread(target=visit, args=(storm, random.Random(number)))
        for number, visit in enumerate(VISITS)
    ]
    for thread in visits:
        thread.start()
    for thread in visits:
        thread.join()

    assert eventually(lambda: samples.left_over(before, samples.take(daemon)) == [], WITHIN_S)


def test_nothing_is_left_of_a_daemon_that_came_back_in_place(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The third one has the descriptors, threads and children of the first, and no more."""
    run = live.keep(daemon, repo)
    looks_at: list[samples.Sample] = []
    for _ in range(3):
        with daemon.client() as client:
            client.run.prompt(run, "chunks 20")
        daemon.restart_in_place()
        live.until_parked(daemon, run)
        with daemon.client() as client:
            client.run.prompt(run, "say again")
        live.until_parked(daemon, run)
        looks_at.append(samples.take(daemon))
    first, *_, last = looks_at

    assert last.instance != first.instance
    assert eventually(lambda: samples.left_over(first, samples.take(daemon)) == [], WITHIN_S)


def test_a_growing_number_is_told_from_one_that_goes_up_and_down() -> None:
    """A leak is found among numbers that vary, and what varies alone is none."""
    chance = random.Random(3)
    steady = [_sample(at_s, 90 + chance.uniform(-15, 15)) for at_s in range(0, 600, 15)]
    leaking = [_sample(s.at_s, s.descriptors + s.at_s / 20) for s in steady]

    assert samples.grown(steady, 60) == []
    assert [text.split()[0] for text in samples.grown(leaking, 60)] == ["descriptors"]


def _sample(at_s: float, descriptors: float) -> samples.Sample:
    return samples.Sample(
        at_s=at_s,
        instance="one",
        living=16,
        rss_mib=60.0,
        pss_mib=50.0,
        private_mib=48.0,
        descriptors=descriptors,
        sockets=30,
        threads=10,
        loop_tasks=100,
        children=4,
        workers_mib=70.0,
        keepers=16,
        keeper_mib=5.0,
        journal_kib=20.0,
    )
