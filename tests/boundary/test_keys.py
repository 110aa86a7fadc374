"""A key, however an agent was lent it, is with that agent alone: not in what others may look at."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from daemon_process import DaemonProcess
from shared_daemon import sh, shared_daemon

PROFILES = ("edit", "review", "sealed")
SOURCES = ("environment", "file", "configuration")
NOBODY = 65534
# Says its key, and looks for it in every process of its sandbox: whose hold it, and where.
PROGRAM = """#!/usr/bin/python3
import json, os, pathlib, sys

def read(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(fd, 1 << 20)
        finally:
            os.close(fd)
    except OSError:
        return b""

home = pathlib.Path.home()
login = home / ".claude/.credentials.json"
key = os.environ.get("ANTHROPIC_API_KEY")
if key is None:
    key = json.loads(login.read_text())["claudeAiOauth"]["accessToken"]
print("my key is", key, flush=True)
found = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("cmdline", "environ"):
        if key.encode() in read(f"/proc/{pid}/{name}"):
            found.append([int(pid), name])
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        fds = []
    for fd in fds if int(pid) != os.getpid() else ():
        held = f"/proc/{pid}/fd/{fd}"
        # What it said itself is in its pipe, and would be taken out of it.
        if os.path.isfile(held) and key.encode() in read(held):
            found.append([int(pid), "fd"])
whole = login.exists() and "refresh-of" in login.read_text()
told = {"own": os.getpid(), "found": found, "whole": whole}
out = os.environ.get("COACHMAN_OUTPUT", "/output")
pathlib.Path(out, "told.json").write_text(json.dumps(told))
while "interrupt" not in (sys.stdin.readline() or "interrupt"):
    pass
"""
# What any run can read: its processes, and every file that is no program's.
LOOK = (
    "grep -l {key} /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null;"
    " grep -rl {key} /home /root /run /etc /tmp /scratch /inputs /workspace /git /opt 2>/dev/null;"
    " echo looked"
)
# Run as another user of the machine: the files of /proc and of the daemon that hold a key.
SEARCH = r"""
import glob, json, os, sys
key, *tops = json.load(sys.stdin)
paths = glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ")
paths += glob.glob("/proc/[0-9]*/fd/*")
for top in tops:
    paths += [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
own = f"/proc/{os.getpid()}/"
looked, found = 0, []
for path in paths:
    if path.startswith(own) or "/fd/" in path and not os.path.isfile(path):
        continue
    try:
        with open(path, "rb") as file:
            looked += 1
            if key.encode() in file.read(1 << 20):
                found.append(path)
    except OSError:
        pass
print(json.dumps([looked, found]))
"""


def key_of(source: str, profile: str) -> str:
    """What a configuration holds is the same in every profile."""
    return f"canary-{source}-{'all' if source == 'configuration' else profile}-0123456789abcdef"


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """An instance of claude for each source of keys, with a home of its own, and a second one."""
    base = Path(f"/tmp/cm-keys-{os.getpid()}")
    program = base / "claude"
    base.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    entry = '[agents.k-{name}]\nadapter = "claude"\nexecutable = "{program}"\nhome = "{home}"\n'
    config = '[storage]\nsealed = "{neutral}"\n'
    for name in (*SOURCES, "other"):
        (base / name / ".claude").mkdir(parents=True)
        config += entry.format(name=name, program=program, home=base / name)
        if name == "configuration":
            config += f'env = {{ ANTHROPIC_API_KEY = "{key_of(name, "")}" }}\n'
    (base / "other/.claude/.credentials.json").write_text(login("canary-of-the-other-instance"))
    try:
        with shared_daemon(config) as process:
            process.env["BASE"] = str(base)
            yield process
    finally:
        shutil.rmtree(base)


def login(access: str) -> str:
    """Claude's form of one, far from its end."""
    expires_ms = int((time.time() + 86400) * 1000)
    told = {"accessToken": access, "refreshToken": f"refresh-of-{access}", "expiresAt": expires_ms}
    return json.dumps({"claudeAiOauth": told})


def lent(daemon: DaemonProcess, source: str, profile: str, key: str, **more: Any) -> str:
    """A run that was lent the key, and has looked where it is; its id."""
    if source == "file":
        Path(daemon.env["BASE"], source, ".claude/.credentials.json").write_text(login(key))
    env = {"ANTHROPIC_API_KEY": key} if source == "environment" else {}
    options: dict[str, Any] = {"profile": profile, "task": f"{source}-{profile}", "env": env}
    options |= {"agent": f"k-{source}", "network": ["none"], **more}
    return at.start(daemon, daemon.root / "repo", "say it", **options)


def until_told(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    """What the agent found inside, once it has looked; the run ends then."""
    at.until_event(daemon, run, lambda event: event["type"] == "agent.noise")
    with daemon.client() as client:
        ends = time.monotonic() + 60
        while time.monotonic() < ends and not _outputs(daemon, run):
            time.sleep(0.05)
        client.run.cancel([run])
    result = at.result(daemon, run)
    told: dict[str, Any] = json.loads(
        Path(result["evidence_dir"], "artifacts/told.json").read_text()
    )
    return told


def _outputs(daemon: DaemonProcess, run: str) -> list[Path]:
    config = (daemon.root / "config.toml").read_text()
    neutral = Path(config.split('sealed = "')[1].split('"')[0])
    places = [at.directory(daemon, run), *neutral.glob("*")]
    found = [place / "output/told.json" for place in places]
    return [path for path in found if path.exists() and path.stat().st_size]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_key_is_with_its_agent_alone(daemon: DaemonProcess, source: str, profile: str) -> None:
    """Inside it is in the agent's own environment, if it came so; elsewhere it is nowhere."""
    key, repo = key_of(source, profile), daemon.root / "repo"
    run = lent(daemon, source, profile, key)
    at.until_event(daemon, run, lambda event: event["type"] == "agent.noise")
    beside = sh(
        daemon,
        repo,
        LOOK.format(key=key.replace("canary-", "canary[-]")),
        task=f"beside-{source}-{profile}",
    )
    told = until_told(daemon, run)
    own = [] if source == "file" else [[told["own"], "environ"]]
    evidence = [path for path in at.directory(daemon, run).rglob("*") if path.is_file()]
    forms = (key.encode(), base64.b64encode(key.encode()).rstrip(b"="), key.encode().hex().encode())
    said = [event for event in daemon.events(run) if event["type"] == "agent.noise"]

    assert told["found"] == own
    assert beside["final_message"].split() == ["looked"]
    assert [path for path in evidence if any(f in path.read_bytes() for f in forms)] == []
    assert said[0]["text"] == f"my key is {'*' * len(key)}"
    assert told["whole"] is False


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_said_on_the_host_is_masked_too(daemon: DaemonProcess, source: str) -> None:
    """A run on the host has the user's own files; its evidence has no key of them."""
    key = key_of(source, "host")
    run = lent(daemon, source, "host", key, network=None, permissions="allow")
    until_told(daemon, run)
    said = [event for event in daemon.events(run) if event["type"] == "agent.noise"]
    evidence = [path for path in at.directory(daemon, run).rglob("*") if path.is_file()]

    assert said[0]["text"] == f"my key is {'*' * len(key)}"
    assert [path for path in evidence if key.encode() in path.read_bytes()] == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("source", SOURCES)
def test_another_user_sees_no_key(daemon: DaemonProcess, source: str) -> None:
    """While a run has it, neither a process nor a file that another user may read holds it."""
    key = key_of(source, "edit")
    run = lent(daemon, source, "edit", key)
    at.until_event(daemon, run, lambda event: event["type"] == "agent.noise")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    done = subprocess.run(
        ["setpriv", *ids, "--", str(python), "-I", "-c", SEARCH],
        input=json.dumps([key, str(daemon.state)]),
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
        check=True,
    )
    until_told(daemon, run)
    looked, found = json.loads(done.stdout)

    assert looked > 10
    assert found == []


def test_an_instance_has_its_own_login_and_home(daemon: DaemonProcess) -> None:
    """Two instances of one agent: each has the login of its own home, whatever a shell names."""
    base = Path(daemon.env["BASE"])
    key = "canary-of-the-first-instance"
    (base / "file/.claude/.credentials.json").write_text(login(key))
    elsewhere = {"CLAUDE_CONFIG_DIR": str(base / "file/.claude")}
    repo, runs = daemon.root / "repo", []
    for name in ("file", "other"):
        options: dict[str, Any] = {"agent": f"k-{name}", "task": "both", "profile": "review"}
        runs.append(at.start(daemon, repo, "say it", env=elsewhere, network=["none"], **options))
    for run in runs:
        until_told(daemon, run)
    homes = {
        path.name.rpartition("-")[0]: (path / ".claude/.credentials.json").read_text()
        for path in (daemon.state / "agents").glob("*/both/*")
    }
    with daemon.client() as client:
        listed = {row["name"]: row["adapter"] for row in client.agent.list()["agents"]}

    assert key in homes["k-file"]
    assert "canary-of-the-other-instance" in homes["k-other"]
    assert key not in homes["k-other"]
    assert {listed[f"k-{name}"] for name in ("file", "other")} == {"claude"}
