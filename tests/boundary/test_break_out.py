"""Attempts to get out of each confined profile: one a test, all of a profile in one sandbox.

What an attempt does is Python that runs inside; it worked where it ends without an OSError. Each
has a process of its own, so that none spoils the next.
"""

import json
import os
import platform

import pytest
from attrs import evolve

from coachman_sandbox import profiles
from coachman_sandbox.policy import AgentAccess
from sandbox_launch import Box, run

CONFINED = ("edit", "review", "sealed")
NOBODY = 65534
CANARY = "MARK-break-out"
RUNNER = """
import ctypes, fcntl, json, os, signal, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)

host = json.loads(sys.argv[1])
for name, code in json.loads(sys.argv[2]).items():
    reader, writer = os.pipe()
    if os.fork() == 0:
        told = "worked"
        try:
            exec(code)
        except OSError as error:
            told = error.strerror or type(error).__name__
        except BaseException as error:
            told = f"broken: {error!r}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 65536).decode() or "died"
    os.close(reader)
    os.wait()
    print(json.dumps([name, told]), flush=True)
"""

# By what they try. ``host`` has paths and numbers of the host.
EVERYWHERE = {
    "write into the root": "write('/made')",
    "write a program": "write('/usr/bin/made')",
    "write passwd": "write('/etc/passwd')",
    "write what runs in the sandbox": "write('/run/coachman/made')",
    "write an input": "write('/inputs/made')",
    "replace an input": "os.unlink('/inputs/given')",
    "make the root writable": "check(libc.mount(None, b'/', None, 32 | 4096, None))",
    "read a file of the user": "open(host['canary']).read()",
    "write a file of the user": "write(host['canary'])",
    "read one over a link in scratch": (
        "os.symlink(host['canary'], '/scratch/link'); open('/scratch/link').read()"
    ),
    "read one over a link in home": (
        "os.symlink(host['canary'], '/home/agent/link'); open('/home/agent/link').read()"
    ),
    "read one over the old root": "open('/oldroot' + host['canary']).read()",
    "read one over the root of process 1": "open('/proc/1/root' + host['canary']).read()",
    "read one over dots": "open('/scratch/' + '../' * 40 + host['canary'].lstrip('/')).read()",
    "read one over an open descriptor": (
        "[open(f'/proc/self/fd/{n}/..' + host['canary']) for n in range(3)]"
    ),
    "reach the control socket": (
        "socket.socket(socket.AF_UNIX).connect(host['state'] + '/control.sock')"
    ),
    "list the state": "os.listdir(host['state'])",
    "give a file of one place to another": (
        "write('/scratch/own'); os.link('/scratch/own', '/output/own')"
    ),
    "signal a process of the host": "os.kill(host['pid'], 0)",
    "mount": "check(libc.mount(b'none', b'/scratch', b'tmpfs', 0, None))",
    "unmount the inputs": "check(libc.umount2(b'/inputs', 2))",
    "change the root": "os.chroot('/scratch')",
    "make a user namespace": "check(libc.unshare(0x10000000))",
    "make a mount namespace": "check(libc.unshare(0x20000))",
    "make a network namespace": "check(libc.unshare(0x40000000))",
    "enter the init's namespace": "check(libc.setns(os.open('/proc/1/ns/mnt', os.O_RDONLY), 0))",
    "make a disk": "os.mknod('/scratch/disk', stat.S_IFBLK | 0o600, os.makedev(8, 0)); "
    "open('/scratch/disk', 'rb').read(1)",
    "read memory of the kernel": "open('/proc/kcore', 'rb').read(1)",
    "read keys": "open('/proc/keys').read(1)",
    "set the core pattern": "write('/proc/sys/kernel/core_pattern', '|/bin/sh')",
    "trigger a system request": "write('/proc/sysrq-trigger', 'h')",
    "become root by set-id": "os.setresuid(4294967294, 0, 0) if os.getuid() else os.setgroups([0])",
    "gain new privileges": "check(libc.prctl(38, 0, 0, 0, 0))",
    "set the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    "name the host": "socket.sethostname('other')",
    "a socket of the hypervisor": "socket.socket(40, socket.SOCK_STREAM)",
    "a socket of packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a socket of ciphers": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)",
    "type into a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
}
# By the numbers of one architecture; the filters' own tests go through all of both.
CALLS = {
    "clone into a namespace": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "load a program into the kernel": "call(321, 0, 0, 0)",
    "open by a handle": "call(304, -100, 0, 0)",
    "watch performance": "call(298, 0, 0, -1, -1, 0)",
    "handle page faults": "call(323, 0)",
    "set a ring up": "call(425, 1, 0)",
    "add a key": "call(248, b'user', b'made', b'x', 1, -2)",
    "read the kernel's log": "call(103, 3, 0, 0)",
    "load a module": "call(313, 0, b'', 0)",
}
if platform.machine() == "x86_64":
    EVERYWHERE |= CALLS
