"""From the sandboxes of real agents' own shells the client says why it cannot connect."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agents_model import ModelServer
from agents_parts import PARTS
from coachman.confinement import around
from daemon_process import BIN, DaemonProcess
from keeper_attempts import bwrap_path

pytestmark = pytest.mark.real_agent


def test_codex(daemon: DaemonProcess, agents_dir: Path, repo: Path) -> None:
    """Its seccomp filter refuses connect(); with network access the same command gets through."""
    codex = str(agents_dir / "node_modules" / ".bin" / "codex")
    home = daemon.home / ".codex"
    home.mkdir()
    env = {**daemon.env, "CODEX_HOME": str(home)}
    env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{env['PATH']}"

    def within(*options: str) -> subprocess.CompletedProcess[str]:
        command = [codex, "sandbox", *options, "--", str(BIN / "coachman"), "status", "--json"]
        return subprocess.run(
            command, cwd=repo, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    confined = within()
    free = within(
        *("-c", 'sandbox_mode="workspace-write"'),
        *("-c", "sandbox_workspace_write.network_access=true"),
    )
    error = json.loads(confined.stdout)["error"]

    assert confined.returncode == 77
    assert error["detail"] == {"sandbox": "codex", "errno": "EPERM"}
    assert "Codex's sandbox for commands blocks Unix sockets" in error["message"]
    assert "require_escalated" in error["hint"]
    assert free.returncode == 0, free.stdout + free.stderr
    assert json.loads(free.stdout)["pid"]


def test_claude(daemon: DaemonProcess, agents_dir: Path, repo: Path) -> None:
    """Its filter refuses the socket itself: in the shell of a real session, run by its model."""
    if shutil.which("socat") is None:
        pytest.skip("Claude Code's sandbox needs socat")
    script = f"#!/bin/sh\n{BIN / 'coachman'} status --json\n{BIN / 'coachman'} run -d hi\n"
    (repo / "ask.sh").write_text(script)
    settings = {
        "sandbox": {"enabled": True, "failIfUnavailable": True, "autoAllowBashIfSandboxed": True}
    }
    with ModelServer() as model:
        env = {**daemon.env, **PARTS["claude"].env(model), "COACHMAN_AUTOSTART": "1"}
        env["PATH"] = (
            f"{Path(bwrap_path()).parent}:{agents_dir / 'node_modules' / '.bin'}:{env['PATH']}"
        )
        done = subprocess.run(
            [
                *("claude", "-p", "--output-format", "stream-json", "--verbose"),
                *("--settings", json.dumps(settings), "RUN sh ask.sh\nSAY done"),
            ],
            cwd=repo,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    said = done.stdout

    assert done.returncode == 0, said + done.stderr
    assert "Claude Code's sandbox for commands blocks Unix sockets (EPERM)" in said
    assert said.count("blocks Unix sockets (EPERM)") >= 2
    assert "dangerouslyDisableSandbox" in said


def test_nobody_is_accused_without_a_sign() -> None:
    """A sandbox that names nobody is called what it is."""
    assert around({})[0] is None
    assert around({"CLAUDECODE": "1"})[0] is None
    assert around({"SANDBOX_RUNTIME": "1"})[0] == "claude"
