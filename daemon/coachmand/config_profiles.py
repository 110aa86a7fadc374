"""Profiles of the user's own: what each comes to over all that it inherits, and what it widens.

A profile gives no more than the one that it inherits unless it says that it is trusted: who
reads the file sees on one line where a boundary was opened.
"""

import os
from collections.abc import Callable, Iterator

from attrs import asdict, frozen

from coachman_sandbox import network
from coachman_sandbox.custom import Custom, Extra, made_of, why_unfit
from coachman_sandbox.policy import Caps, contains
from coachman_sandbox.profiles import MEMORY_BYTES, PROFILES, Profile

from .config import Config, ProfileSettings, RuleSettings

# What a profile that is built in can be told.
OF_BUILT_IN = ("network", "rules")
# What a run on the host has all of, so that nothing can be added to it or taken from it.
WHOLE_ON_HOST = (
    *("worktree", "mounts", "path", "toolchains", "instructions", "network", "delegate", "caps"),
)
# In the order of how much they let an agent do.
PERMISSIONS = ("deny", "ask", "allow")
CAP_NAMES = {"memory": "memory_bytes", "tasks": "tasks", "disk": "disk_bytes"}
# Stands for the hosts of whichever agent it will be.
_OWN = "hosts-of-the-agent.invalid:443"


class ProfileError(ValueError):
    """A profile that cannot be: the key's path, and words that complete "`key` …"."""

    def __init__(self, path: tuple[str, ...], words: str) -> None:
        super().__init__(words)
        self.path = path


@frozen
class Configured:
    """What a profile comes to. ``rules`` are its own, then those of what it inherits."""

    custom: Custom
    rules: tuple[RuleSettings, ...] = ()


def check(config: Config) -> None:
    """Every profile must be one that can be, and be trusted where it gives more. Raises."""
    for name, settings in config.profiles.items():
        if name in PROFILES:
            for key in _said(settings):
                if key not in OF_BUILT_IN:
                    words = "is only for a profile of your own: this one is built in"
                    raise ProfileError(("profiles", name, key), words)
        else:
            _check_own(config, name, settings)
    known = (*PROFILES, *(name for name in config.profiles if name not in PROFILES))
    if config.profile not in known:
        raise ProfileError(
            ("profile",), f"must be one of {', '.join(known)}, not {config.profile!r}"
        )


def find(config: Config, name: str) -> tuple[Profile, Custom | None] | None:
    """The profile of that name, and what it is made of where it is the user's own."""
    if name in PROFILES:
        return PROFILES[name], None
    if name not in config.profiles:
        return None
    custom = configured(config, name).custom
    return made_of(name, custom), custom


def names(config: Config) -> tuple[str, ...]:
    """All profiles, those that are built in first."""
    return (*PROFILES, *(name for name in config.profiles if name not in PROFILES))


def rules_of(config: Config, name: str) -> tuple[RuleSettings, ...]:
    """The rules for a profile's runs, its own first."""
    if name not in PROFILES and name not in config.profiles:
        return ()
    return configured(config, name).rules


def configured(config: Config, name: str) -> Configured:
    """What the profile comes to. Raises ProfileError for one that cannot be."""
    found = Configured(Custom(_lineage(config, name)[-1]))
    for each in reversed(_lineage(config, name)):
        found = _over(found, config.profiles.get(each, ProfileSettings()))
    return found


def writable(config: Config) -> tuple[str, ...]:
    """What agents behind some profile may write of the host: nothing that is trusted lies there."""
    return tuple(
        dict.fromkeys(
            os.path.realpath(mount.path)
            for settings in config.profiles.values()
            for mount in settings.mounts
            if mount.writable
        )
    )


