"""What an agent finds inside equals what its policy was compiled to, fact by fact, in each profile.

One run of each profile and user tells what it finds while the host looks at the same places.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

import recovery_state as at
from daemon_process import DaemonProcess
from ordinary import USERS, daemons_of

NEUTRAL = '[storage]\nsealed = "{neutral}"\n'
PROFILES = ("edit", "review", "sealed", "host")
WALLED = PROFILES[:-1]
NAMESPACES = ("user", "ipc", "pid", "uts", "cgroup", "net", "mnt")
# What bubblewrap and the interpreter add by themselves.
ADDED = {"PWD", "LC_CTYPE"}
COVERED = {f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus")}
# Once it is asked for paths it tells what it finds, and stays until it is let go: so long the host
# can look as well.
TELL = """
import ctypes, json, os, resource, socket, stat, time
libc = ctypes.CDLL(None, use_errno=True)
scratch = os.environ["COACHMAN_SCRATCH"]
def until(name):
    while not os.path.exists(scratch + "/" + name):
        time.sleep(0.02)
def facts(path):
    try:
        found = os.lstat(path)
        return {"file": [found.st_dev, found.st_ino], "kind": stat.S_IFMT(found.st_mode)}
    except OSError:
        return None
until("asked")
mounts = {}
for line in open("/proc/self/mountinfo"):
    head, _, tail = line.partition(" - ")
    where, flags = head.split()[4:6]
    where = where.encode().decode("unicode_escape")
    mounts[where] = {"kind": tail.split()[0], "writable": "ro" not in flags.split(",")}
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
asked = json.load(open(scratch + "/asked"))
told = {
    "environment": sorted(os.environ),
    "cwd": os.getcwd(),
    "hostname": socket.gethostname(),
    "status": status,
    "mounts": mounts,
    "facts": {path: facts(path) for path in asked["paths"]},
    "namespaces": {name: os.stat("/proc/self/ns/" + name).st_ino for name in asked["namespaces"]},
    "interfaces": [line.split(":")[0].strip() for line in list(open("/proc/net/dev"))[2:]],
    "sizes": {at: os.statvfs(at).f_blocks * os.statvfs(at).f_frsize for at in ("/tmp", "/dev/shm")},
    "tasks": resource.getrlimit(resource.RLIMIT_NPROC)[0],
    "oom_score": int(open("/proc/self/oom_score_adj").read()),
    "command": open("/proc/self/cmdline").read().split(chr(0))[:-1],
    "uid": os.getuid(),
    "may_unshare": libc.unshare(0x10000000) == 0,
}
with open(scratch + "/telling", "w") as file:
    json.dump(told, file)
