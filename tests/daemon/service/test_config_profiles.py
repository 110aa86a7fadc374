"""Profiles of the configuration: what they come to, and what is refused of them by key and line."""

import pytest

from coachman_sandbox.custom import Custom, Extra
from coachmand.config_profiles import configured, find, rules_of
from coachmand.config_reader import ConfigError, parse

HOME = "/home/u"
EDIT = '[profiles.ci]\ninherits = "edit"\n'
TRUSTED = f"{EDIT}trusted = true\n"
CI = f"""{TRUSTED}
mounts = [{{ path = "~/data" }}, {{ path = "/cache", writable = true }}]
path = ["~/tools"]
toolchains = ["/opt/rust"]
environment = ["CI"]
permissions = "ask"
network = ["agent", "example.org:443"]
caps = {{ memory = "1GiB", tasks = 99 }}
[[profiles.ci.rules]]
decide = "deny"
tool = "fetch"
"""


def test_what_is_inherited_is_added_to() -> None:
    """A profile has what its parent has, and says the rest; the last word on each counts."""
    config = parse(
        f"""{CI}
[profiles.less]
inherits = "ci"
worktree = "read-only"
mounts = [{{ path = "/cache" }}]
network = ["agent"]
instructions = false
delegate = false
caps = {{ tasks = 9 }}
rules = [{{ decide = "deny" }}]
""",
        HOME,
    )
    tools = (Extra("/opt/rust"), Extra("/home/u/tools"))

    assert configured(config, "ci").custom == Custom(
        "edit",
        (*tools, Extra("/home/u/data"), Extra("/cache", writable=True)),
        path=("/home/u/tools", "/opt/rust/bin"),
        environment=("CI",),
        permissions="ask",
        network=("agent", "example.org:443"),
        caps=(("memory_bytes", 1 << 30), ("tasks", 99)),
    )
    assert configured(config, "less").custom == Custom(
        "review",
        (*tools, Extra("/home/u/data"), Extra("/cache")),
        path=("/home/u/tools", "/opt/rust/bin"),
        environment=("CI",),
        instructions=False,
        delegate=False,
        permissions="ask",
        network=("agent",),
        caps=(("memory_bytes", 1 << 30), ("tasks", 9)),
    )
    assert [rule.tool for rule in rules_of(config, "less")] == [(), ("fetch",)]


def test_what_is_said_of_a_built_in_profile_is_inherited() -> None:
    """Its network and its rules are those of the profiles that are made of it."""
    config = parse(f'[profiles.edit]\nnetwork = "none"\nrules = [{{}}]\n{EDIT}', HOME)
    found = find(config, "ci")

    assert found is not None
    assert found[0].network == ("none",)
    assert len(rules_of(config, "ci")) == 1


NARROWER = [
    'network = ["pypi.org:443"]',
    'network = ["agent", "registries"]',
    'network = "none"',
    'permissions = "deny"',
    'worktree = "read-only"',
    "instructions = false\ndelegate = false",
    'caps = { memory = "64MiB", tasks = 5, disk = "1MiB" }',
    'mounts = [{ path = "/usr/local" }]',
    'rules = [{ decide = "allow", tool = "read" }]',
]


@pytest.mark.parametrize("text", NARROWER)
def test_what_gives_no_more_needs_no_trust(text: str) -> None:
    """A profile that says less than its parent, or as much, is taken as it is."""
    assert parse(f"{EDIT}{text}\n", HOME).profiles["ci"].trusted is False


WIDER = {
    'network = ["agent", "example.org:443"]': ("network", "example.org:443"),
    'network = "full"': ("network", "full,the agent's own hosts"),
    'network = "host"': ("network", "host"),
    'mounts = [{ path = "~/data" }]': ("mounts", "/home/u/data read-only"),
    'mounts = [{ path = "/usr/local", writable = true }]': ("mounts", "/usr/local read-write"),
    'path = ["~/bin"]': ("path", "/home/u/bin read-only"),
    'toolchains = ["/opt/go"]': ("toolchains", "/opt/go read-only"),
    'environment = ["CI", "TOKEN"]': ("environment", "your values of CI, TOKEN"),
    "caps = { tasks = 2000 }": ("caps", "tasks 2000"),
    'caps = { disk = "11GiB" }': ("caps", f"disk_bytes {11 << 30}"),
}


@pytest.mark.parametrize(("text", "more"), WIDER.items())
def test_what_gives_more_needs_trust(text: str, more: tuple[str, str]) -> None:
    """It is refused with the key, its line, what it gives and how to mean it; else it is taken."""
    key, what = more
    with pytest.raises(ConfigError) as refused:
        parse(f"{EDIT}{text}\n", HOME)
    parse(f"{TRUSTED}{text}\n", HOME)

    assert str(refused.value) == (
        f"cannot read the configuration: `profiles.ci.{key}` on line 3 gives more than edit has"
        f" ({what}): say `trusted = true` in [profiles.ci] if its agents may have that, or leave"
        " it out"
    )


