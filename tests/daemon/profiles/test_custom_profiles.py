"""Runs behind profiles of the configuration: what they find, what is on record, what is refused."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import coachman
import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess, git
from shared_daemon import sh, shared_daemon

CONFIG = """
[profiles.tools]
inherits = "edit"
trusted = true
mounts = [
    { path = "DATA/read" }, { path = "DATA/write", writable = true }, { path = "DATA/link" },
]
path = ["DATA/bin"]
toolchains = ["DATA/chain"]
environment = ["TEAM"]
permissions = "ask"
caps = { tasks = 77, disk = "3GiB" }

[profiles.look]
inherits = "tools"
worktree = "read-only"
delegate = false

[profiles.quiet]
inherits = "edit"
network = "none"
caps = { tasks = 50, disk = "3GiB" }

[profiles.native]
inherits = "host"

[agents.mine]
adapter = "acp"
command = ["mine"]

[profiles.gone]
inherits = "edit"
trusted = true
mounts = [{ path = "DATA/nowhere" }]

[profiles.outward]
inherits = "edit"
trusted = true
mounts = [{ path = "DATA/planted" }]

[profiles.state]
inherits = "edit"
trusted = true
mounts = [{ path = "ROOT", writable = true }]
"""


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """What the user has elsewhere: things to read, to write, and programs."""
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as root:
        path = Path(root)
        for name in ("read", "write", "write/sub", "bin", "chain/bin", "far"):
            (path / name).mkdir(parents=True)
        (path / "read" / "text").write_text("of the user\n")
        (path / "far" / "text").write_text("behind a link\n")
        (path / "link").symlink_to("far")
        (path / "planted").symlink_to("write/sub")
        for name in ("bin/tool", "chain/bin/maker"):
            (path / name).write_text(f"#!/bin/sh\necho {name}\n")
            (path / name).chmod(0o755)
        yield path


@pytest.fixture(scope="module")
def daemon(data: Path) -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file; each has tasks of its own."""
    with shared_daemon() as process:
        text = CONFIG.replace("DATA", str(data)).replace("ROOT", str(process.root))
        (process.root / "config.toml").write_text(text)
        process.restart()
        yield process


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


def refused(daemon: DaemonProcess, repo: Path, profile: str, **more: Any) -> coachman.CoachmanError:
    """What is said of a run that cannot start."""
    with daemon.client() as client:
        options = {"dir": str(repo), "agent": "demo", "profile": profile, **more}
        return live.refused(client.run.start, "x", **options)


def test_a_run_finds_what_its_profile_adds(daemon: DaemonProcess, repo: Path, data: Path) -> None:
    """Paths under their own names, read-only unless said otherwise; programs; variables."""
    script = (
        f"cat {data}/read/text {data}/link/text; tool; maker; echo $TEAM; echo x > {data}/write/x;"
        f" echo y > {data}/read/y || echo kept; ls {data}; echo z > made"
    )
    env = {"TEAM": "blue", "OTHER": "red"}
    result = sh(daemon, repo, script, task="adds", profile="tools", env=env)
    said = result["final_message"].split("\n")

    assert said[:5] == ["of the user", "behind a link", "bin/tool", "chain/bin/maker", "blue"]
    assert said[5:-1] == ["kept", "bin", "chain", "link", "read", "write"]
    assert (data / "write" / "x").read_text() == "x\n"
    assert not (data / "read" / "y").exists()
    assert [change["path"] for change in result["changed_files"]] == ["made"]


def test_nothing_else_gets_in(daemon: DaemonProcess, repo: Path, data: Path) -> None:
    """Without the profile none of it is there."""
    result = sh(daemon, repo, f"ls {data}; tool; echo [$TEAM]", task="none", env={"TEAM": "blue"})

    assert result["final_message"] == "[]\n"


def test_a_profile_of_a_profile_narrows_it(daemon: DaemonProcess, repo: Path, data: Path) -> None:
    """It reads what its parent reads, and its worktree cannot be written."""
    script = f"cat {data}/read/text; echo x > made || echo kept"
    result = sh(daemon, repo, script, task="look", profile="look")
    error = refused(daemon, repo, "look", delegate={"depth": 1, "children": 1})

    assert result["final_message"].split("\n")[:2] == ["of the user", "kept"]
    assert result["changed_files"] == []
    assert "a run of profile look gets no delegate: the configuration says so" in error.message
    assert "edit, review, tools, quiet" in str(error.hint)