# Where the worktree cannot be written.
READING = {
    "change a file": "write('/workspace/a.txt')",
    "make a file": "write('/workspace/made')",
    "delete a file": "os.unlink('/workspace/a.txt')",
    "rename a file": "os.rename('/workspace/a.txt', '/workspace/b.txt')",
    "change a mode": "os.chmod('/workspace/a.txt', 0o777)",
    "change a time": "os.utime('/workspace/a.txt', (0, 0))",
    "cut a file": "os.truncate('/workspace/a.txt', 0)",
    "make it writable": "check(libc.mount(None, b'/workspace', None, 32 | 4096, None))",
}
GIT = {
    "move the pointer to the repository": "os.rename('/workspace/.git', '/workspace/git')",
    "rewrite the pointer": "write('/workspace/.git')",
    "replace the pointer": "write('/scratch/git'); os.rename('/scratch/git', '/workspace/.git')",
    "plant a hook": "os.mkdir('/git, coachman commits for you/hooks')",
    "write its settings": "write('/git, coachman commits for you/config')",
    "write a ref": "write('/git, coachman commits for you/refs/made')",
    "write an object": "write('/git, coachman commits for you/objects/made')",
}
NOTHING = {
    "find a repository": "os.stat('/workspace/.git')",
    "find its objects": "os.listdir('/git, coachman commits for you')",
    "find a file of the worktree": "os.stat('/workspace/a.txt')",
}
CONTROL = "write a file of its own"
EVERYWHERE[CONTROL] = "write('/scratch/control'); open('/scratch/control').read()"
ATTEMPTS = {
    "edit": {**EVERYWHERE, **GIT},
    "review": {**EVERYWHERE, **READING, **GIT},
    "sealed": {**EVERYWHERE, **READING, **NOTHING},
}
CASES = [(profile, name) for profile in CONFINED for name in ATTEMPTS[profile] if name != CONTROL]
Told = dict[str, str]


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], Told]:
    """What came of all attempts, by profile and user: the first test of each asks."""
    return {}


@pytest.fixture(params=["self", "ordinary"] if os.getuid() == 0 else ["self"])
def told(request: pytest.FixtureRequest, known: dict[tuple[str, str], Told], profile: str) -> Told:
    """What came of the attempts of one profile."""
    key = (profile, request.param)
    if key not in known:
        box = request.getfixturevalue("git_box")
        if request.param == "ordinary":
            bwrap = request.getfixturevalue("reachable_bwrap")
            box = evolve(box.belonging_to(NOBODY), bwrap=bwrap)
        known[key] = attempts_in(box, profile)
    return known[key]


def attempts_in(box: Box, profile: str) -> Told:
    """Carry all attempts of a profile out; nothing of the host may have changed."""
    canary = box.root / "canary"
    canary.write_text(CANARY)
    canary.chmod(0o666)
    (box.root / "state/inputs/given").write_text("given")
    box.root.chmod(0o777)
    before = _seen(box)
    facts = {"canary": str(canary), "state": box.place.state_dir, "pid": os.getpid()}
    policy = profiles.PROFILES[profile].build(box.place, AgentAccess(), box.host)
    given = (json.dumps(facts), json.dumps(ATTEMPTS[profile]))
    done = run(box.bwrap, policy, ["/usr/bin/python3", "-I", "-c", RUNNER, *given], box.uid)

    assert done.returncode == 0, done.stderr
    assert canary.read_text() == CANARY
    assert _seen(box) == before
    return dict(json.loads(line) for line in done.stdout.splitlines())


def _seen(box: Box) -> dict[str, tuple[int, int, int]]:
    """All of the host's that lies around the run's own home, scratch and output."""
    own = {box.root / "state" / name for name in ("home", "scratch", "artifacts")}
    facts = {}
    for path in box.root.rglob("*"):
        if not own & {path, *path.parents}:
            found = path.lstat()
            facts[str(path)] = (found.st_mode, found.st_size, found.st_mtime_ns)
    return facts


@pytest.mark.parametrize(("profile", "attempt"), CASES)
def test_an_attempt_to_break_out_fails_alone(told: Told, attempt: str) -> None:
    """It is answered with an error, and the attempts around it were carried out as well."""
    assert told[attempt] not in ("worked", "died")
    assert not told[attempt].startswith("broken"), told[attempt]


@pytest.mark.parametrize("profile", CONFINED)
def test_what_is_allowed_is_told_as_such(told: Told) -> None:
    """An attempt that gets through would be noticed."""
    assert told[CONTROL] == "worked"
