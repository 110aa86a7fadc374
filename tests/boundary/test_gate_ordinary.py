"""The gate of an ordinary user, who owns the sandbox's namespaces and nothing else."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from gated import decided, host_server, told_of
from keeper_attempts import Attempt
from sourcetree import ROOT

# Root's tests run it as somebody else, others' as themselves.
IS_ROOT = os.getuid() == 0
UID = 65534 if IS_ROOT else os.getuid()
AS_USER: dict[str, Any] = {"user": UID, "group": UID, "extra_groups": []} if IS_ROOT else {}
SYSTEM_PYTHON = "/usr/bin/python3"
LIMIT_S = 60.0


def test_an_ordinary_users_gate_listens_inside(tmp_path: Path, reachable_bwrap: str) -> None:
    """Keeper, gate and sandbox of a user without rights: one host answers, another does not."""
    for part in ("keeper", "gate"):
        shutil.copytree(ROOT / "daemon/coachmand" / part, tmp_path / "coachmand" / part)
    for name in ("__init__.py", "failpoints.py"):
        shutil.copy(ROOT / "daemon/coachmand" / name, tmp_path / "coachmand" / name)
    attempt = Attempt(tmp_path / "attempt")
    os.chown(attempt.directory, UID, os.getgid() if not IS_ROOT else UID)
    lock = os.open(attempt.directory / "keeper.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with host_server() as server:
        place = f"model.test:{server.port}"
        script = f"id -u; curl -s http://{place}/; curl -s -o /dev/null http://other.test/; :"
        record = attempt.record(["/bin/sh", "-c", script], bwrap=reachable_bwrap)
        record |= told_of(f"{place}=127.0.0.1")
        done = subprocess.run(
            [SYSTEM_PYTHON, "-I", "-S", str(tmp_path / "coachmand/keeper/__main__.py"), str(lock)],
            input=json.dumps(record).encode(),
            capture_output=True,
            pass_fds=[lock],
            check=False,
            **AS_USER,
        )
        os.close(lock)
        assert json.loads(done.stdout).get("ready"), done.stdout + done.stderr
        ends = time.monotonic() + LIMIT_S
        while not (attempt.directory / "exit.json").exists():
            assert time.monotonic() < ends
            time.sleep(0.02)

    assert attempt.stream("stdout") == f"{UID}\nheard ".encode()
    assert [(d["host"], d["reason"]) for d in decided(attempt.directory)] == [
        ("model.test", None),
        ("other.test", "not_allowed"),
    ]