def _lineage(config: Config, name: str) -> list[str]:
    """The profile, what it inherits, and so on up to one that is built in."""
    line = [name]
    while line[-1] not in PROFILES:
        here = line[-1]
        parent = config.profiles[here].inherits
        if parent is None:
            words = f"lacks `inherits`, the profile that it is made of: {', '.join(PROFILES)}"
            raise ProfileError(("profiles", here), words)
        if parent in line:
            circle = " → ".join([*line[line.index(parent) :], parent])
            raise ProfileError(("profiles", here, "inherits"), f"makes a circle: {circle}")
        if parent not in PROFILES and parent not in config.profiles:
            known = ", ".join(each for each in names(config) if each not in line)
            raise ProfileError(
                ("profiles", here, "inherits"), f"must be one of {known}, not {parent!r}"
            )
        line.append(parent)
    return line


def _said(settings: ProfileSettings) -> list[str]:
    """The keys that the file has for a profile."""
    default = asdict(ProfileSettings())
    return [key for key, value in asdict(settings).items() if value != default[key]]


def _over(below: Configured, said: ProfileSettings) -> Configured:
    custom = below.custom
    base = custom.base
    if said.worktree is not None and base in ("edit", "review"):
        base = "edit" if said.worktree == "read-write" else "review"
    mounts = {each.path: each for each in (*custom.mounts, *_mounts(said))}
    custom = Custom(
        base,
        tuple(mounts.values()),
        tuple(dict.fromkeys((*_path(said), *custom.path))),
        tuple(dict.fromkeys((*custom.environment, *said.environment))),
        custom.instructions if said.instructions is None else said.instructions,
        custom.delegate if said.delegate is None else said.delegate,
        said.permissions or custom.permissions,
        said.network or custom.network,
        tuple({**dict(custom.caps), **_caps(said)}.items()),
    )
    return Configured(custom, (*said.rules, *below.rules))


def _mounts(said: ProfileSettings) -> list[Extra]:
    read = [*said.toolchains, *said.path]
    # What is said of a path as a mount counts: it may be writable.
    return [*map(Extra, read), *(Extra(each.path, each.writable) for each in said.mounts)]


def _paths(said: ProfileSettings) -> dict[str, tuple[str, ...]]:
    """The paths of the host that it names, by the key that does."""
    mounts = tuple(each.path for each in said.mounts)
    return {"mounts": mounts, "toolchains": said.toolchains, "path": said.path}


def _path(said: ProfileSettings) -> list[str]:
    return [*said.path, *(os.path.join(each, "bin") for each in said.toolchains)]


def _caps(said: ProfileSettings) -> dict[str, int]:
    given = {CAP_NAMES[name]: amount for name, amount in asdict(said.caps).items()}
    return {name: amount for name, amount in given.items() if amount is not None}


# --- what cannot be, and what widens ---


def _check_own(config: Config, name: str, settings: ProfileSettings) -> None:
    parent = _lineage(config, name)[1]
    base = configured(config, name).custom.base
    for key in _said(settings):
        if why := _impossible(key, settings, PROFILES[base]):
            raise ProfileError(("profiles", name, key), why)
    for key, paths in _paths(settings).items():
        for path in paths:
            if not path:
                raise ProfileError(("profiles", name, key), "lacks a `path`")
            if why := why_unfit(path) or _written(config, path):
                raise ProfileError(("profiles", name, key), f"cannot have {path}: {why}")
    widened = None if settings.trusted else next(_widened(config, parent, settings), None)
    if widened is not None:
        key, more = widened
        raise ProfileError(
            ("profiles", name, key),
            f"gives more than {parent} has ({more}): say `trusted = true` in [profiles.{name}] if"
            " its agents may have that, or leave it out",
        )


def _written(config: Config, path: str) -> str | None:
    """An agent could put a link where a path below what it may write leads through."""
    for name, settings in config.profiles.items():
        for mount in settings.mounts:
            if mount.writable and mount.path != path and contains(mount.path, path):
                return f"it lies below {mount.path}, which the agents of {name} may write"
    return None


def _impossible(key: str, settings: ProfileSettings, base: Profile) -> str | None:
    if base.native and key in WHOLE_ON_HOST:
        return "cannot be said of a run on the host, which has all that its user has"
    if key == "worktree" and not base.repository:
        return f"cannot be said of a profile that inherits {base.name}: it has no worktree"
    if key == "delegate" and settings.delegate and base.no_delegate is not None:
        return f"cannot be true for a profile that inherits {base.name}: {base.no_delegate}"
    return None


