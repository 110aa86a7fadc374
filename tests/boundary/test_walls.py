"""What cannot be reached, written or kept alive from inside."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve

from coachman_sandbox.finder import Bwrap
from coachman_sandbox.policy import AgentAccess, Bind, PolicyError
from sandbox_launch import Box, make_box, run

SECRET = "sk-boundary-4f1c9b"
# Prints what a tree walk over everything visible finds of a marker.
SEARCH = "grep -rlsI MARK-5a7e /workspace /home /scratch /output /inputs /etc /run /tmp /root /var"


def test_the_users_home_other_runs_and_the_state_are_not_there(box: Box, tmp_path: Path) -> None:
    """A file beside the run's own directories cannot be named, let alone read."""
    for path in ("home-of-user/.ssh/id", "state/keys/k.json", "state/runs/other/final.md"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("MARK-5a7e\n")
    own = "state/scratch/own"
    (tmp_path / own).write_text("MARK-5a7e\n")
    assert box.sh(SEARCH) == "/scratch/own\n"
    said = box.sh(f"cat {tmp_path}/state/keys/k.json {tmp_path}/home-of-user/.ssh/id; ls /root")
    assert said.count("No such file or directory") == 3
    assert sorted(box.sh("ls /").split()) == sorted(
        ["bin", "dev", "etc", "home", "inputs", "lib", "output", "proc", "run", "scratch"]
        + ["tmp", "usr", "var", "workspace"]
        + [path[1:] for path, _ in box.host.links if path not in ("/bin", "/lib")]
    )


def test_the_control_socket_cannot_be_reached(box: Box, tmp_path: Path) -> None:
    """Neither by its path nor through a link does a connect get through."""
    path = tmp_path / "state" / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path)) if len(str(path)) > 100 else listener.bind(str(path))
        listener.listen()
        (tmp_path / "state" / "home" / "link").symlink_to(path)
        script = (
            "import socket,sys\n"
            f"for p in ({str(path)!r}, '/home/agent/link'):\n"
            "  try: socket.socket(socket.AF_UNIX).connect(p); print('in')\n"
            "  except FileNotFoundError: print('nothing')\n"
        )
        assert box.run("/usr/bin/python3", "-I", "-c", script).stdout.split() == ["nothing"] * 2


def test_a_state_directory_within_a_bound_directory_is_hidden(tmp_path: Path, bwrap: Bwrap) -> None:
    """A runtime whose directory holds the state shows an empty directory in its place."""
    box = make_box(tmp_path / "prefix", bwrap.path)
    (tmp_path / "prefix" / "tool").write_text("tool\n")
    access = AgentAccess(binds=(str(tmp_path / "prefix"),))
    where = tmp_path / "prefix"
    said = box.sh(f"cat {where}/tool; ls -A {where}/state; echo x > {where}/state/x", access)
    assert said.splitlines()[0] == "tool"
    assert not (tmp_path / "prefix" / "state" / "x").exists()
    assert len(said.splitlines()) <= 2


def test_the_state_directory_itself_is_never_shown(box: Box) -> None:
    """A bind of the state directory, or of something in it, does not compile."""
    for path in ("state", "state/keys"):
        with pytest.raises(PolicyError, match="state directory"):
            box.policy(AgentAccess(binds=(str(box.root / path),)))


def test_only_the_runs_own_directories_can_be_written(box: Box, tmp_path: Path) -> None:
    """Workspace, home, scratch, output and /tmp take writes; everything else refuses them."""
    (tmp_path / "lib").mkdir()
    access = AgentAccess(binds=(str(tmp_path / "lib"),))
    writable = ["/workspace", "/home/agent", "/scratch", "/output", "/tmp", "/dev/shm", "/var/tmp"]
    refused = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/home", "/inputs", "/run", "/run/coachman"]
    refused += ["/proc", str(tmp_path / "lib"), "/etc/ssl/certs", "/var"]
    script = 'for d in "$@"; do (: > "$d/probe") 2>/dev/null && echo "$d"; done'
    done = box.run("/bin/sh", "-c", script, "sh", *writable, *refused, access=access)
    assert done.stdout.split() == writable
    assert not (tmp_path / "lib" / "probe").exists()


