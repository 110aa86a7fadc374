"""Which boundary a new run has: a profile that is built in, or one that is configured now."""

import os

from attrs import evolve, frozen

from coachman import paths
from coachman_sandbox.custom import Custom, Extra, made_of, why_unfit
from coachman_sandbox.policy import contains
from coachman_sandbox.profiles import Profile

from ... import config_profiles
from ..preparing.missing import unknown_profile
from ..services import Means, Services
from .request import StartRequest, usage


@frozen
class Chosen:
    """The profile of a run, and what it is made of where it is the user's own."""

    walls: Profile
    custom: Custom | None = None


def profile_of(request: StartRequest, services: Services) -> Chosen:
    """The profile that is asked for, else the configured one. Blocks. Raises RpcError."""
    name = request.profile or services.config.profile
    found = config_profiles.find(services.config, name)
    if found is None:
        raise unknown_profile(services, f"cannot start: there is no profile {name!r}")
    walls, custom = found
    if request.delegate is not None and walls.no_delegate is not None:
        raise usage(
            f"a run of profile {name} gets no delegate: {walls.no_delegate}",
            "leave --delegate out, or give it a profile that goes with one: "
            f"{delegating(services)}",
        )
    if custom is not None:
        custom = evolve(
            custom, mounts=tuple(_located(each, name, services) for each in custom.mounts)
        )
        walls = made_of(name, custom)
    return Chosen(walls, custom)


def walls_of(name: str, services: Means) -> Profile | None:
    """The profile of that name as it is configured now."""
    found = config_profiles.find(services.config, name)
    return found[0] if found else None


def delegating(services: Services) -> str:
    """The profiles that go with a delegate, in words."""
    known = ((name, walls_of(name, services)) for name in config_profiles.names(services.config))
    return ", ".join(name for name, walls in known if walls is not None and walls.delegates)


def _located(mount: Extra, profile: str, services: Services) -> Extra:
    """The mount with the place that its path leads to: what is bound is looked at once."""
    source = os.path.realpath(mount.path)
    why = _why_not(source, mount, services)
    if why is not None:
        raise usage(
            f"profile {profile} cannot have {mount.path}: {why}",
            f"mend [profiles.{profile}] of the configuration and restart the daemon, or make the"
            " path what it says",
            reason="mount",
        )
    return evolve(mount, source=source)


def _why_not(source: str, mount: Extra, services: Services) -> str | None:
    """Whatever agents write may have become a link; what coachman trusts they are not to write."""
    if not os.path.exists(source):
        return "it is not there"
    if why := why_unfit(source):
        return f"it leads to {source}, and {why}"
    state = services.state
    own = [os.path.realpath(path) for path in (state.root, state.worktrees, state.sealed)]
    for root in (*own, *config_profiles.writable(services.config)):
        if source != root and contains(root, source):
            return f"it leads below {root}, which agents may write"
    # What lies in the state is hidden where it is seen, and cannot be where it is written.
    hidden = () if mount.writable else (own[0],)
    apart = {
        "the control socket": paths.socket_path(services.environment),
        **({"the configuration": services.config_file.path} if mount.writable else {}),
        "coachman's state": own[0],
        "the worktrees of other runs": own[1],
        "what sealed runs are given": own[2],
    }
    for what, path in apart.items():
        real = os.path.realpath(path)
        if contains(source, real) and not any(contains(root, real) for root in hidden):
            return f"{what} lies in it"
    return None
