"""The command hook: a program of the user's answers, and fails without harm."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import coachman
from coachmand.failpoints import VARIABLE
from daemon_process import DaemonProcess
from permission_desk import (
    WRITE,
    Eventually,
    configured,
    ended,
    passed,
    program,
    resolved,
    start,
    waiting,
)


def allowing(daemon: DaemonProcess) -> Path:
    """A hook that notes what it is told, and of whom it is, and allows."""
    return program(
        daemon.root / "hook",
        f"cat >>{daemon.root}/told; ls /proc/self/fd >{daemon.root}/fds; env >{daemon.root}/env\n"
        'echo \'{"kind": "allow", "message": "go on"}\'',
    )


def test_a_hook_answers_and_is_named(daemon: DaemonProcess, repo: Path) -> None:
    """It gets the question on its stdin, little of the environment, none of our descriptors."""
    hook = allowing(daemon)
    run = start(daemon, repo, WRITE, permission_handler=f"command:{hook}")
    result = ended(daemon, run)
    [settled] = resolved(daemon, run)
    told = json.loads((daemon.root / "told").read_text())
    env = dict(line.split("=", 1) for line in (daemon.root / "env").read_text().splitlines())
    descriptors = set((daemon.root / "fds").read_text().split())

    assert settled["by"] == {"resolver": "hook", "path": str(hook)}
    assert (settled["kind"], settled["message"]) == ("allow_once", "go on")
    assert (told["run"], told["tool"]["kind"]) == (run, "edit")
    assert [changed["path"] for changed in result["changed_files"]] == ["x.txt"]
    assert env["COACHMAN_RUN"] == run
    assert set(env) <= {
        "PATH",
        "HOME",
        "LANG",
        "PWD",
        "SHLVL",
        "_",
        "COACHMAN_RUN",
        "COACHMAN_REQUEST",
    }
    # Its own three, the one it was started by, and that of ls.
    assert len(descriptors) <= 6


FAILURES = [
    ("exit 3", "it ended with status 3"),
    ("echo no >&2; exit 1", "it ended with status 1: no"),
    ("echo '{'", "it is no JSON"),
    ('echo \'{"kind": "never"}\'', "no option has kind"),
    ("head -c 100000 /dev/zero", "it answered more than 64 KiB"),
    ("true", "it left the question to others"),
    ('echo \'{"kind": "ask"}\'', "it left the question to others"),
    ('echo \'{"request": "p9", "kind": "allow"}\'', "about `request` 'p9'"),
    ("kill -9 $$", "it ended with status -9"),
]


def test_a_hook_that_fails_leaves_the_question_to_the_next(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Whatever it does wrong is recorded; a person, else the deadline, decides."""
    for number, (text, why) in enumerate(FAILURES):
        hook = program(daemon.root / f"hook{number}", text)
        run = start(daemon, repo, WRITE, permission_handler=f"command:{hook}", task=f"t{number}")
        asked = waiting(daemon, run)
        eventually(lambda: passed(daemon, run))  # noqa: B023
        with daemon.client() as client:
            [row] = client.permission.list(run)["permissions"]
            client.permission.answer(asked["request"], run=run, kind="deny")
        ended(daemon, run)

        [(resolver, reason)] = passed(daemon, run)
        assert resolver == "hook"
        assert why in reason
        assert row["passed"][0]["reason"] == reason
        assert [e["by"]["resolver"] for e in resolved(daemon, run)] == ["client"]


