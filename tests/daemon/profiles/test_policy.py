"""What a run's boundary was compiled to, before it starts and on record."""

import hashlib
import json
from pathlib import Path
from typing import Any

import live_runs as live
import recovery_state as at
from coachman_sandbox import seccomp
from coachman_sandbox.host import read_host
from coachman_sandbox.profiles import PROFILES, caps
from daemon_process import DaemonProcess, git

SECRET = "canary-policy-77f1"


def instruct(repo: Path) -> None:
    """Instructions at the top, in a folder, and one that is a link."""
    (repo / "AGENTS.md").write_text("Write no prose.\n")
    (repo / "sub" / "CLAUDE.md").write_text("Not here.\n")
    (repo / "GEMINI.md").symlink_to("/etc/passwd")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "instructions")


def policy_of(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    with daemon.client() as client:
        return dict(client.run.policy(run))


def sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_runs_policy_is_on_record_with_digests(daemon: DaemonProcess, repo: Path) -> None:
    """Executable, instructions down to the caller's folder, filter and command are named."""
    instruct(repo)
    run = at.start(daemon, repo / "sub", "say hi")
    at.result(daemon, run)
    found = policy_of(daemon, run)
    started = next(event for event in daemon.events(run) if event["type"] == "run.started")

    assert found["executable"]["sha256"] == sha256(found["executable"]["path"])
    assert found["instructions"] == [
        {"path": name, "size": (repo / name).stat().st_size, "sha256": sha256(repo / name)}
        for name in ("AGENTS.md", "sub/CLAUDE.md")
    ]
    assert found["inputs"] == []
    assert found["policy"]["digest"] == started["policy_digest"]
    assert found["policy"]["system_calls"]["sha256"] == seccomp.digest("strict")
    assert found["command"][-1] == "/run/coachman/demo_agent.py"
    assert (found["run"], found["handle"], found["attempt"]) == (run, run[-5:], 1)


def test_who_sees_to_a_cap_is_on_record(daemon: DaemonProcess, repo: Path) -> None:
    """The kernel's are told from those that are watched, also when the run is over."""
    run = at.start(daemon, repo, "say hi")
    at.result(daemon, run)
    found = {cap["cap"]: cap for cap in policy_of(daemon, run)["caps"]}
    state = json.loads((at.attempt(daemon, run) / "keeper.json").read_text())
    by = {True: "kernel", False: "watched"}

    assert found["memory_bytes"]["limit"] == caps(read_host({})).memory_bytes
    assert found["memory_bytes"]["by"] == by[state["caps"]["memory"]]
    assert found["tasks"] == {"cap": "tasks", "limit": 1024, "by": by[state["caps"]["tasks"]]}
    assert found["disk_bytes"] == {"cap": "disk_bytes", "limit": 10 << 30, "by": "watched"}
    assert found["oom_score"] == {"cap": "oom_score", "limit": 500, "by": "kernel"}
    assert found["tmp_bytes"] == {"cap": "tmp_bytes", "limit": 1 << 30, "by": "kernel"}


def test_no_value_is_shown(daemon: DaemonProcess, repo: Path) -> None:
    """The credential that an agent would be lent is named, and its value is nowhere."""
    daemon.stop()
    config = daemon.root / "config.toml"
    own = 'adapter = "acp"\ncommand = ["sh"]\ncredentials = ["OWN_KEY"]\n'
    config.write_text(f"[agents.own]\n{own}")
    daemon.env["COACHMAN_CONFIG"] = str(config)
    daemon.start()
    lent = {"OWN_KEY": SECRET, "PATH": daemon.env["PATH"]}
    with daemon.client() as client:
        told = client.run.start("hi", dir=str(repo), agent="own", env=lent, dry_run=True)

    assert {"name": "OWN_KEY", "secret": True} in told["compiled"]["policy"]["environment"]
    assert SECRET not in json.dumps(told)


def test_a_run_without_a_record_says_so(daemon: DaemonProcess, repo: Path) -> None:
    """A run of an earlier version, which kept none, is refused by name."""
    run = at.start(daemon, repo, "say hi")
    at.result(daemon, run)
    (daemon.state / "runs" / run / "policy.json").unlink()
    with daemon.client() as client:
        error = live.refused(client.run.policy, run)

    assert (error.name, error.detail["reason"]) == ("Conflict", "no_policy")


def test_a_dry_run_tells_the_policy_and_creates_nothing(daemon: DaemonProcess, repo: Path) -> None:
    """Command, arguments and caps are those of the run to come; nobody has looked at files yet."""
    before = sorted(daemon.state.rglob("*"))
    with daemon.client() as client:
        told = client.run.start("say hi", dir=str(repo), agent="demo", task="t1", dry_run=True)
    after = sorted(daemon.state.rglob("*"))
    run = at.start(daemon, repo, "say hi", agent="demo", task="t1")
    at.result(daemon, run)
    real, planned = policy_of(daemon, run), told["compiled"]

    assert before == after
    assert git(repo, "worktree", "list").count("\n") == 1
    assert planned["policy"]["digest"] == real["policy"]["digest"]
    assert planned["command"] == real["command"]
    assert (planned["instructions"], planned["inputs"]) == (None, None)
    assert {cap["by"] for cap in planned["caps"]} == {"kernel", None}
    shown = [[mount["destination"] for mount in p["policy"]["mounts"]] for p in (planned, real)]
    assert shown[0] == shown[1]


def test_the_command_line_shows_both(daemon: DaemonProcess, repo: Path) -> None:
    """`run --dry-run` and `show --policy` print command, digests, caps and arguments."""
    instruct(repo)
    dry = daemon.cli("run", "--dry-run", "-a", "demo", "say hi", cwd=repo)
    run = at.start(daemon, repo, "say hi")
    at.result(daemon, run)
    shown = daemon.cli("show", run, "--policy", cwd=repo)
    document = daemon.cli("show", run, "--policy", "--json", cwd=repo)

    assert (dry.returncode, shown.returncode) == (0, 0), dry.stderr + shown.stderr
    for text in (dry.stdout, shown.stdout):
        assert "/run/coachman/demo_agent.py" in text
        assert "disk 10.0 GiB" in text
        assert "--seccomp" in text
        assert "read-write  /workspace  = /" in text
        assert " HOME " in text
    assert PROFILES["edit"].facts["worktree"] in dry.stdout
    assert "instructions: looked at when it starts" in dry.stdout
    assert f"{sha256(repo / 'AGENTS.md')} AGENTS.md" in shown.stdout
    assert "memory" in shown.stdout
    assert json.loads(document.stdout)["run"] == run


def test_an_agent_that_fills_the_disk_is_ended(daemon: DaemonProcess, repo: Path) -> None:
    """Its directories may grow by the configured limit; what it wrote is kept."""
    daemon.stop()
    config = daemon.root / "config.toml"
    config.write_text('[storage]\ndisk_limit = "16MiB"\n')
    daemon.env["COACHMAN_CONFIG"] = str(config)
    daemon.start()
    script = "sleep 6; while :; do head -c 8M /dev/urandom >> /scratch/big; sleep 0.5; done"
    argv = ["sh", "-c", script]
    run = at.start(daemon, repo, "x", agent="command", argv=argv)
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "disk_limit")
    assert "grew by more" in result["error"]["message"]