def test_the_kernels_settings_cannot_be_written(box: Box) -> None:
    """No file of /proc but a process's own opens for writing, also when we are root outside."""
    script = (
        "import os\n"
        "for root, folders, names in os.walk('/proc'):\n"
        "  if root == '/proc': folders[:] = [f for f in folders if f.strip('0123456789')]\n"
        "  folders[:] = [f for f in folders if f not in ('self', 'thread-self')]\n"
        "  for name in names:\n"
        "    try: os.close(os.open(root + '/' + name, os.O_WRONLY | os.O_NONBLOCK)); print(name)\n"
        "    except OSError: pass\n"
        "print('walked', os.path.exists('/proc/sys/kernel/core_pattern'))\n"
    )
    assert box.run("/usr/bin/python3", "-I", "-c", script).stdout == "walked True\n"


def test_there_are_no_capabilities_and_no_new_user_namespaces(box: Box) -> None:
    """Every capability set is empty, no_new_privs is set, unshare is refused."""
    status = box.sh("grep -E '^(Cap|NoNewPrivs)' /proc/self/status").split()
    assert status[1::2] == ["0" * 16] * 5 + ["1"]
    assert box.run("/usr/bin/unshare", "--user", "true").returncode != 0


SPY = """
import glob, os
secret = os.environ["DEMO_API_KEY"].encode()
own = f"/proc/{os.getpid()}/"
inherited = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]
paths = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
paths += glob.glob("/proc/1/fd/*") + glob.glob("/proc/1/task/*/environ")
for path in paths:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        if secret in os.read(descriptor, 1 << 20) and path != own + "environ":
            print("found in", path)
    except OSError:
        pass
print(len(paths), sorted(open("/proc/1/environ").read().strip(chr(0)).split(chr(0))))
print(inherited)
"""


def test_no_secret_in_any_environment_or_command_line_but_the_agents_own(box: Box) -> None:
    """The agent has its credential; pid 1 and every other file of /proc have not."""
    access = AgentAccess(credentials={"DEMO_API_KEY": SECRET})
    done = box.run("/usr/bin/python3", "-I", "-c", SPY, access=access)
    *found, environ, descriptors = done.stdout.splitlines()
    assert found == []
    assert environ.endswith("['LANG=C.UTF-8', 'PATH=/usr/bin:/bin']")
    assert descriptors == "[0, 1, 2]"


def test_bubblewraps_command_line_outside_holds_no_value(box: Box) -> None:
    """Seen from the host, only the descriptor's number and the agent's command show."""
    access = AgentAccess(env={"PLAIN": "plain-value"}, credentials={"DEMO_API_KEY": SECRET})
    process = box.spawn("/bin/sh", "-c", "echo up; exec sleep 30", access=access)
    try:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        shown += Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        process.kill()
        process.communicate()
    assert b"--args" in shown
    assert SECRET.encode() not in shown
    assert b"plain-value" not in shown


def test_a_link_planted_in_the_persisted_home_leads_nowhere(box: Box, tmp_path: Path) -> None:
    """A link to a host path, left by an earlier run, neither reads nor writes there."""
    target = tmp_path / "outside"
    target.mkdir()
    (target / "key").write_text("MARK-5a7e\n")
    plant = f"ln -s {target} ~/dir; ln -s {target}/key ~/key; ln -s {target}/new ~/.config"
    assert box.sh(plant) == ""
    said = box.sh("cat ~/key ~/dir/key; echo x > ~/.config; echo x > ~/dir/y; mkdir ~/.config/z")
    assert "MARK-5a7e" not in said
    assert sorted(path.name for path in target.iterdir()) == ["key"]


