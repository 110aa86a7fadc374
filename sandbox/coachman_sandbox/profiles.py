"""The profiles: what a run of each kind may touch, as policies and as facts for people."""

import posixpath
import shlex
from collections.abc import Iterator, Mapping
from typing import Literal, Protocol

from attrs import evolve, field, frozen

from . import layout
from .environment import guest_environment, run_variables
from .host import LOCALHOST, NSSWITCH, Host, group, passwd
from .network import AGENT, REGISTRIES
from .network import HOST as HOST_WORD
from .policy import (
    AgentAccess,
    Bind,
    Caps,
    Cover,
    Delegate,
    Dev,
    Directory,
    File,
    GitView,
    Mount,
    Place,
    Policy,
    PolicyError,
    Proc,
    Symlink,
    Tmpfs,
    contains,
)

MEMORY_BYTES = 8 * 1024**3
FACTS = (
    "worktree",
    "repository",
    "host_paths",
    "instructions",
    "identity",
    "network",
    "permissions",
    "confinement",
)


class Build(Protocol):
    """How a profile makes the policy of one run."""

    def __call__(self, place: Place, agent: AgentAccess, host: Host) -> Policy: ...


@frozen
class Profile:
    """A profile by name; ``facts`` has one sentence for each of ``FACTS``.

    ``no_delegate``: why its runs have no socket of their own, where they have none. ``writes``:
    its agent changes the task's worktree, so that one such run works there at a time.
    ``repository``: it has one, and with it a worktree. ``inherits``: what the user wrote for an
    agent (configuration, rules, skills) crosses; ``named``: its agent is told which run and task
    it is. ``native``: its agent is where the user is, with the user's own home and paths.
    ``network`` is what its runs may reach where nobody says otherwise, ``offers`` what they are
    given for the asking.

    A profile of the user's own is made of its ``base``, and may say which ``permissions`` its runs
    have, which variables cross besides the agent's (``environment``) and which ``caps`` are not
    as the base has them.
    """

    name: str
    facts: Mapping[str, str]
    build: Build
    no_delegate: str | None = None
    writes: bool = True
    repository: bool = True
    inherits: bool = True
    named: bool = True
    native: bool = False
    network: tuple[str, ...] = (AGENT,)
    offers: tuple[str, ...] = (AGENT,)
    permissions: Literal["allow", "ask", "deny"] | None = None
    environment: tuple[str, ...] = ()
    caps: Mapping[str, int] = field(factory=dict)
    base: str | None = None

    @property
    def delegates(self) -> bool:
        """Whether its runs may start others, over a socket of their own."""
        return self.no_delegate is None


def edit(place: Place, agent: AgentAccess, host: Host) -> Policy:
    """The agent edits the task's worktree and reads the repository; nothing else of the host's.

    Pure: it reads neither files nor the environment. Raises PolicyError for a
    place that would show the state directory.
    """
    return _isolated("edit", place, agent, host)


def review(place: Place, agent: AgentAccess, host: Host) -> Policy:
    """The same, but the agent can change nothing in the worktree. Pure, as `edit`."""
    return _isolated("review", place, agent, host, writes=False)


def sealed(place: Place, agent: AgentAccess, host: Host) -> Policy:
    """No repository, nothing of the user's but a credential, and nothing that tells whose it is.

    Pure, as `edit`; the place's directories are to have neutral paths.
    """
    bare = evolve(place, workspace=None, subfolder="", git=None)
    # Names of the user's network and their time zone tell who they are.
    policy = _isolated("sealed", bare, agent, evolve(host, hosts=LOCALHOST, localtime=None))
    return evolve(policy, instructions=False)


def host(place: Place, agent: AgentAccess, host: Host) -> Policy:
    """Everything that the user has, in a namespace of processes: the tree dies whole. Pure."""
    if place.workspace is None:
        raise PolicyError("cannot run on the host: there is no worktree")
    told = {
        "COACHMAN_OUTPUT": place.output,
        "COACHMAN_INPUTS": place.inputs or "",
        "COACHMAN_SCRATCH": place.scratch,
    }
    return Policy(
        profile="host",
        mounts=(Bind("/", "/", writable=True, devices=True), Proc()),
        cwd=posixpath.join(place.workspace, place.subfolder).rstrip("/"),
        env={**agent.env, **agent.credentials, **told},
        credentials=frozenset(agent.credentials),
        hostname="",
        user_namespaces=True,
        system_calls="none",
        confinement="processes",
    )


def without_namespace(policy: Policy) -> Policy:
    """The policy of a run on the host, without the namespace that its tree ends with. Pure."""
    return evolve(policy, mounts=(), confinement="none")


