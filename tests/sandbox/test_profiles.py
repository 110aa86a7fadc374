"""The edit profile as data: what is in it, and what never is."""

from pathlib import Path

import pytest
from attrs import evolve

from coachman_sandbox import profiles
from coachman_sandbox.authority import exceeding
from coachman_sandbox.bubblewrap import compile_policy, describe
from coachman_sandbox.host import Host
from coachman_sandbox.policy import AgentAccess, Bind, Cover, File, Place, PolicyError, Tmpfs


def destinations(policy: profiles.Policy, *, writable: bool) -> set[str]:
    return {
        mount.destination
        for mount in policy.mounts
        if isinstance(mount, Bind) and mount.writable is writable
    }


def test_edit_writes_in_four_places_only(place: Place, agent: AgentAccess, host: Host) -> None:
    """Workspace, home, scratch and output are the only writable binds."""
    policy = profiles.edit(place, agent, host)
    assert destinations(policy, writable=True) == {
        "/workspace",
        "/home/agent",
        "/scratch",
        "/output",
    }
    assert policy.cwd == "/workspace"


def test_edit_never_binds_the_host_root_or_its_etc(
    place: Place, agent: AgentAccess, host: Host
) -> None:
    """The root is empty but for what is named; /etc is made of files."""
    sources = {m.source for m in profiles.edit(place, agent, host).mounts if isinstance(m, Bind)}
    assert not sources & {"/", "/etc", "/home", "/root", "/run", "/tmp", "/var", "/s", "/r/.git"}


def test_of_the_repository_nothing_is_bound_but_what_was_made_for_the_run(
    place: Place, agent: AgentAccess, host: Host
) -> None:
    """One read-only directory of the run stands for the repository, and a pointer leads there."""
    policy = profiles.edit(place, agent, host)
    shown = [
        (m.source, m.writable)
        for m in policy.mounts
        if isinstance(m, Bind) and m.destination.startswith("/git")
    ]
    assert shown == [("/s/runs/x/git", False)]
    covers = [mount for mount in policy.mounts if isinstance(mount, Cover)]
    pointer = b"gitdir: /git, coachman commits for you\n"
    assert [(cover.destination, cover.content) for cover in covers] == [
        ("/workspace/.git", pointer)
    ]


def test_no_repository_no_git(place: Place, agent: AgentAccess, host: Host) -> None:
    """Without a view there is no pointer, and without a workspace an empty read-only one."""
    policy = profiles.edit(evolve(place, git=None, workspace=None), agent, host)
    assert not [mount for mount in policy.mounts if "git" in mount.destination]
    assert "--dir /workspace" in " ".join(compile_policy(policy).args)


@pytest.mark.parametrize("inner", ["/opt/agent", "/opt/agent/lib/state", "/opt/agent/s"])
def test_the_state_directory_is_masked_or_refused(
    place: Place, agent: AgentAccess, host: Host, inner: str
) -> None:
    """A bind that contains the state gets an empty file system over it; the state itself fails."""
    moved = evolve(place, state_dir=inner)
    if inner == "/opt/agent":
        with pytest.raises(PolicyError, match="state directory"):
            profiles.edit(moved, agent, host)
        return
    masks = [mount for mount in profiles.edit(moved, agent, host).mounts if mount.role == "mask"]
    assert [(type(mask), mask.destination) for mask in masks] == [(Tmpfs, inner)]


def test_a_path_inside_another_is_bound_once(place: Place, host: Host) -> None:
    """The agent's binds are reduced to the outermost, /usr covers what lies in it."""
    binds = ("/opt/a/b", "/opt/a", "/opt/a", "/usr/lib/node_modules/x", "/opt/ab")
    policy = profiles.edit(place, AgentAccess(binds=binds), host)
    runtime = [mount.destination for mount in policy.mounts if mount.role == "runtime"]
    assert runtime == ["/opt/a", "/opt/ab"]


def test_the_kernels_settings_are_read_only_for_everyone(
    place: Place, agent: AgentAccess, host: Host
) -> None:
    """/proc/sys is bound over, whoever the daemon runs as."""
    for uid in (0, 1000):
        policy = profiles.edit(place, agent, evolve(host, uid=uid))
        assert Bind("/proc/sys", "/proc/sys") in policy.mounts


