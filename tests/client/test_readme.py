"""The README's one-liners do what they say, exactly as they stand there."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import sourcetree
from daemon_process import BIN, DaemonProcess

LIMIT_S = 180


def commands() -> str:
    """The section's block as a script."""
    awk = ["awk", "-v", "section=From anything else", "-f", "scripts/readme-commands.awk"]
    done = subprocess.run(
        [*awk, "README.md"], cwd=sourcetree.ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_one_liners_answer_a_question_and_follow_the_run(
    daemon: DaemonProcess, repo: Path, tool: Callable[[str], str]
) -> None:
    """nc and jq show the run that asks, allow what it asks, and print its events to the last."""
    assert "nc -N -U" in commands()
    assert tool("nc")
    assert tool("jq")
    with daemon.client() as client:
        prompt = "write hello.txt hello\nsay done"
        run = client.run.start(
            prompt, agent="demo", dir=str(repo), task="greeting", permissions="ask"
        )
        client.run.wait([run["run"]], until="attention", timeout_s=LIMIT_S)
    done = subprocess.run(
        ["sh", "-eu"],
        input=commands(),
        cwd=repo,
        env={**daemon.env, "PATH": f"{BIN}:{daemon.env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    started, runs, listed, answered, *events = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert started.startswith("the daemon runs already")
    assert json.loads(runs)["waiting"] == 1
    assert listed.split("\t") == [run["handle"], "waiting", "Edit hello.txt?"]
    assert json.loads(answered)["result"]["kind"] == "allow_once"
    assert [int(line.split()[0]) for line in events] == list(range(1, len(events) + 1))
    assert events[-1].split() == [str(len(events)), "run.ended"]


def test_the_one_liners_say_that_there_is_no_daemon_and_leave_the_shell_as_it_was(
    state_dir: Path, tool: Callable[[str], str]
) -> None:
    """Where none can be started every line says so, and later commands see no new variable."""
    (state_dir / "config.toml").write_text("nonsense = 1\n")
    absent = DaemonProcess(state_dir)
    environment = {**absent.env, "COACHMAN_CONFIG": str(state_dir / "config.toml")}
    assert tool("nc")
    done = subprocess.run(
        ["sh"],
        input=commands() + 'echo "socket ${COACHMAN_SOCKET-}"\n',
        cwd=state_dir,
        env={**environment, "PATH": f"{BIN}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert done.stdout == "socket \n"
    assert "unknown key `nonsense`" in done.stderr
    assert "no daemon" in done.stderr
    assert "null" not in done.stderr