def test_what_is_compiled_can_be_seen_before_and_after(
    daemon: DaemonProcess, repo: Path, data: Path
) -> None:
    """List, explain, dry run, header, record: one name, one digest, each mount and cap."""
    words = ["run", "-p", "tools", "-t", "seen", "-a", "demo", "--permissions", "allow", "say hi"]
    listed = daemon.cli("profile", "list", cwd=repo).stdout
    explained = daemon.cli("profile", "explain", "tools", cwd=repo).stdout
    dry = daemon.cli(*words, "--dry-run", cwd=repo).stdout
    dry_json = json.loads(daemon.cli(*words, "--dry-run", "--json", cwd=repo).stdout)
    ran = daemon.cli(*words, "-d", "--json", cwd=repo)
    at.result(daemon, json.loads(ran.stdout)["run"])
    recorded = json.loads(daemon.cli("show", "seen", "--policy", "--json", cwd=repo).stdout)
    mounts = {each["destination"]: each for each in recorded["policy"]["mounts"]}
    caps = {each["cap"]: each["limit"] for each in recorded["caps"]}

    assert "tools (inherits edit, trusted)" in listed
    assert "look (inherits tools)" in listed
    assert f"{data}/chain read-only, {data}/bin read-only" in explained
    assert f"{data}/link read-only; else /usr and a synthesized /etc" in explained
    assert "caps of its own: tasks 77, disk 3072 MiB\n" in explained
    assert f"read-write  {data}/write\n" in explained
    assert "your values of TEAM" in explained
    assert "profile tools (made of edit), permissions allow" in dry
    assert dry_json["effective"]["inherits"] == "edit"
    assert dry_json["compiled"]["policy"]["digest"] == recorded["policy"]["digest"]
    assert recorded["policy"]["profile"] == "tools"
    assert mounts[f"{data}/link"]["source"] == f"{data}/far"
    assert (caps["tasks"], caps["disk_bytes"]) == (77, 3 << 30)


def test_a_dry_run_tells_of_this_run(daemon: DaemonProcess, repo: Path, data: Path) -> None:
    """The agent is found on the PATH of the shell, and the network is the one of the run."""
    program = data / "mine" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = {"PATH": f"{program.parent}:{daemon.env['PATH']}"}
    words = ["run", "-a", "mine", "--network", "host", "--dry-run", "say hi"]
    dry = daemon.cli(*words, cwd=repo, env=path)
    explained = daemon.cli("profile", "explain", "edit", "-a", "mine", cwd=repo, env=path)

    assert dry.returncode == 0, dry.stderr
    assert f"{program}\n" in dry.stdout
    assert "network host (the machine's own" in dry.stdout
    assert "no service of this machine" not in dry.stdout
    assert "the daemon's own PATH counts" in explained.stderr


def test_permissions_are_the_profiles_unless_the_run_says(
    daemon: DaemonProcess, repo: Path
) -> None:
    """What it asks is asked; a run that says otherwise is heard first."""
    run = at.start(daemon, repo, "write a.txt one", task="asks", profile="tools")
    at.until_asked(daemon, run)
    with daemon.client() as client:
        client.run.cancel([run])
    options = {"profile": "tools", "permissions": "allow"}
    other = at.start(daemon, repo, "write b.txt", task="told", **options)

    assert at.result(daemon, run)["permissions"] == "ask"
    assert at.result(daemon, other)["permissions"] == "allow"


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ("gone", "cannot have DATA/nowhere: it is not there"),
        ("outward", "cannot have DATA/planted: it leads below DATA/write, which agents may write"),
        ("state", "cannot have ROOT: the control socket lies in it"),
        ("nobody", "there is no profile 'nobody'"),
    ],
)
def test_what_cannot_be_given_is_refused(
    daemon: DaemonProcess, repo: Path, data: Path, profile: str, why: str
) -> None:
    """Before anything happens, with the path and the reason; other profiles work on."""
    error = refused(daemon, repo, profile)

    assert why.replace("DATA", str(data)).replace("ROOT", str(daemon.root)) in error.message
    assert error.name == "InvalidParams"


def test_no_program_is_taken_from_where_agents_write(
    daemon: DaemonProcess, repo: Path, data: Path
) -> None:
    """A place on PATH that a profile lets agents write is passed over, whoever asks."""
    planted = data / "write" / "opencode"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    env = {"PATH": f"{data}/write:/usr/bin:/bin"}
    error = refused(daemon, repo, "edit", agent="opencode", env=env)

    assert f"lies in {data}/write, which agents may write" in error.message