os.rename(scratch + "/telling", scratch + "/told")
until("go")
"""


@frozen
class Seen:
    """One run: its ``policy`` as compiled, what its agent ``told``, what the ``host`` has there."""

    policy: dict[str, Any]
    told: dict[str, Any]
    host: dict[str, list[int]]
    uid: int
    caps: dict[str, dict[str, Any]]
    command: list[str]

    @property
    def argv(self) -> list[str]:
        argv: list[str] = self.policy["argv"]
        return argv

    def mounts(self, *kinds: str) -> list[dict[str, Any]]:
        return [mount for mount in self.policy["mounts"] if mount["kind"] in kinds]


@pytest.fixture(scope="module")
def daemons() -> Iterator[dict[str, DaemonProcess]]:
    """A daemon of each user."""
    with daemons_of(NEUTRAL) as made:
        yield made


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], Seen]:
    """What was seen in each profile by each user: the first test of each asks."""
    return {}


@pytest.fixture
def seen(
    daemons: dict[str, DaemonProcess],
    known: dict[tuple[str, str], Seen],
    user: str,
    profile: str,
) -> Seen:
    """What was seen in one profile by one user."""
    if (user, profile) not in known:
        known[user, profile] = look(daemons[user], profile)
    return known[user, profile]


def look(daemon: DaemonProcess, profile: str) -> Seen:
    """Let an agent tell what it finds, and look at the same from the host."""
    repo = daemon.root / "repo"
    words = ("-a", "command", "--profile", profile, "-t", f"of-{profile}", "-d", "--json")
    begun = daemon.cli("run", *words, "--", "/usr/bin/python3", "-I", "-c", TELL, cwd=repo)
    assert begun.returncode == 0, begun.stdout + begun.stderr
    run = json.loads(begun.stdout)["run"]

    def shown() -> dict[str, Any]:
        found = daemon.cli("show", run, "--policy", "--json", cwd=repo)
        document: dict[str, Any] = json.loads(found.stdout) if found.returncode == 0 else {}
        return document if all(cap["by"] for cap in document.get("caps", [{"by": None}])) else {}

    at.until(lambda: bool(shown()))
    policy = shown()["policy"]
    scratch = _scratch(policy, daemon, run)
    paths = [mount["destination"] for mount in policy["mounts"]]
    _put(scratch / "asked", json.dumps({"paths": paths, "namespaces": NAMESPACES}))
    at.until(lambda: (scratch / "told").exists() or not scratch.exists())
    told = json.loads((scratch / "told").read_text())
    host = {m["destination"]: _file(m["source"]) for m in policy["mounts"] if "source" in m}
    document = shown()
    _put(scratch / "go", "")
    daemon.cli("wait", run, cwd=repo)
    result = json.loads(daemon.cli("result", run, "--json", cwd=repo).stdout)
    assert result["outcome"] == "succeeded", result["error"]
    caps = {cap["cap"]: cap for cap in document["caps"]}
    uid = daemon.state.stat().st_uid
    return Seen(policy, told, host, uid, caps, document["command"])


def _scratch(policy: dict[str, Any], daemon: DaemonProcess, run: str) -> Path:
    found = [m["source"] for m in policy["mounts"] if m["destination"] == "/scratch"]
    return Path(found[0]) if found else daemon.state / "runs" / run / "scratch"


def _put(path: Path, text: str) -> None:
    """Whole at once, and for another user to read."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.chmod(0o644)
    new.rename(path)


def _file(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return []
    return [found.st_dev, found.st_ino]


# --- what is compared ---


def environment(seen: Seen) -> None:
    """Exactly the variables that are named."""
    named = {each["name"] for each in seen.policy["environment"]}
    assert named <= set(seen.told["environment"]) <= named | ADDED


def directory(seen: Seen) -> None:
    """It begins where it is said."""
    assert seen.told["cwd"] == seen.policy["cwd"]


def command(seen: Seen) -> None:
    """What runs is the command on record, word by word."""
    assert seen.told["command"] == seen.command


def identity(seen: Seen) -> None:
    """It is nobody but who the daemon is."""
    assert seen.told["uid"] == seen.uid
    assert len(set(seen.told["status"]["Uid"].split())) == 1


def hostname(seen: Seen) -> None:
    """That of the policy; on the host, the host's."""
    assert seen.told["hostname"] == (seen.policy["hostname"] or os.uname().nodename)


def bound(seen: Seen) -> None:
    """Each bound path is the very file or directory of the host that is named."""
    for mount in seen.mounts("bind"):
        where = mount["destination"]
        there = seen.told["facts"][where]
        if not seen.host[where]:
            # Optional, and missing on the host.
            assert there is None or where not in seen.told["mounts"], where
        elif where != "/":
            assert there["file"] == seen.host[where], where


def mounted(seen: Seen) -> None:
    """Nothing is mounted but what is named, the root, and what /dev and /proc consist of."""
    named = {mount["destination"] for mount in seen.policy["mounts"]}
    more = {where for where in seen.told["mounts"] if where not in named | {"/"}}
    assert {where for where in more if not where.startswith("/dev/")} <= COVERED
    assert [where for where in more & COVERED if seen.told["mounts"][where]["writable"]] == []


def writable(seen: Seen) -> None:
    """What is mounted for writing is what is told to be; the rest of the root is not."""
    for mount in seen.policy["mounts"]:
        found = seen.told["mounts"].get(mount["destination"])
        if found is not None and mount["kind"] in ("bind", "cover"):
            assert found["writable"] == (mount["access"] == "read-write"), mount
    assert not seen.told["mounts"]["/"]["writable"]


def made(seen: Seen) -> None:
    """Files, directories and links that belong to the sandbox alone are there, of their kind."""
    kinds = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "symlink": stat.S_IFLNK}
    for mount in seen.mounts(*kinds):
        found = seen.told["facts"][mount["destination"]]
        assert found is not None, mount
        assert found["kind"] == kinds[mount["kind"]], mount


