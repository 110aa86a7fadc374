"""Parameters have the type that their class declares, and complaints name the member."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from coachmand.rpc.errors import RpcError
from coachmand.rpc.params import NoParams, must, structure


@frozen
class Timeouts:
    """Two deadlines."""

    wall_s: float | None = field(
        default=None,
        validator=must("a number of seconds above 0", lambda value: value is None or value > 0),
    )
    permission_ms: int = 5


@frozen
class Input:
    """A file to hand over."""

    path: str
    size_bytes: int = 0


@frozen
class Start:
    """One of every kind."""

    prompt: str
    tied: bool = False
    mode: Literal["detach", "drain", 3] = "detach"
    timeouts: Timeouts = field(factory=Timeouts)
    other: Timeouts | None = None
    inputs: tuple[Input, ...] = ()
    argv: list[str] | None = None
    names: Sequence[str] = ()
    labels: dict[str, str] = field(factory=dict)
    env: Mapping[str, str] = field(factory=dict)
    cursor: str | int = 0
    ratio: Annotated[float, msgspec.Meta(description="a share")] = 0.5
    anything: Any = None


def test_every_kind_of_member_is_structured() -> None:
    """Nested objects, arrays, maps, choices and unions become their declared types."""
    members = {
        "prompt": "p",
        "tied": True,
        "mode": 3,
        "timeouts": {"wall_s": 5},
        "other": {"wall_s": None},
        "inputs": [{"path": "/a"}, {"path": "/b", "size_bytes": 2}],
        "argv": ["ls"],
        "names": ["n"],
        "labels": {"k": "v"},
        "env": {},
        "cursor": "c",
        "ratio": 1,
        "anything": [{"x": None}],
    }

    assert structure(members, Start, "start") == Start(
        "p",
        tied=True,
        mode=3,
        timeouts=Timeouts(5),
        other=Timeouts(None),
        inputs=(Input("/a"), Input("/b", 2)),
        argv=["ls"],
        names=["n"],
        labels={"k": "v"},
        cursor="c",
        ratio=1,
        anything=[{"x": None}],
    )


REFUSED = {
    "missing": ({}, "prompt", "`prompt` is required"),
    "null": ({"prompt": None}, "prompt", "`prompt` must be a string, not null"),
    "number for string": ({"prompt": 1}, "prompt", "`prompt` must be a string, not 1"),
    "number for boolean": ({"tied": 1}, "tied", "`tied` must be true or false, not 1"),
    "string for number": (
        {"timeouts": {"wall_s": "x"}},
        "timeouts.wall_s",
        '`timeouts.wall_s` must be a number of seconds, not "x"',
    ),
    "boolean for integer": (
        {"timeouts": {"permission_ms": True}},
        "timeouts.permission_ms",
        "`timeouts.permission_ms` must be an integer of milliseconds, not true",
    ),
    "float for integer": (
        {"inputs": [{"path": "/a"}, {"path": "/b", "size_bytes": 1.5}]},
        "inputs[1].size_bytes",
        "`inputs[1].size_bytes` must be an integer of bytes, not 1.5",
    ),
    "a validator": (
        {"timeouts": {"wall_s": -1}},
        "timeouts.wall_s",
        "`timeouts.wall_s` must be a number of seconds above 0, not -1",
    ),
    "choice": ({"mode": "stop"}, "mode", '`mode` must be one of detach, drain, 3, not "stop"'),
    "choice of another type": ({"mode": [3]}, "mode", "one of detach, drain, 3, not an array"),
    "array for object": ({"timeouts": []}, "timeouts", "must be an object, not an array"),
    "string for array": ({"argv": "ls -l"}, "argv", '`argv` must be an array, not "ls -l"'),
    "object for array": ({"inputs": {}}, "inputs", "`inputs` must be an array, not an object"),
    "array for map": ({"labels": []}, "labels", "`labels` must be an object, not an array"),
    "value of a map": ({"env": {"A": 1}}, "env.A", "`env.A` must be a string, not 1"),
    "item": ({"argv": ["a", None]}, "argv[1]", "`argv[1]` must be a string, not null"),
    "union": ({"cursor": 1.5}, "cursor", "`cursor` must be a string or an integer, not 1.5"),
    "unknown": ({"promt": "x"}, "promt", "unknown member `promt`; did you mean `prompt`?"),
    "unknown below": (
        {"timeouts": {"wal_s": 1}},
        "timeouts.wal_s",
        "unknown member `timeouts.wal_s`; did you mean `wall_s`?",
    ),
    "unlike anything": ({"zzz": 1}, "zzz", "unknown member `zzz`"),
}


@pytest.mark.parametrize(("members", "member", "text"), REFUSED.values(), ids=REFUSED)
def test_a_complaint_names_member_and_value(
    members: dict[str, Any], member: str, text: str
) -> None:
    """A value that does not fit is refused with its path, what it must be and what it was."""
    given_members = members if "prompt" in text or not members else {"prompt": "p", **members}
    with pytest.raises(RpcError) as caught:
        structure(given_members, Start, "start")

    assert caught.value.code == -32602
    assert caught.value.message.startswith("cannot start: ")
    assert caught.value.message.endswith(text)
    assert caught.value.data["detail"] == {"member": member}


def test_a_long_value_is_shown_in_part() -> None:
    """A value in a complaint is cut, whatever its size."""
    with pytest.raises(RpcError) as caught:
        structure({"prompt": "p", "tied": "x" * 100_000}, Start, "start")

    assert len(caught.value.message) < 200


def test_members_may_have_any_name() -> None:
    """Names that Python uses itself are unknown members like any other."""
    for name in ("self", "context", "class", "", "a.b", "__init__"):
        with pytest.raises(RpcError, match="unknown member"):
            structure({name: 1}, NoParams, "ping")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "wall_s", "x", "size_bytes"]), inner, max_size=3)
    ),
    max_leaves=6,
)
MEMBERS = st.dictionaries(st.sampled_from([*Start.__match_args__, "zzz"]), VALUES)


@given(MEMBERS)
def test_structuring_refuses_and_never_fails(members: dict[str, Any]) -> None:
    """Any members at all give an instance or InvalidParams."""
    with suppress(RpcError):
        made = structure(members, Start, "start")
        assert isinstance(made.prompt, str)
        assert isinstance(made.tied, bool)
