"""The library is typed: a caller's mistakes are found before they run."""

import re
import subprocess
import sys
from pathlib import Path

from client_daemon import ROOT

EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/python-client.md").read_text(), re.M | re.S
)
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


def test_the_documented_examples_pass_strictly(tmp_path: Path) -> None:
    """Every example of the documentation is free of type errors."""
    assert len(EXAMPLES) >= 3
    done = mypy(tmp_path, "\n".join(EXAMPLES))

    assert done.returncode == 0, done.stdout


def test_a_wrong_caller_is_told_each_mistake(tmp_path: Path) -> None:
    """Missing arguments, unknown choices and misspelt members are type errors."""
    done = mypy(tmp_path, WRONG)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}

    assert lines == {5, 6, 7, 8, 9, 10, 11}, done.stdout