def memory(seen: Seen) -> None:
    """File systems in memory are where they are said to be, as large as is said."""
    for mount in seen.mounts("tmpfs"):
        assert seen.told["mounts"][mount["destination"]]["kind"] == "tmpfs", mount
    assert seen.told["sizes"]["/tmp"] == seen.caps["tmp_bytes"]["limit"]
    assert seen.told["sizes"]["/dev/shm"] == seen.caps["shm_bytes"]["limit"]


def capabilities(seen: Seen) -> None:
    """None in any set, and no program gives any."""
    assert seen.argv[seen.argv.index("--cap-drop") + 1] == "ALL"
    status = seen.told["status"]
    assert {int(status[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"] == "1"


def namespaces(seen: Seen) -> None:
    """Its own of each kind that the arguments make, the host's of every other."""
    own = {name for name in NAMESPACES if seen.told["namespaces"][name] != _host(name)}
    asked = {a.removeprefix("--unshare-").removesuffix("-try") for a in seen.argv if "unshare" in a}
    # Without rights none can be made but in a user namespace.
    assert own == asked | {"mnt"} | ({"user"} if seen.uid else set())


def _host(name: str) -> int:
    return os.stat(f"/proc/self/ns/{name}").st_ino


def nesting(seen: Seen) -> None:
    """A further user namespace can be made where no argument forbids it, and nowhere else."""
    forbidden = "--disable-userns" in seen.argv
    assert forbidden == (seen.policy["profile"] != "host")
    assert not (forbidden and seen.told["may_unshare"])


def system_calls(seen: Seen) -> None:
    """One filter, where one is named; none besides those of whoever started the daemon."""
    filters = int(seen.told["status"]["Seccomp_filters"]) - _filters()
    assert filters == (seen.policy["system_calls"]["filter"] != "none")


def _filters() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Seccomp_filters")))


def network(seen: Seen) -> None:
    """A network of its own is a loopback; the gate's variables are there where there is one."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    of_host = [line.split(":")[0].strip() for line in lines]
    own = "--unshare-net" in seen.argv
    assert own == (seen.policy["network"] != "host")
    assert sorted(seen.told["interfaces"]) == (["lo"] if own else sorted(of_host))


def caps(seen: Seen) -> None:
    """Tasks and the OOM score are set where the kernel is said to hold them."""
    if seen.caps["tasks"]["by"] == "kernel" and seen.uid != 0:
        assert seen.told["tasks"] == seen.caps["tasks"]["limit"]
    assert seen.caps["oom_score"]["by"] == "kernel"
    assert seen.told["oom_score"] == seen.caps["oom_score"]["limit"]
    assert {cap["by"] for cap in seen.caps.values()} <= {"kernel", "watched"}


EVERYWHERE = (
    *(environment, directory, command, identity, hostname, bound),
    *(namespaces, nesting, system_calls, network),
)
BEHIND_WALLS = (mounted, writable, made, memory, capabilities, caps)
CASES = [
    (user, profile, fact)
    for user in USERS
    for profile in PROFILES
    for fact in (*EVERYWHERE, *(BEHIND_WALLS if profile in WALLED else ()))
]


@pytest.mark.parametrize(("user", "profile", "fact"), CASES)
def test_a_fact_inside_is_that_of_the_policy(seen: Seen, fact: Callable[[Seen], None]) -> None:
    """What an agent finds is what was compiled, no more and no less."""
    fact(seen)