def _widened(config: Config, parent: str, said: ProfileSettings) -> Iterator[tuple[str, str]]:
    """Keys by which the profile gives more than its parent has, and what that is."""
    has = configured(config, parent)
    for key, more in _WIDENED.items():
        if words := more(config, has, said):
            yield key, words


def _more_worktree(_: Config, has: Configured, said: ProfileSettings) -> str | None:
    more = said.worktree == "read-write" and not PROFILES[has.custom.base].writes
    return "a worktree that it may write" if more else None


def _more_mounts(key: str) -> Callable[[Config, Configured, ProfileSettings], str | None]:
    def more(_: Config, has: Configured, said: ProfileSettings) -> str | None:
        wanted = _mounts(said)
        named = _paths(said)[key]
        return next(
            (str(each) for each in wanted if each.path in named and not _is_had(each, has.custom)),
            None,
        )

    return more


def _is_had(wanted: Extra, custom: Custom) -> bool:
    if contains("/usr", wanted.path) and not wanted.writable:
        return True
    return any(
        contains(given.path, wanted.path) and given.writable >= wanted.writable
        for given in custom.mounts
    )


def _more_network(_: Config, has: Configured, said: ProfileSettings) -> str | None:
    if said.network is None:
        return None
    words = has.custom.network or PROFILES[has.custom.base].offers
    try:
        wanted, given = (network.resolve(each, (_OWN,)) for each in (said.network, words))
    except network.NetworkError as error:
        return str(error)
    more = wanted.beyond(given)
    return more and more.replace(_OWN, "the agent's own hosts")


def _mode(config: Config, custom: Custom) -> str:
    native = PROFILES[custom.base].native
    return custom.permissions or config.permissions or ("ask" if native else "allow")


def _more_permissions(config: Config, has: Configured, said: ProfileSettings) -> str | None:
    was = _mode(config, has.custom)
    if said.permissions and PERMISSIONS.index(said.permissions) > PERMISSIONS.index(was):
        return f"{said.permissions} where that says {was}"
    return None


def _more_by_rules(config: Config, has: Configured, said: ProfileSettings) -> str | None:
    """A rule is judged before those of what it inherits, and before the mode."""
    free = _mode(config, has.custom) == "allow" and not has.rules
    for rule in () if free else said.rules:
        if rule.decide in ("allow", "always") or (rule.decide == "ask" and has.rules):
            return f"a rule that says {rule.decide}"
    return None


def _more_environment(_: Config, has: Configured, said: ProfileSettings) -> str | None:
    more = [name for name in said.environment if name not in has.custom.environment]
    return f"your values of {', '.join(more)}" if more else None


def _more_instructions(_: Config, has: Configured, said: ProfileSettings) -> str | None:
    had = made_of("parent", has.custom).inherits
    return "your own rules and settings for the agent" if said.instructions and not had else None


def _more_delegate(_: Config, has: Configured, said: ProfileSettings) -> str | None:
    return "runs of its own" if said.delegate and has.custom.delegate is False else None


def _more_caps(config: Config, has: Configured, said: ProfileSettings) -> str | None:
    had = {**_usual_caps(config), **dict(has.custom.caps)}
    more = [f"{name} {amount}" for name, amount in _caps(said).items() if amount > had[name]]
    return ", ".join(more) or None


def _usual_caps(config: Config) -> dict[str, int]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    usual = Caps(min(memory // 2, MEMORY_BYTES), disk_bytes=config.storage.disk_limit)
    return {name: getattr(usual, name) for name in CAP_NAMES.values()}


_WIDENED: dict[str, Callable[[Config, Configured, ProfileSettings], str | None]] = {
    "worktree": _more_worktree,
    "mounts": _more_mounts("mounts"),
    "toolchains": _more_mounts("toolchains"),
    "path": _more_mounts("path"),
    "environment": _more_environment,
    "instructions": _more_instructions,
    "network": _more_network,
    "permissions": _more_permissions,
    "rules": _more_by_rules,
    "delegate": _more_delegate,
    "caps": _more_caps,
}