def _isolated(
    name: str, place: Place, agent: AgentAccess, host: Host, *, writes: bool = True
) -> Policy:
    mounts = [
        *_system(host),
        *_place(place, writes=writes),
        *(_git(place.git) if place.git and place.workspace else ()),
        *(_delegate(place.delegate) if place.delegate else ()),
        *place.extra,
        *_runtime(agent.binds, place.extra, host.directories),
    ]
    path = (layout.DELEGATE_PATH, *agent.path) if place.delegate else agent.path
    env = guest_environment(host.user, agent.env, agent.credentials, path)
    return Policy(
        profile=name,
        mounts=(*mounts, *_masks(mounts, place.state_dir)),
        cwd=posixpath.join(layout.WORKSPACE, place.subfolder).rstrip("/"),
        env=env,
        credentials=frozenset(agent.credentials),
        hostname=layout.HOSTNAME,
        caps=caps(host),
    )


def caps(host: Host) -> Caps:
    """Half of the machine's memory, at most 8 GiB; the rest is the same everywhere."""
    return Caps(min(host.memory_bytes // 2, MEMORY_BYTES))


def _system(host: Host) -> Iterator[Mount]:
    for path in (*host.directories, *host.files):
        yield Bind(path, path)
    for path, target in host.links:
        yield Symlink(target, path)
    yield from (Proc(read_only=host.uid == 0), Dev())
    yield Tmpfs(layout.SHM, layout.SHM_BYTES, 0o1777)
    yield Tmpfs(layout.TMP, layout.TMP_BYTES, 0o1777)
    yield Symlink("../tmp", "/var/tmp")  # noqa: S108 - a path inside the sandbox
    # bubblewrap maps us to ourselves: root owns the kernel's settings, and anyone
    # those of the new namespaces.
    yield Bind("/proc/sys", "/proc/sys")
    # Open to everybody's triggers.
    yield Bind("/proc/pressure", "/proc/pressure", optional=True)
    # No device opens here, so that nothing is read there either.
    yield from (Bind("/dev/null", path, role="mask") for path in host.masked)
    yield from _etc(host)


def _etc(host: Host) -> Iterator[Mount]:
    yield File("/etc/passwd", passwd(host))
    yield File("/etc/group", group(host))
    yield File("/etc/hosts", host.hosts)
    yield File("/etc/resolv.conf", host.resolv_conf)
    yield File("/etc/nsswitch.conf", NSSWITCH)
    yield Symlink("../usr/lib/os-release", "/etc/os-release")
    if isinstance(host.localtime, str):
        yield Symlink(host.localtime, "/etc/localtime")
    elif host.localtime:
        yield File("/etc/localtime", host.localtime)
    if host.ca_bundle:
        yield File(layout.CA_BUNDLE, host.ca_bundle)
        yield from (Symlink(layout.CA_BUNDLE, alias) for alias in layout.CA_BUNDLE_ALIASES)


def _place(place: Place, *, writes: bool) -> Iterator[Mount]:
    if place.workspace is None:
        yield Directory(layout.WORKSPACE, role="place")
    else:
        yield Bind(place.workspace, layout.WORKSPACE, writable=writes, role="place")
    yield Bind(place.home, layout.HOME, writable=True, role="place")
    yield Bind(place.scratch, layout.SCRATCH, writable=True, role="place")
    yield Bind(place.output, layout.OUTPUT, writable=True, role="place")
    if place.inputs is None:
        yield Directory(layout.INPUTS, role="place")
    else:
        yield Bind(place.inputs, layout.INPUTS, role="place")
    if place.guest is not None:
        yield Bind(place.guest, layout.GUEST, role="place")
    for name, content in place.guests.items():
        yield File(f"{layout.GUEST}/{name}", content, role="place")


# As the launcher of an installation: an isolated interpreter, and this one package.
_COMMAND = """#!/bin/sh
export COACHMAN_SOCKET="${{COACHMAN_SOCKET:-{socket}}}"
export COACHMAN_DELEGATE="${{COACHMAN_DELEGATE:-1}}"
exec {python} -I -S -c 'import os, sys
sys.path.append("{packages}")
from coachman.cli.main import main
os._exit(main())' "$@"
"""


def _delegate(delegate: Delegate) -> Iterator[Mount]:
    yield Bind(delegate.directory, layout.DELEGATE_SOCKETS, role="place")
    yield Bind(delegate.client, layout.DELEGATE_PACKAGE, role="place")
    command = _COMMAND.format(
        socket=layout.DELEGATE_SOCKET,
        python=shlex.quote(delegate.python),
        packages=posixpath.dirname(layout.DELEGATE_PACKAGE),
    )
    yield File(f"{layout.DELEGATE_PATH}/coachman", command.encode(), 0o555, role="place")


def _git(view: GitView) -> Iterator[Mount]:
    yield Bind(view.directory, layout.GIT_COMMON, role="place")
    yield Cover(layout.WORKSPACE_GIT, f"gitdir: {layout.GIT_COMMON}\n".encode())


def _runtime(
    paths: tuple[str, ...], extra: tuple[Bind, ...], given: tuple[str, ...]
) -> Iterator[Bind]:
    """The agent's program, as far as it is not there by itself.

    It stays read-only also where it lies in what may be written.
    """
    own = {each.destination for each in extra}
    there = tuple(each.destination for each in extra if not each.writable)
    for path in _outermost(paths, (*given, *there)):
        if path not in own:
            yield Bind(path, path, role="runtime")


def _outermost(paths: tuple[str, ...], given: tuple[str, ...]) -> list[str]:
    """Without the paths that lie inside another one: each is bound once."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(contains(outer, path) for outer in (*given, *kept)):
            kept.append(path)
    return kept


def _masks(mounts: list[Mount], state_dir: str) -> Iterator[Mount]:
    for mount in mounts:
        if not isinstance(mount, Bind):
            continue
        if mount.role != "place" and contains(state_dir, mount.source):
            raise PolicyError(f"cannot show {mount.source}: it lies in the state directory")
        if not contains(mount.source, state_dir):
            continue
        below = state_dir[len(mount.source.rstrip("/")) :]
        if not below:
            raise PolicyError(f"cannot show {mount.source}: it is the state directory")
        yield Tmpfs(mount.destination.rstrip("/") + below, layout.MASK_BYTES, 0o555, role="mask")


EDIT = Profile(
    name="edit",
    facts={
        "worktree": "the task's own worktree, read-write at /workspace",
        "repository": "what the base reaches, read-only: its history, and branches and tags "
        "that lie in it; nothing of other branches, stashes or tasks, no remotes, no hooks; "
        "coachman commits",
        "host_paths": "/usr and a synthesized /etc read-only, the agent's own program; "
        "nothing of your home or of other runs",
        "instructions": "the project's own files; copies of the agent's configuration, rules and "
        "skills of yours",
        "identity": "the task's: a private home, no login of yours but what the agent needs",
        "network": "its own, with one way out, the gate: the hosts of the agent, unless the run "
        "names others; no service of this machine, no LAN, no abstract sockets",
        "permissions": "allowed and recorded, unless the run says ask or deny",
        "confinement": "namespaces for users, processes, IPC, host name and cgroups; no "
        "capabilities, no new namespaces; a strict filter for system calls; caps "
        "on memory, tasks and disk, held or watched",
    },
    build=edit,
    offers=(AGENT, REGISTRIES),
)

REVIEW = Profile(
    name="review",
    facts={
        **EDIT.facts,
        "worktree": "the task's own worktree, read-only at /workspace; results go to /output",
        "repository": "what the base reaches, read-only: its history, and branches and tags that "
        "lie in it; nothing of other branches, stashes or tasks, no remotes, no hooks",
    },
    build=review,
    writes=False,
)

SEALED = Profile(
    name="sealed",
    facts={
        **EDIT.facts,
        "worktree": "none: /workspace is empty and read-only; results go to /output",
        "repository": "none, and none is needed",
        "host_paths": "/usr and a synthesized /etc read-only, the agent's own program at its own "
        "path; the run's own directories lie at neutral ones",
        "instructions": "none but the prompt and the inputs",
        "identity": "opaque: a private home with the agent's login, and where the model is that it "
        "is for; neither run nor task nor time zone nor names of your network",
    },
    build=sealed,
    no_delegate="its agent is not to know which run and which task it is, and a socket tells both",
    writes=False,
    repository=False,
    inherits=False,
    named=False,
)

HOST = Profile(
    name="host",
    facts={
        "worktree": "the task's own worktree, read-write at its path on the host",
        "repository": "the repository itself: its agent may commit, and change refs and settings",
        "host_paths": "everything that you may read and write",
        "instructions": "the project's and yours, as they are",
        "identity": "yours: your home, your logins, your rights but for set-id programs",
        "network": "the host's own: loopback services, the LAN and abstract sockets are reachable",
        "permissions": "asked for, unless the run or the configuration says otherwise",
        "confinement": "a namespace for processes alone, so that the tree dies whole, or with "
        "--native none, and a weaker kill; deadlines and evidence; no filter, no caps",
    },
    build=host,
    no_delegate="its agent is not confined: it could hand on all that you have",
    native=True,
    network=(HOST_WORD,),
    offers=(HOST_WORD,),
)

PROFILES: Mapping[str, Profile] = {each.name: each for each in (EDIT, REVIEW, SEALED, HOST)}


def delegating() -> str:
    """The profiles that go with a delegate, in words."""
    return ", ".join(each.name for each in PROFILES.values() if each.delegates)


def preview(profile: Profile, agent: AgentAccess, host: Host) -> Policy:
    """The policy of a profile with placeholders for what differs by run, to be shown."""
    neutral = not profile.named
    own = "/NEUTRAL/RUN" if neutral else "/STATE/runs/RUN"
    told = run_variables("RUN", "TASK", 0, named=profile.named)
    told_agent = evolve(agent, env={**agent.env, **told})
    place = Place(
        workspace="/STATE/worktrees/REPOSITORY/TASK",
        subfolder="",
        git=GitView("/STATE/runs/RUN/git"),
        home="/NEUTRAL/TASK/AGENT" if neutral else "/STATE/agents/REPOSITORY/TASK/AGENT",
        scratch=f"{own}/scratch",
        output=f"{own}/output",
        inputs=f"{own}/inputs",
        guest=None if neutral else "/INSTALLATION/guest",
        state_dir="/STATE",
    )
    return profile.build(place, told_agent, host)
