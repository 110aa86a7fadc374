"""A profile of the user's own: a built-in one, and what the user says in place of its facts."""

import posixpath
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from attrs import evolve, frozen

from . import layout
from .host import Host
from .policy import AgentAccess, Bind, Place, Policy, contains
from .profiles import PROFILES, Profile

# What each run has at these paths is its own.
OWN_PATHS = (
    *(layout.WORKSPACE, layout.HOME, layout.SCRATCH, layout.OUTPUT, layout.INPUTS, layout.GUEST),
    *(layout.GIT_COMMON, posixpath.dirname(layout.DELEGATE_PATH)),
    *("/proc", "/sys", "/dev", "/etc", "/var/tmp"),  # noqa: S108 - paths inside the sandbox
)


@frozen
class Extra:
    """A ``path`` of the host that is seen inside under the same name.

    ``source`` is where links lead from there, "" until somebody looked.
    """

    path: str
    writable: bool = False
    source: str = ""

    def __str__(self) -> str:
        return f"{self.path} {'read-write' if self.writable else 'read-only'}"


@frozen
class Custom:
    """What a profile says over the built-in ``base``, all that it inherits included.

    None and empty: as the base has it. ``path`` are directories for PATH inside, ``environment``
    names of variables that cross besides the agent's. ``caps`` are those of `Caps` that it says.
    """

    base: str
    mounts: tuple[Extra, ...] = ()
    path: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    instructions: bool | None = None
    delegate: bool | None = None
    permissions: Literal["allow", "ask", "deny"] | None = None
    network: tuple[str, ...] | None = None
    caps: tuple[tuple[str, int], ...] = ()


def why_unfit(path: str) -> str | None:
    """Why a path of the host cannot be seen under its own name inside; None where it can."""
    if path in ("/", layout.TMP):
        return f"{path} inside is the sandbox's own"
    taken = next((own for own in OWN_PATHS if contains(own, path) or contains(path, own)), None)
    return f"{taken} inside is the sandbox's own" if taken else None


@lru_cache(maxsize=64)
def made_of(name: str, custom: Custom) -> Profile:
    """The profile of that name. Pure."""
    base, caps = PROFILES[custom.base], dict(custom.caps)
    inherits = base.inherits if custom.instructions is None else custom.instructions
    no_delegate = base.no_delegate
    if no_delegate is None and custom.delegate is False:
        no_delegate = "the configuration says so"

    def build(place: Place, agent: AgentAccess, host: Host) -> Policy:
        extra = tuple(_binds(custom.mounts, host))
        path = (*agent.path, *custom.path)
        policy = base.build(evolve(place, extra=extra), evolve(agent, path=path), host)
        return evolve(
            policy,
            profile=name,
            admitted=frozenset(custom.environment),
            instructions=inherits,
            caps=policy.caps and evolve(policy.caps, **caps),
            stated_caps=tuple(sorted(caps)),
        )

    return evolve(
        base,
        name=name,
        facts={**base.facts, **dict(_facts(custom, base))},
        build=build,
        no_delegate=no_delegate,
        inherits=inherits,
        network=custom.network or base.network,
        permissions=custom.permissions,
        environment=custom.environment,
        caps=caps,
        base=base.name,
    )


def _binds(mounts: tuple[Extra, ...], host: Host) -> Iterator[Bind]:
    for each in mounts:
        there = any(contains(directory, each.path) for directory in host.directories)
        if each.writable or not there:
            yield Bind(each.source or each.path, each.path, each.writable, role="extra")


def _facts(custom: Custom, base: Profile) -> Iterator[tuple[str, str]]:
    """Those that differ from the base's, in words."""
    if custom.mounts:
        mounts = ", ".join(map(str, custom.mounts))
        yield "host_paths", f"{mounts}; else {base.facts['host_paths']}"
    if custom.instructions is not None and custom.instructions != base.inherits:
        mine = "copies of the agent's configuration, rules and skills of yours"
        project = "the project's own files" if base.repository else "the prompt and the inputs"
        yield "instructions", f"{project}; {mine if custom.instructions else 'none of yours'}"
    if custom.environment:
        names = ", ".join(custom.environment)
        yield "identity", f"{base.facts['identity']}; your values of {names}"
    if custom.network is not None:
        yield "network", f"{', '.join(custom.network)}, unless the run names others"
    if custom.permissions is not None:
        words = {"allow": "allowed and recorded", "ask": "asked for", "deny": "denied"}
        yield "permissions", f"{words[custom.permissions]}, unless the run says otherwise"
    if custom.caps or custom.delegate is False:
        caps = ", ".join(_cap(name, amount) for name, amount in custom.caps)
        more = [f"caps of its own: {caps}"] if caps else []
        more += ["no delegate"] if custom.delegate is False else []
        yield "confinement", "; ".join([base.facts["confinement"], *more])


def _cap(name: str, amount: int) -> str:
    """One of `Caps`, with its bytes in MiB."""
    kind = name.removesuffix("_bytes")
    return f"{kind} {amount}" if kind == name else f"{kind} {amount / (1 << 20):.15g} MiB"
