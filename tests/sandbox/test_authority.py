"""One compiled policy compared with another: what a child's may not have beyond its parent's."""

import pytest
from attrs import evolve

from coachman_sandbox import profiles
from coachman_sandbox.authority import exceeding
from coachman_sandbox.host import Host
from coachman_sandbox.policy import AgentAccess, Bind, Caps, Delegate, Place, Policy, Tmpfs


@pytest.fixture
def parent(place: Place, agent: AgentAccess, host: Host) -> Policy:
    """A run that has a socket of its own."""
    socket = Delegate("/s/runs/x/delegate", "/opt/client/coachman", "/usr/bin/python3")
    policy = profiles.edit(evolve(place, delegate=socket), agent, host)
    return evolve(policy, caps=Caps(memory_bytes=1 << 30))


def test_an_equal_policy_elsewhere_exceeds_nothing(
    parent: Policy, place: Place, agent: AgentAccess, host: Host
) -> None:
    """Where a run's own directories lie, and what its profile is called, say nothing."""
    own = evolve(place, workspace="/s/worktrees/r/t2", home="/s/agents/r/t2/demo")
    child = evolve(profiles.edit(own, agent, host), profile="other", caps=parent.caps)

    assert exceeding(child, parent) is None
    assert exceeding(parent, parent) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"user_namespaces": True}, "user namespaces"),
        ({"confinement": "processes"}, "a boundary of processes alone"),
        ({"confinement": "none"}, "no boundary at all"),
        ({"admitted": frozenset({"CI"})}, "variables CI"),
        ({"system_calls": "none"}, "system calls none"),
        ({"credentials": frozenset({"API_KEY", "OTHER"})}, "credentials OTHER"),
        ({"caps": None}, "caps on everything"),
        ({"caps": Caps(memory_bytes=2 << 30)}, "caps on memory_bytes"),
        ({"caps": Caps(memory_bytes=1 << 30, tasks=2048)}, "caps on tasks"),
    ],
)
def test_what_is_looser_is_named(parent: Policy, change: dict[str, object], named: str) -> None:
    """Namespaces, credentials and caps are compared one by one."""
    assert exceeding(evolve(parent, **change), parent) == named


@pytest.mark.parametrize(
    ("mount", "named"),
    [
        (Bind("/home/me", "/home/me"), "read-only /home/me"),
        (Bind("/opt", "/opt", role="runtime"), "read-only /opt"),
        (Bind("/usr", "/usr2", writable=True), "read-write /usr2"),
        (Bind("/s/secret", "/secret", role="place"), "read-only /secret"),
        (Bind("/data", "/data", role="extra"), "read-only /data"),
        (Bind("/usr/x", "/usr/x", writable=True, role="extra"), "read-write /usr/x"),
        (Bind("/s/x", "/inputs", writable=True, role="place"), "read-write /inputs"),
    ],
)
def test_a_mount_that_the_parent_lacks_is_named(parent: Policy, mount: Bind, named: str) -> None:
    """A path of the host, one above what is granted, or more than reading it."""
    mounts = [each for each in parent.mounts if each.destination != mount.destination]

    assert exceeding(evolve(parent, mounts=(*mounts, mount)), parent) == named


def test_nothing_confined_gives_what_the_host_has(
    parent: Policy, place: Place, agent: AgentAccess, host: Host
) -> None:
    """A run on the host exceeds every other, and every other is within it."""
    native = profiles.host(place, agent, host)
    without_walls = evolve(native, confinement="walls", system_calls="strict", caps=parent.caps)

    assert exceeding(native, parent) == "a boundary of processes alone"
    assert exceeding(evolve(without_walls, user_namespaces=False), parent) == "read-write /"
    assert exceeding(native, native) is None


def test_what_is_less_or_below_is_granted(parent: Policy) -> None:
    """Reading what the parent may write, a part of what it reads, and memory are no more."""
    less = (
        Bind("/s/worktrees/r/t2", "/workspace", role="place"),
        Bind("/opt/agent/bin", "/opt/agent/bin", role="runtime"),
        Tmpfs("/more", 1024),
    )

    assert exceeding(evolve(parent, mounts=less), parent) is None
