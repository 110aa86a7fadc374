"""The compiler: what it emits, in which order, and what it refuses."""

import json
from random import Random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from coachman_sandbox.bubblewrap import NAMESPACES, compile_policy, describe, ordered
from coachman_sandbox.host import Host
from coachman_sandbox.policy import (
    AgentAccess,
    Bind,
    Cover,
    Dev,
    Directory,
    File,
    Place,
    Policy,
    PolicyError,
    Proc,
    Symlink,
    Tmpfs,
    digest_input,
)
from coachman_sandbox.profiles import edit
from coachman_sandbox.seccomp import program

EMPTY = Policy("edit", (), cwd="/")
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,12}", fullmatch=True)
VALUES = st.sampled_from(["--setenv", "", "--"]) | st.text(
    st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))
)
SEGMENTS = st.lists(st.sampled_from(["a", "b", "a b", "-", "a.b", "aa"]), min_size=1, max_size=4)
PATHS = SEGMENTS.map(lambda parts: "/" + "/".join(parts))


def test_each_kind_of_mount_compiles_to_its_option() -> None:
    """Every record of the model has its bubblewrap option, contents travel as data."""
    mounts = (
        Bind("/h", "/a"),
        Bind("/h", "/b", writable=True),
        Bind("/h", "/c", optional=True),
        Tmpfs("/d", 4096, 0o1777),
        File("/e", b"one"),
        Cover("/f", b"two"),
        Directory("/g"),
        Symlink("usr/x", "/h"),
        Proc("/i"),
        Dev("/j"),
    )
    compiled = compile_policy(evolve(EMPTY, mounts=mounts))
    text = " ".join(compiled.args).partition("--clearenv ")[2]
    assert text == (
        "--ro-bind /h /a --bind /h /b --ro-bind-try /h /c "
        "--perms 1777 --size 4096 --tmpfs /d --perms 0444 --file {fd:0} /e "
        "--perms 0444 --ro-bind-data {fd:1} /f --perms 0755 --dir /g --symlink usr/x /h "
        "--proc /i --dev /j --remount-ro /j --remount-ro / --chdir / --seccomp {fd:2}"
    )
    assert compiled.data == (b"one", b"two", program("strict"))


def test_the_walls_are_in_every_compilation() -> None:
    """Namespaces, lifetime and capabilities do not depend on the profile; the network is shared."""
    args = compile_policy(EMPTY).args
    walls = (*NAMESPACES, "--disable-userns", "--die-with-parent", "--new-session", "--clearenv")
    assert set(walls) <= set(args)
    assert args[args.index("--cap-drop") + 1] == "ALL"
    assert not {"--unshare-net", "--unshare-all", "--share-net"} & set(args)


@given(st.lists(PATHS, unique=True, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_mounts_depends_on_their_places_alone(
    paths: list[str], random: Random
) -> None:
    """However a policy lists them, the arguments are the same and parents come first."""
    mounts = [Bind("/h", path) for path in paths]
    shuffled = list(mounts)
    random.shuffle(shuffled)
    one = evolve(EMPTY, mounts=tuple(mounts))
    other = evolve(EMPTY, mounts=tuple(shuffled))
    assert compile_policy(one) == compile_policy(other)
    places = [mount.destination for mount in ordered(one.mounts)]
    for index, path in enumerate(places):
        assert not any(path.startswith(later + "/") for later in places[index:])


@given(st.dictionaries(NAMES, st.text("0123456789abcdef", min_size=12), min_size=1, max_size=4))
def test_a_secret_is_nowhere_but_behind_setenv(secrets: dict[str, str]) -> None:
    """Values of credentials are in the args that go through a descriptor, once each, and no
    digest input, description, data or repr holds them."""
    values = {name: f"sk-{value}" for name, value in secrets.items()}
    policy = evolve(EMPTY, env=values, credentials=frozenset(values), mounts=(File("/e", b"x"),))
    compiled = compile_policy(policy)
    held = [index for index, arg in enumerate(compiled.args) if arg in values.values()]
    assert len(held) == len(values)
    assert all(compiled.args[index - 2] == "--setenv" for index in held)
    shown = json.dumps(describe(policy)) + repr(policy) + digest_input(policy).decode()
    assert not any(value in shown for value in values.values())


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_any_value_survives_as_one_argument(env: dict[str, str]) -> None:
    """Spaces, newlines, dashes and quotes in a value are just a value."""
    args = compile_policy(evolve(EMPTY, env=env)).args
    start = args.index("--clearenv") + 1
    given_as = [part for item in sorted(env.items()) for part in ("--setenv", *item)]
    assert list(args[start : start + len(given_as)]) == given_as
    assert args[start + len(given_as)] == "--remount-ro"


@pytest.mark.parametrize(
    "policy",
    [
        evolve(EMPTY, mounts=(Bind("relative", "/a"),)),
        evolve(EMPTY, mounts=(Bind("/a", "relative"),)),
        evolve(EMPTY, mounts=(Bind("/a/../b", "/a"),)),
        evolve(EMPTY, mounts=(Bind("/a", "/a/"),)),
        evolve(EMPTY, mounts=(Bind("/a", "//a"),)),
        evolve(EMPTY, mounts=(Bind("/a", "/a"), Tmpfs("/a", 1))),
        evolve(EMPTY, mounts=(Symlink("a\0b", "/a"),)),
        evolve(EMPTY, env={"A": "x\0y"}),
        evolve(EMPTY, env={"A": "a {fd:0} b"}),
        evolve(EMPTY, env={"A=B": "x"}),
        evolve(EMPTY, env={"": "x"}),
        evolve(EMPTY, cwd="relative"),
    ],
)
def test_what_is_not_plain_is_refused(policy: Policy) -> None:
    """Relative and unclean paths, doubled places, NULs and tokens raise a PolicyError."""
    with pytest.raises(PolicyError, match="cannot compile the policy"):
        compile_policy(policy)


def test_the_digest_is_that_of_the_authority(place: Place, agent: AgentAccess, host: Host) -> None:
    """It survives another run, key, program version and host file, and tells other grants apart."""
    digest = edit(place, agent, host).digest
    other_run = evolve(place, home="/s/h2", scratch="/s/s2", output="/s/o2", inputs="/s/i2")
    other_agent = evolve(agent, binds=("/opt/agent-2",), credentials={"API_KEY": "sk-other"})
    assert edit(other_run, agent, host).digest == digest
    assert edit(place, other_agent, host).digest == digest
    assert edit(place, agent, evolve(host, resolv_conf=b"", ca_bundle=b"")).digest == digest
    assert edit(evolve(place, git=None), agent, host).digest != digest
    assert evolve(edit(place, agent, host), user_namespaces=True).digest != digest
