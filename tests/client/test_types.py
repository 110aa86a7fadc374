"""The library is typed: a caller's mistakes are found before they run."""

import subprocess
import sys
from pathlib import Path

from client_daemon import ROOT

RIGHT = """
import coachman
from coachman.results import RunResult

def work() -> RunResult:
    with coachman.connect(autostart=True, timeout=5) as client:
        started = client.run.start("p", dir="/src", permissions="ask", timeouts={"wall_s": 60})
        handle: str = started["handle"]
        network: str = started["effective"]["network"]
        with client.events(started["run"], after_seq=3) as events:
            for event in events:
                print(event["type"], handle, network, events.cursor)
        waited = client.run.wait([handle], until="attention", timeout_s=3)
        if waited["met"] == "attention":
            for request in client.permission.list(handle, pending=True)["permissions"]:
                client.permission.answer(request["request"], kind="allow_once")
        return client.run.result(handle)
"""
WRONG = """
import coachman

client = coachman.connect()
client.run.start("p")
client.run.start("p", dir="/", permissions="maybe")
client.run.wait(["x"], until="never")
client.run.get("x")["handel"]
client.events("x", after_seq="3")
client.permission.answer("p1", kind="allow")
number: int = client.run.list()["runs"][0]["task"]
"""


def mypy(tmp_path: Path, source: str) -> subprocess.CompletedProcess[str]:
    module = tmp_path / "caller.py"
    module.write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", module],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "client"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_right_caller_passes_strictly(tmp_path: Path) -> None:
    """A caller that uses the library as documented has no type error."""
    done = mypy(tmp_path, RIGHT)

    assert done.returncode == 0, done.stdout


def test_a_wrong_caller_is_told_each_mistake(tmp_path: Path) -> None:
    """Missing arguments, unknown choices and misspelt members are type errors."""
    done = mypy(tmp_path, WRONG)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}

    assert lines == {5, 6, 7, 8, 9, 10, 11}, done.stdout
