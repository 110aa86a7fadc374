"""Whatever a result or an error names as the next command runs as it stands."""

import json
from pathlib import Path
from typing import Any

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess

# A code of coachman itself, which no proposed command may end with; these are about runs.
FIRST_OWN = 64
ABOUT_RUNS = frozenset({75, 124, 130})
# What answers or only looks comes first, what waits behind it, and what ends things last.
ORDER = ("answer", "", "wait", "close", "cancel", "interrupt", "resume", "daemon", "cleanup")


def proposed(document: Any) -> list[list[str]]:
    """Every ``next`` of a document, wherever it stands."""
    if isinstance(document, list):
        return [argv for item in document for argv in proposed(item)]
    if not isinstance(document, dict):
        return []
    own = document.get("next")
    steps = own if isinstance(own, list) else []
    return [
        *steps,
        *(argv for key, item in document.items() if key != "next" for argv in proposed(item)),
    ]


Steps = dict[tuple[str, ...], str]


def collect(daemon: DaemonProcess, repo: Path, words: list[list[str]]) -> Steps:
    """The proposals of these commands, each with the command that made it."""
    found: Steps = {}
    for argv in words:
        done = daemon.cli(*argv, "--json", cwd=repo)
        for step in proposed(json.loads(done.stdout)):
            found.setdefault(tuple(step), " ".join(argv))
    return found


def failing(daemon: DaemonProcess, repo: Path, steps: Steps) -> list[Any]:
    """Those that coachman itself refuses or fails at; to one question one answer is given."""
    failed, answered = [], set()
    for step in sorted(steps, key=lambda argv: (_place(argv[1]), argv)):
        assert step[0] == "coachman", step
        if step[1] == "answer" and step[2] in answered:
            continue
        answered |= {step[2]} if step[1] == "answer" else set()
        done = daemon.cli(*step[1:], cwd=repo)
        if done.returncode >= FIRST_OWN and done.returncode not in ABOUT_RUNS:
            failed.append((steps[step], step, done.returncode, done.stderr))
    return failed


def _place(verb: str) -> int:
    return ORDER.index(verb if verb in ORDER else "")


def test_what_is_proposed_runs(daemon: DaemonProcess, repo: Path) -> None:
    """Of runs that ended, ask and are parked; of refusals of every kind that a user meets."""
    ended = at.start(daemon, repo, "say one", task="t0")
    failed = at.start(daemon, repo, "fail it broke", task="t4")
    at.result(daemon, ended)
    at.result(daemon, failed)
    parked = live.keep(daemon, repo, task="t1")
    live.until_parked(daemon, parked)
    asks = at.start(daemon, repo, "ask one\nsleep 1", task="t2", permissions="ask")
    at.until_asked(daemon, asks)
    steps = collect(
        daemon,
        repo,
        [
            ["wait", ended, failed],
            ["wait", parked, "--until", "turn"],
            ["wait", asks, "--until", "attention"],
            ["result", failed],
            ["result", asks],
            ["result", parked],
            ["show", "nothing-like-that"],
            ["run", "-a", "demo", "-t", "t1", "x"],
            ["run", "-a", "nobody", "x"],
            ["resume", parked, "x"],
            ["resume", ended, "x", "-m", "echo-large"],
            ["interrupt", ended],
            ["prompt", asks, "x"],
            ["answer", ended, "allow"],
            ["diff", "nothing-like-that"],
            ["nonsense"],
            [],
            ["run", "-a", "demo", "--keep", "-d", "-t", "t3", "say hi"],
        ],
    )
    verbs = {step[1] for step in steps}

    assert failing(daemon, repo, steps) == []
    assert {"result", "diff", "close", "answer", "wait", "cancel", "show"} <= verbs


def test_what_is_proposed_without_a_daemon_runs(daemon: DaemonProcess, repo: Path) -> None:
    """It leads to one that answers."""
    daemon.kill()
    steps = collect(daemon, repo, [["status"], ["wait", "x"], ["daemon", "logs"]])

    assert ("coachman", "daemon", "start") in steps
    assert failing(daemon, repo, {("coachman", "daemon", "start"): "status"}) == []
    assert daemon.cli("status").returncode == 0
    assert daemon.cli("daemon", "stop").returncode == 0
