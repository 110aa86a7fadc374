"""The program in docs/clients/wire.md works as it stands there."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import sourcetree
from coachman.wire import ERROR_CODES
from daemon_process import DaemonProcess

DOCUMENT = (sourcetree.ROOT / "docs/clients/wire.md").read_text()
LIMIT_S = 180


def test_the_client_of_the_document_outlives_the_daemon(
    daemon: DaemonProcess, repo: Path, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    """It starts a run, allows what it asks, and misses no event of it over a SIGKILL."""
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.M | re.S)
    prompt = "chunks 20\nwrite a.txt x\nsleep 1.5\nchunks 20\nsay done"
    told = tmp_path / "told"
    with told.open("w") as output:
        client = subprocess.Popen(
            [sys.executable, "-I", "-c", program, prompt],
            cwd=repo,
            env={**daemon.env, "COACHMAN_SOCKET": daemon.socket},
            stdout=output,
        )
    eventually(lambda: "permission.resolved" in told.read_text())
    daemon.restart()
    code = client.wait(timeout=LIMIT_S)
    with daemon.client() as other:
        (run,) = other.run.list()["runs"]
    journal = [f"{event['seq']} {event['type']}" for event in daemon.events(run["run"])]

    assert told.read_text().splitlines() == journal
    assert (code, run["outcome"]) == (0, "succeeded")


def test_every_error_is_explained() -> None:
    """The table has each error of the wire with its code."""
    for name, code in ERROR_CODES.items():
        row = next(line for line in DOCUMENT.splitlines() if f"`{name}`" in line)
        assert str(code) in row, name