PARENT = f"""{TRUSTED}
mounts = [{{ path = "/cache", writable = true }}, {{ path = "/data" }}]
environment = ["CI"]
network = ["a.example:443"]
permissions = "ask"
instructions = false
delegate = false
worktree = "read-only"
caps = {{ tasks = 9 }}
rules = [{{ decide = "deny" }}]
[profiles.child]
inherits = "ci"
"""
OVER_PARENT = {
    'mounts = [{ path = "/data", writable = true }]': "/data read-write",
    'mounts = [{ path = "/dat" }]': "/dat read-only",
    'network = ["agent"]': "the agent's own hosts",
    'permissions = "allow"': "allow where that says ask",
    "instructions = true": "your own rules and settings for the agent",
    "delegate = true": "runs of its own",
    'worktree = "read-write"': "a worktree that it may write",
    "caps = { tasks = 10 }": "tasks 10",
    'rules = [{ decide = "ask" }]': "a rule that says ask",
    'environment = ["CI", "HOST"]': "your values of HOST",
}


@pytest.mark.parametrize(("text", "what"), OVER_PARENT.items())
def test_more_is_measured_at_the_parent(text: str, what: str) -> None:
    """What a profile took away needs trust in those that inherit it."""
    same = 'mounts = [{ path = "/data/x" }]\nnetwork = ["a.example:443"]\ncaps = { tasks = 9 }\n'
    parse(PARENT + same, HOME)
    parse(f"{PARENT}trusted = true\n{text}\n", HOME)
    with pytest.raises(ConfigError) as refused:
        parse(f"{PARENT}{text}\n", HOME)

    assert f"gives more than ci has ({what})" in str(refused.value)


REFUSED = {
    "[profiles.a]\nrules = []": "`profiles.a` on line 1 lacks `inherits`, the profile that it is",
    '[profiles.a]\ninherits = "edti"': "`profiles.a.inherits` on line 2 must be one of edit, "
    "review, sealed, host, not 'edti'",
    '[profiles.a]\ninherits = "a"': "`profiles.a.inherits` on line 2 makes a circle: a → a",
    '[profiles.a]\ninherits = "b"\n[profiles.b]\ninherits = "c"\n[profiles.c]\ninherits = "b"': (
        "`profiles.c.inherits` on line 6 makes a circle: b → c → b"
    ),
    '[profiles.edit]\ninherits = "review"': "`profiles.edit.inherits` on line 2 is only for a"
    " profile of your own: this one is built in",
    '[profiles.host]\npermissions = "allow"': "`profiles.host.permissions` on line 2 is only for",
    f"{EDIT}mount = []": "unknown key `profiles.ci.mount` on line 3; did you mean `mounts`?",
    f"{EDIT}mounts = ['/x']": "`profiles.ci.mounts[0]` on line 3 must be a table, not '/x'",
    f"{EDIT}mounts = [{{}}]": "`profiles.ci.mounts` on line 3 lacks a `path`",
    f"{EDIT}mounts = [{{ path = 'x' }}]": "must be an absolute path, or one that starts with ~/",
    f"{EDIT}mounts = [{{ path = '/x', writeable = true }}]": "did you mean `writable`?",
    f"{EDIT}mounts = [{{ path = '/etc/x' }}]": "`profiles.ci.mounts` on line 3 cannot have /etc/x:"
    " /etc inside is the sandbox's own",
    f"{EDIT}path = ['/']": "`profiles.ci.path` on line 3 cannot have /: / inside is the sandbox's",
    f"{EDIT}toolchains = ['/run']": "cannot have /run: /run/coachman inside is the sandbox's own",
    f"{EDIT}path = ['bin']": "`profiles.ci.path` on line 3 must be an array of paths, absolute or"
    " from ~/, not an array with 'bin'",
    f"{EDIT}path = '/x'": "must be an array of paths, absolute or from ~/, not '/x'",
    f"{EDIT}trusted = 1": "`profiles.ci.trusted` on line 3 must be true or false, not 1",
    f"{EDIT}environment = ['A B']": "must be an array of names of variables, not an array with",
    f"{EDIT}network = 'pypi.org:443 x'": "`profiles.ci.network` on line 3 must be a network, and",
    f"{EDIT}permissions = 'allow '": "must be one of allow, ask, deny, not 'allow '",
    f"{EDIT}worktree = 'none'": "must be one of read-only, read-write, not 'none'",
    f"{EDIT}caps = {{ memory = '1GB' }}": "`profiles.ci.caps.memory` on line 3 must be a size such",
    f"{EDIT}caps = {{ tasks = 0 }}": "must be a whole number from 1, not 0",
    f"{TRUSTED}mounts = [{{ path = '/d', writable = true }}, {{ path = '/d/x' }}]": "`profiles.ci."
    "mounts` on line 4 cannot have /d/x: it lies below /d, which the agents of ci may write",
    '[profiles.a]\ninherits = "host"\ncaps = { tasks = 9 }': "`profiles.a.caps` on line 3 cannot be"
    " said of a run on the host, which has all that its user has",
    '[profiles.a]\ninherits = "sealed"\nworktree = "read-write"': "`profiles.a.worktree` on line 3"
    " cannot be said of a profile that inherits sealed: it has no worktree",
    '[profiles.a]\ninherits = "sealed"\ndelegate = true': "its agent is not to know which run",
    'profile = "ci"': "`profile` on line 1 must be one of edit, review, sealed, host, not 'ci'",
    '[profiles.ci] inherits = "edit"': "Expected newline or end of document after a statement",
    '[profiles."c i"]\ninherits = "edit"': "must be named in lower-case letters and digits",
}


@pytest.mark.parametrize(("text", "complaint"), REFUSED.items())
def test_what_cannot_be_is_refused_by_line(text: str, complaint: str) -> None:
    """A profile that cannot be is told with its key, its line and why."""
    with pytest.raises(ConfigError) as refused:
        parse(text, HOME)

    assert complaint in str(refused.value)
