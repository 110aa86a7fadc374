"""What the doctor concludes of facts, as tables: file systems, clocks, hosts, caps."""

from pathlib import Path
from typing import Any

import pytest

from coachman.wire import EXIT_BOUNDARY, EXIT_CONFIG
from coachman_adapters import ADAPTERS
from coachmand.doctor.agents import Patient
from coachmand.doctor.caps import manager_of, remedy_of
from coachmand.doctor.filesystems import FUSE, FileSystem, kind_of, magic_of
from coachmand.doctor.moments import judged as judged_clock
from coachmand.doctor.reaching import judged
from coachmand.doctor.walls import confining

NOW = 1_795_990_000.0


@pytest.mark.parametrize(
    ("magic", "mounted_as", "kind"),
    [
        (0xEF53, "ext4", FileSystem("ext4", "kept")),
        (0x9123683E, "btrfs", FileSystem("btrfs", "kept")),
        (0x6969, "nfs4", FileSystem("nfs", "network")),
        (0xFE534D42, "cifs", FileSystem("smb2", "network")),
        (0x01021997, "9p", FileSystem("9p", "network")),
        (0x01021997, "drvfs", FileSystem("drvfs", "windows")),
        (0x01021994, "tmpfs", FileSystem("tmpfs", "memory")),
        (FUSE, "fuse.sshfs", FileSystem("fuse.sshfs", "network")),
        (FUSE, "fuse.gocryptfs", FileSystem("fuse.gocryptfs", "kept")),
        (FUSE, "", FileSystem("fuse", "network")),
        (0x12345678, "newfs", FileSystem("newfs", "unknown")),
        (0x12345678, "", FileSystem("0x12345678", "unknown")),
    ],
)
def test_a_file_system_is_known_by_its_number(
    magic: int, mounted_as: str, kind: FileSystem
) -> None:
    """And where the number is FUSE's, or Windows' own disk's, by the type that it is mounted as."""
    assert kind_of(magic, mounted_as) == kind


def test_a_path_is_asked_for_its_file_systems_number(tmp_path: Path) -> None:
    """/proc and /dev/shm have theirs everywhere; what is not there has none."""
    assert magic_of("/proc") == 0x9FA0
    assert kind_of(magic_of("/dev/shm"), "").holds == "memory"
    with pytest.raises(FileNotFoundError):
        magic_of(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("ahead_s", "status", "words"),
    [
        (-3600.0, "ok", "from the future"),
        (30.0, "ok", "from the future"),
        (600.0, "warning", "10 min behind /s/generation"),
        (7200.0, "warning", "2 h behind"),
        (400 * 86_400.0, "failed", "400 d behind"),
    ],
)
def test_a_clock_is_judged_by_what_was_written(ahead_s: float, status: str, words: str) -> None:
    """A file of a later moment than now says that the clock was set back."""
    found = judged_clock((NOW + ahead_s, "/s/generation"), NOW)
    assert (found["status"], words in found["found"]) == (status, True)
    assert (found["remedy"] is None) is (status == "ok")


@pytest.mark.parametrize(
    ("abi", "status", "words"),
    [(7, "ok", "ABI 7"), (2, "ok", "ABI 2"), (1, "failed", "ABI 1"), (0, "failed", "no Landlock")],
)
def test_git_needs_landlock(abi: int, status: str, words: str) -> None:
    """Its second version is the first that a commit can be made under."""
    found = confining(abi, "5.15.0")
    assert (found["status"], words in found["found"]) == (status, True)
    assert found["exit"] == (EXIT_BOUNDARY if status == "failed" else None)


def patient(name: str = "claude", *, wanted: bool = True) -> Patient:
    """An agent that is examined."""
    return Patient(name, ADAPTERS[name], {}, {}, wanted)


def line(place: str, stage: str = "done", why: str | None = None) -> dict[str, Any]:
    """What the program inside says of one destination."""
    return {"place": place, "ok": stage == "done", "stage": stage, "why": why}


API, OTHER, OWN = "api.example.org:443", "auth.example.org:443", "127.0.0.1:11434"
GONE = "coachman's gate: cannot resolve x: Name or service not known (unreachable)"
FOREIGN = "its certificate is not trusted: self-signed certificate"


@pytest.mark.parametrize(
    ("tried", "told", "status", "words"),
    [
        ([line(API), line(OTHER)], (), "ok", "from inside: api"),
        ([line(API), line(OTHER, "proxy", GONE)], (), "warning", "cannot resolve x: Name"),
        ([line(API, "proxy", GONE), line(OTHER, "proxy", GONE)], (), "failed", "HTTPS_PROXY"),
        ([line(API, "tls", FOREIGN), line(OTHER, "tls", FOREIGN)], (), "failed", "SSL_CERT_FILE"),
        ([line(API)], (), "warning", "no answer in time"),
        ([], (), "failed", "firewall: curl -v https://api.example.org:443"),
        ([line(OWN), line(API, "proxy", GONE)], (OWN,), "ok", "nor needed: api.example.org"),
        ([line(OWN, "proxy", "refused"), line(API)], (OWN,), "failed", "127.0.0.1:11434 (refused)"),
        (
            [line(API, "proxy", "api is not allowed to this run (not_allowed)")],
            (API,),
            "failed",
            "configured `network`",
        ),
    ],
)
def test_an_agents_hosts_are_judged_together(
    tried: list[dict[str, Any]], told: tuple[str, ...], status: str, words: str
) -> None:
    """Those that the user named have to be there; without any, one of the usual ones."""
    places = (*told, *(place for place in (API, OTHER) if place not in told))
    if OWN in told:
        places = (OWN, API)
    found = judged(patient(), places, {each["place"]: each for each in tried}, told)
    assert found["status"] == status
    assert words in f"{found['found']} {found['remedy']}"
    assert found["exit"] == (EXIT_CONFIG if status == "failed" else None)


def test_an_agent_that_nobody_asked_for_fails_nothing() -> None:
    """Its host is missed, and runs of others start."""
    gone = {API: line(API, "proxy", GONE)}
    assert judged(patient(wanted=False), (API,), gone, ())["status"] == "warning"


@pytest.mark.parametrize(
    ("cgroup", "manager"),
    [
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/coachman.service",
            "/user.slice/user-1000.slice/user@1000.service",
        ),
        (
            "/user.slice/user-1000.slice/session-2.scope",
            "/user.slice/user-1000.slice/user@1000.service",
        ),
        ("/", "/"),
        ("/docker/abc", "/docker/abc"),
    ],
)
def test_a_users_own_cgroup_is_its_managers(cgroup: str, manager: str) -> None:
    """A login's session lies beside it, a service below."""
    assert manager_of(cgroup) == manager


def test_caps_are_held_by_a_manager_that_has_the_controllers() -> None:
    """One that has them needs only the daemon as its service."""
    assert remedy_of(["cpu", "memory", "pids"]).startswith("coachman daemon install")
    assert "Delegate=yes" in remedy_of(["cpu", "pids"])