def test_what_is_confined_wrote_is_not_trusted_by_a_native_one(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Names say nothing: a profile made of edit is confined, one made of host is not."""
    sh(daemon, repo, "echo x > x", task="trust", profile="quiet")
    error = refused(daemon, repo, "native", task="trust")
    result = sh(daemon, repo, "pwd; id -u", task="trust", profile="native", trust_tree=True)
    delegate = refused(daemon, repo, "native", delegate={"depth": 1, "children": 1})

    assert error.name == "Denied"
    assert result["final_message"].split() == [result["worktree"], str(os.getuid())]
    assert result["network"] == "host"
    assert "its agent is not confined" in delegate.message


# --- children ---


def child_of(daemon: DaemonProcess, repo: Path, profile: str, *children: str) -> dict[str, str]:
    """What came of children with these profiles, by profile."""
    script = "; ".join(
        f'echo "{each}: $(coachman run -p {each} -a demo -q "say hi" 2>&1 | head -n 1)"'
        for each in children
    )
    options = {"profile": profile, "delegate": {"depth": 1, "children": 9, "agents": ["demo"]}}
    said = sh(daemon, repo, script, task=f"parent-{profile}", network=["none"], **options)
    return dict(line.split(": ", 1) for line in said["final_message"].splitlines())


def test_a_child_has_a_profile_that_is_no_wider(daemon: DaemonProcess, repo: Path) -> None:
    """Policies are compared, never names: what a profile adds is what its child may have."""
    of_tools = child_of(daemon, repo, "tools", "tools", "quiet", "edit", "native")
    of_edit = child_of(daemon, repo, "edit", "edit", "tools", "quiet", "nobody")
    of_quiet = child_of(daemon, repo, "quiet", "quiet", "edit")

    assert [of_tools[name] for name in ("tools", "quiet")] == ["hi", "hi"]
    assert "cap" in of_tools["edit"]
    assert "native is more than the run that asks" in of_tools["native"]
    assert [of_edit[name] for name in ("edit", "quiet")] == ["hi", "hi"]
    assert "tools is more than the run that asks can give (a boundary without" in of_edit["tools"]
    assert "there is no profile 'nobody'" in of_edit["nobody"]
    assert of_quiet["quiet"] == "hi"
    assert "caps on tasks" in of_quiet["edit"]


# --- a configuration that changes ---


@pytest.fixture
def changing(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon whose configuration a test changes."""
    path = state_dir / "config.toml"
    path.write_text('[profiles.own]\ninherits = "edit"\ncaps = { tasks = 60 }\n')
    process = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(path)})
    yield process.start()
    process.tidy()


def test_a_run_keeps_the_profile_that_it_began_with(
    changing: DaemonProcess, state_dir: Path, repo: Path
) -> None:
    """Changed or gone while it runs, through restarts and to its end; a resume is compared."""
    config = state_dir / "config.toml"
    before = config.read_text()
    run = live.keep(changing, repo, "say one", task="kept", profile="own")
    live.until_parked(changing, run)
    config.write_text("")
    changing.restart()
    with changing.client() as client:
        shown = client.run.policy(run)["policy"]
        client.run.prompt(run, "say two")
    live.until_parked(changing, run)
    live.close(changing, run)
    with changing.client() as client:
        gone = live.refused(client.run.resume, run, "say three")
    config.write_text(before.replace("60", "61"))
    changing.restart()
    with changing.client() as client:
        changed = live.refused(client.run.resume, run, "say three")
    config.write_text(before + 'rules = [{ decide = "allow", tool = "read" }]\n')
    changing.restart()
    with changing.client() as client:
        again = client.run.resume(run, "say three", keep=False)["run"]

    assert shown["profile"] == "own"
    assert "there is no profile 'own'" in gone.message
    assert changed.detail["reason"] == "policy"
    assert at.result(changing, again)["final_message"] == "three"


def test_a_bad_profile_keeps_the_old_configuration_and_the_daemon(
    changing: DaemonProcess, state_dir: Path, repo: Path
) -> None:
    """`daemon restart` is refused before anything stops; a daemon that is down says so at start."""
    config = state_dir / "config.toml"
    config.write_text('[profiles.own]\ninherits = "owm"\n')
    restarted = changing.cli("daemon", "restart", cwd=repo)
    result = sh(changing, repo, "echo on", task="on", profile="own")

    assert restarted.returncode == 78, restarted.stderr
    assert "`profiles.own.inherits` on line 2 must be one of edit" in restarted.stderr
    assert result["final_message"] == "on\n"
    assert git(repo, "status", "--short") == ""