def test_nobody_is_left_but_the_deadline(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """A hook that never answers is ended with its question; the deadline denies."""
    hook = program(daemon.root / "hook", f"echo $$ >{daemon.root}/pid; sleep 600")
    run = start(
        daemon,
        repo,
        WRITE,
        permission_handler=f"command:{hook}",
        timeouts={"permission_s": 1},
    )
    ended(daemon, run)
    pid = int((daemon.root / "pid").read_text())

    assert [e["by"]["resolver"] for e in resolved(daemon, run)] == ["deadline"]
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_a_hook_is_run_again_by_the_next_daemon(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Killed while a hook thinks, the next daemon asks it anew."""
    hook = program(
        daemon.root / "hook",
        f"[ -e {daemon.root}/once ] || {{ : >{daemon.root}/once; exec sleep 20; }}\n"
        'echo \'{"kind": "allow"}\'',
    )
    run = start(daemon, repo, WRITE, permission_handler=f"command:{hook}")
    eventually((daemon.root / "once").exists)
    daemon.restart()
    ended(daemon, run)

    assert [e["by"]["resolver"] for e in resolved(daemon, run)] == ["hook"]


def test_a_daemon_that_dies_with_an_answer_in_hand_asks_once_more(
    state_dir: Path, repo: Path
) -> None:
    """Killed when the hook has answered and nobody knows yet, the next asks it, once."""
    daemon = DaemonProcess(state_dir, {VARIABLE: "permission.hooked:kill"}).start()
    try:
        hook = program(
            state_dir / "hook", f'echo x >>{state_dir}/asked; echo \'{{"kind": "allow"}}\''
        )
        run = start(daemon, repo, WRITE, permission_handler=f"command:{hook}")
        assert daemon.process is not None
        daemon.process.wait(60)
        assert resolved(daemon, run) == []
        del daemon.env[VARIABLE]
        daemon.start()
        result = ended(daemon, run)

        assert [changed["path"] for changed in result["changed_files"]] == ["x.txt"]
        assert [e["by"]["resolver"] for e in resolved(daemon, run)] == ["hook"]
        assert (state_dir / "asked").read_text() == "x\nx\n"
    finally:
        daemon.tidy()


def test_what_was_opened_is_what_runs(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Replaced at its path, the old one runs on; changed in place, or for a new daemon, none."""
    hook = allowing(daemon)
    prompt = "sleep 1\nwrite a.txt text\nask again\nsay done"
    run = start(daemon, repo, prompt, permission_handler=f"command:{hook}", task="a")
    other = program(daemon.root / "other", 'echo \'{"kind": "deny"}\'')
    other.rename(hook)
    ended(daemon, run)
    assert [e["kind"] for e in resolved(daemon, run)] == ["allow_once", "allow_once"]

    run = start(
        daemon, repo, "sleep 1\nwrite b text", permission_handler=f"command:{hook}", task="b"
    )
    hook.write_text('#!/bin/sh\necho \'{"kind": "allow"}\'\n')
    waiting(daemon, run)
    eventually(lambda: passed(daemon, run))
    assert passed(daemon, run)[0][1] == "was changed since it was opened"
    daemon.restart()
    eventually(lambda: len(passed(daemon, run)) > 1)
    assert "is not the program any more" in passed(daemon, run)[1][1]
    with daemon.client() as client:
        client.run.cancel([run])
    ended(daemon, run)


def test_only_a_program_of_the_users_own_is_run(daemon: DaemonProcess, repo: Path) -> None:
    """It must not be writable by others, nor lie where agents write, nor be anything else."""
    hook = program(daemon.root / "hook", "true")
    cases = [
        (program(daemon.root / "shared", "true", 0o722), "written by others"),
        (program(daemon.root / "plain", "true", 0o600), "is no executable file"),
        (program(repo / "hook", "true"), "which agents reach"),
        (program(daemon.state / "hook", "true"), "which agents reach"),
        (daemon.root / "missing", "cannot be opened"),
        (daemon.root, "is no executable file"),
    ]
    if os.geteuid() == 0:
        others = program(daemon.root / "others", "true")
        os.chown(others, 12345, 12345)
        cases.append((others, "belongs to another user"))
    for path, why in cases:
        with pytest.raises(coachman.CoachmanError, match=why) as refused:
            start(daemon, repo, WRITE, permission_handler=f"command:{path}")
        assert refused.value.name == "Denied"
    with pytest.raises(coachman.CoachmanError, match="each absolute"):
        start(daemon, repo, WRITE, permission_handler="command:hook")
    assert hook.exists()


def test_a_configured_hook_is_for_runs_that_ask(state_dir: Path, repo: Path) -> None:
    """Configured it answers what mode and rules leave open; a request may do without."""
    hook = program(state_dir / "hook", 'echo \'{"kind": "deny"}\'')
    with configured(state_dir, f'permission_handler = "command:{hook}"\n') as daemon:
        asked = start(daemon, repo, WRITE, permissions="ask", task="a")
        free = start(daemon, repo, WRITE, task="b")
        ended(daemon, asked)
        ended(daemon, free)
        without: dict[str, Any] = {"permissions": "ask", "permission_handler": "none"}
        run = start(daemon, repo, WRITE, timeouts={"permission_s": 1}, task="c", **without)
        ended(daemon, run)
        found = [resolved(daemon, each)[0]["by"]["resolver"] for each in (asked, free, run)]

    assert found == ["hook", "policy", "deadline"]


def test_how_long_a_hook_may_take_is_configured(
    state_dir: Path, repo: Path, eventually: Eventually
) -> None:
    """`timeouts.hook`: one that takes longer is ended, and the question left to the others."""
    hook = program(state_dir / "hook", "exec sleep 600")
    with configured(state_dir, '[timeouts]\nhook = "1s"\n') as daemon:
        run = start(daemon, repo, WRITE, permission_handler=f"command:{hook}")
        eventually(lambda: passed(daemon, run))
        [(resolver, reason)] = passed(daemon, run)
        with daemon.client() as client:
            client.run.cancel([run])
        ended(daemon, run)

    assert (resolver, reason) == ("hook", "it took longer than 1 s")


def test_a_run_tells_who_decides_for_it(daemon: DaemonProcess, repo: Path) -> None:
    """Its rules, its handler and the program that is fed its events stand in `show`."""
    hook = program(daemon.root / "hook", 'echo \'{"kind": "deny"}\'')
    reader = program(daemon.root / "reader", "cat >/dev/null")
    words = ("--rule", "allow execute git log *", "--rule", "deny edit *.lock")
    handler = ("--permission-handler", f"command:{hook}", "--on-event", str(reader))
    done = daemon.cli("run", "-a", "demo", *words, *handler, "say hi", cwd=repo)
    shown = daemon.cli("show", "@", cwd=repo).stdout

    assert done.returncode == 0, done.stderr
    assert "rules        allow execute git log * (request)\n" in shown
    assert "             deny edit *.lock (request)\n" in shown
    assert f"handler      command:{hook} (request)\n" in shown
    assert f"fed to       {reader}\n" in shown