def test_a_link_planted_in_the_home_does_not_move_a_mount(box: Box, tmp_path: Path) -> None:
    """No mount lies below a tree the agent writes, so the next start follows none of its links."""
    (tmp_path / "outside").mkdir()
    for name in (".config", ".local", ".ssh", "agent"):
        (tmp_path / "state/home" / name).symlink_to(tmp_path / "outside")
    policy = box.policy()
    trees = ("/workspace/", "/home/agent/", "/scratch/", "/output/")
    assert [mount for mount in policy.mounts if mount.destination.startswith(trees)] == []
    assert box.run("true").returncode == 0
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_double_forked_session_leader_dies_with_the_run(
    box: Box, eventually: Callable[..., object]
) -> None:
    """A daemon that the agent left behind is gone once the agent ended."""
    beat = box.root / "state/scratch/beat"
    script = (
        "setsid sh -c 'setsid sh -c \"while :; do echo >> /scratch/beat; sleep 0.01; done\" &' "
        "</dev/null >/dev/null 2>&1 & until [ -s /scratch/beat ]; do :; done"
    )
    assert box.run("/bin/sh", "-c", script).returncode == 0
    assert_still(beat, eventually)


def test_the_tree_dies_with_bubblewrap(box: Box, eventually: Callable[..., object]) -> None:
    """SIGKILL of bubblewrap takes a double-forked child along."""
    beat = box.root / "state/scratch/beat"
    script = (
        "setsid sh -c 'while :; do echo >> /scratch/beat; sleep 0.01; done' </dev/null "
        ">/dev/null 2>&1 & exec sleep 60"
    )
    process = box.spawn("/bin/sh", "-c", script)
    eventually(beat.exists)
    process.kill()
    process.communicate()
    assert_still(beat, eventually)


def assert_still(beat: Path, eventually: Callable[..., object]) -> None:
    """That a file which grew every 10 ms grows no more, for a fifth of a second."""
    seen = {"size": -1, "since": 0.0}

    def settled() -> bool:
        size = beat.stat().st_size
        if size != seen["size"]:
            seen.update(size=size, since=time.monotonic())
        return time.monotonic() - seen["since"] > 0.2

    eventually(settled, 5.0)


# Stays, so that outside the same processes can be looked at; every answer but "no such" is one.
LOOK = """
import os, sys, time
answered = []
for pid in map(int, sys.argv[1:]):
    try: os.kill(pid, 0)
    except ProcessLookupError: continue
    except PermissionError: pass
    answered.append(pid)
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
print(answered, flush=True)
time.sleep(60)
"""


def test_processes_of_the_host_are_not_visible(box: Box) -> None:
    """/proc shows exactly the sandbox's own processes, and no other number can be signalled."""
    outside = [name for name in os.listdir("/proc") if name.isdigit()]
    assert str(os.getpid()) in outside
    look = ["/usr/bin/python3", "-I", "-c", LOOK, *outside]
    with box.spawn(*look) as process:
        try:
            assert process.stdout
            visible = json.loads(process.stdout.readline())
            answered = json.loads(process.stdout.readline())
            own = sorted(numbers_inside(process.pid))
        finally:
            process.kill()
    assert visible == own
    assert set(answered) <= set(own)


def numbers_inside(pid: int) -> Iterator[int]:
    """What the processes below a bubblewrap are called in the namespace that it made."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        status = Path(f"/proc/{child}/status").read_text()
        yield int(status.partition("NSpid:")[2].partition("\n")[0].split()[-1])
        yield from numbers_inside(int(child))


def test_memory_file_systems_are_capped(box: Box) -> None:
    """/tmp and /dev/shm have the size that the policy says."""
    sizes = box.sh("df -k --output=size /tmp /dev/shm | tail -n 2").split()
    assert sizes == [str(1024 * 1024), str(256 * 1024)]


def test_a_mount_inside_another_is_not_buried(box: Box, tmp_path: Path) -> None:
    """Whatever the order in the policy, a nested directory shows its own content."""
    for name in ("outer", "outer/inner", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "here").write_text("")
    policy = box.policy()
    nested = Bind(str(tmp_path / "other"), "/opt/outer/inner")
    outer = Bind(str(tmp_path / "outer"), "/opt/outer")
    both = evolve(policy, mounts=(nested, *policy.mounts, outer))
    assert run(box.bwrap, both, ["ls", "/opt/outer/inner"], box.uid).stdout == "here\n"