def test_etc_has_our_user_and_the_resolved_files(
    place: Place, agent: AgentAccess, host: Host
) -> None:
    """passwd names our uid with the sandbox's home; resolv.conf is the host's content."""
    mounts = profiles.edit(place, agent, host).mounts
    files = {mount.destination: mount.content for mount in mounts if isinstance(mount, File)}
    assert b"agent:x:1000:1000::/home/agent:/bin/sh\n" in files["/etc/passwd"]
    assert b"agent:x:1000:\n" in files["/etc/group"]
    assert files["/etc/resolv.conf"] == b"nameserver 192.0.2.1\n"
    assert files["/etc/ssl/certs/ca-certificates.crt"] == b"certificates\n"


def test_a_profile_has_the_eight_facts_and_says_what_is_in_reach() -> None:
    """Every profile states all facts; the network's says what its one way out is."""
    for name in profiles.PROFILES:
        assert tuple(profiles.PROFILES[name].facts) == profiles.FACTS
    assert "one way out, the gate" in profiles.EDIT.facts["network"]


def test_a_preview_names_places_instead_of_a_run(agent: AgentAccess, host: Host) -> None:
    """The policy can be shown with no run: placeholders for paths, names for values."""
    shown = describe(profiles.preview(profiles.EDIT, agent, host))
    workspace = next(m for m in shown["mounts"] if m["destination"] == "/workspace")
    assert workspace["source"] == "/STATE/worktrees/REPOSITORY/TASK"
    assert workspace["access"] == "read-write"
    assert {"name": "API_KEY", "secret": True} in shown["environment"]
    assert "sk-secret" not in str(shown)
    told = {variable["name"] for variable in shown["environment"]}
    assert {"COACHMAN_RUN", "COACHMAN_TASK", "COACHMAN_DEADLINE"} <= told


def test_the_facts_are_documented_as_they_are() -> None:
    """The table of docs/profiles.md holds each fact word for word."""
    page = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text()
    for name in profiles.PROFILES:
        for fact, text in profiles.PROFILES[name].facts.items():
            assert f"| {fact} | {text} |" in page


def test_review_writes_everywhere_but_in_the_worktree(
    place: Place, agent: AgentAccess, host: Host
) -> None:
    """It is edit with a read-only worktree: nothing else differs, and it is less."""
    edit, review = (build(place, agent, host) for build in (profiles.edit, profiles.review))
    worktree = next(m for m in edit.mounts if m.destination == "/workspace")
    assert isinstance(worktree, Bind)
    read_only = evolve(worktree, writable=False)

    assert set(review.mounts) ^ set(edit.mounts) == {worktree, read_only}
    assert review.digest != edit.digest
    assert exceeding(review, edit) is None
    assert exceeding(edit, review) == "read-write /workspace"


def test_host_is_the_whole_host_in_a_namespace_of_processes(
    place: Place, agent: AgentAccess, host: Host
) -> None:
    """One bind with its devices, a fresh /proc, no filter, no seal; the digest is its own."""
    policy = profiles.host(evolve(place, subfolder="sub"), agent, host)
    args = compile_policy(policy).args

    assert policy.cwd == "/s/worktrees/r/t1/sub"
    assert " ".join(args).count("--dev-bind / /") == 1
    assert "--unshare-pid" in args
    assert not {"--unshare-user", "--seccomp", "--remount-ro", "--disable-userns"} & set(args)
    assert "sk-secret" not in str(describe(policy))
    assert policy.digest != profiles.edit(place, agent, host).digest


def test_sealed_names_no_place_but_its_own(place: Place, agent: AgentAccess, host: Host) -> None:
    """No repository, no worktree, no host names, and guest programs by their content alone."""
    sealed = evolve(place, guest=None, guests={"demo_agent.py": b"program"})
    policy = profiles.sealed(sealed, agent, evolve(host, hosts=b"192.0.2.9 intranet\n"))
    files = {mount.destination: mount.content for mount in policy.mounts if isinstance(mount, File)}

    assert destinations(policy, writable=True) == {"/home/agent", "/scratch", "/output"}
    assert not [mount for mount in policy.mounts if "git" in mount.destination]
    assert files["/run/coachman/demo_agent.py"] == b"program"
    assert b"intranet" not in files["/etc/hosts"]
    assert (policy.cwd, policy.profile) == ("/workspace", "sealed")
