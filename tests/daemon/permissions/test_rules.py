"""Rules about what agents ask: the first that matches decides, and none is fooled by a path."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from coachmand.permissions.rules import Judgement, Rule, judge
from coachmand.permissions.subjects import CUT, MAX_ITEMS, Workspace, subject_of

INSIDE = "/workspace"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree with a few files, and links that lead out of it and around in it."""
    tree = tmp_path / "tree"
    (tree / "src" / "deep").mkdir(parents=True)
    (tree / "src" / "a.py").touch()
    (tmp_path / "outside").mkdir()
    (tree / "out").symlink_to(tmp_path / "outside")
    (tree / "src" / "up").symlink_to("..")
    (tree / "secret").symlink_to("/etc/passwd")
    return tree


def rule(text: str) -> Rule:
    """A rule as the command line takes it."""
    decide, kinds, *pattern = text.split(None, 2)
    given: dict[str, Any] = {"command" if kinds == "execute" else "path": " ".join(pattern) or None}
    return Rule(decide, () if kinds == "any" else tuple(kinds.split(",")), **given)  # type: ignore[arg-type]


def judged(tree: Path, tool: dict[str, Any], *rules: str, subfolder: str = "") -> Judgement | None:
    return judge(map(rule, rules), subject_of(tool, Workspace(INSIDE, str(tree), subfolder)))


def decided(tree: Path, tool: dict[str, Any], *rules: str, subfolder: str = "") -> str | None:
    found = judged(tree, tool, *rules, subfolder=subfolder)
    return found and found.decide


def edit(*paths: str) -> dict[str, Any]:
    return {"kind": "edit", "locations": [{"path": path} for path in paths]}


def run(command: Any) -> dict[str, Any]:
    return {"kind": "execute", "input": {"command": command}}


def test_the_first_rule_that_matches_decides(tree: Path) -> None:
    """Rules are judged in their order; what none of them is about is left to the mode."""
    rules = ("deny edit src/deep/", "allow edit src/**", "ask any")

    assert decided(tree, edit("src/deep/x.py"), *rules) == "deny"
    assert decided(tree, edit("src/a.py"), *rules) == "allow"
    assert decided(tree, edit("README"), *rules) == "ask"
    assert decided(tree, run("ls"), *rules[:2]) is None


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/**", "/workspace/src/a.py", True),
        ("src/**", "src/a.py", True),
        ("src/**", "./src/deep/../a.py", True),
        ("src/*", "src/deep/x", False),
        ("src/", "src/deep/x", True),
        ("**", "src/a.py", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "src/deep/a.py", True),
        ("src/?.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/[a].py", "src/a.py", False),
        ("src", "src/a.py", False),
        ("src/**", "srcs/a.py", False),
    ],
)
def test_a_path_pattern_is_of_the_whole_path(
    tree: Path, pattern: str, path: str, fits: bool
) -> None:
    """``*`` stays within a name, ``**`` goes over folders; the path is the worktree's."""
    assert decided(tree, edit(path), f"allow edit {pattern}") == ("allow" if fits else None)


def test_a_relative_path_is_one_of_the_agents_own_folder(tree: Path) -> None:
    """An agent that was started in a subfolder means its paths from there."""
    assert decided(tree, edit("a.py"), "allow edit src/**", subfolder="src") == "allow"
    assert decided(tree, edit("../README"), "allow edit src/**", subfolder="src") is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "src/../../x",
        "/workspace/../etc/passwd",
        "/workspace2/x",
        "//workspace/x",
        "~/x",
        "~root/x",
        "out/x",
        "src/up/src/a.py",
        "src/up/../x",
        "secret",
        "out/../src/a.py",
        "/tmp/../workspace/src/a.py",
        "src/a.py/x",
        "src/a\0b",
        "x" * 300,
        "src/a" + CUT,
    ],
)
def test_an_allow_never_matches_what_may_leave_the_worktree(tree: Path, path: str) -> None:
    """Neither by its path, nor over a link, nor in company of one that stays."""
    for allow in ("allow any", "allow edit **", "always edit"):
        assert decided(tree, edit(path), allow) is None
        assert decided(tree, edit("src/a.py", path), allow) is None


def test_an_allow_needs_to_know_what_is_edited(tree: Path) -> None:
    """A question about files that does not say which, or not all, is none that a rule allows."""
    many = [f"src/{n}.py" for n in range(MAX_ITEMS + 1)]

    assert decided(tree, {"kind": "edit"}, "allow edit") is None
    assert decided(tree, edit(*many), "allow edit") is None
    assert decided(tree, edit(*many[:-1]), "allow edit") == "allow"
    assert decided(tree, {"kind": "fetch", "input": {"url": "x"}}, "allow fetch") == "allow"


@pytest.mark.parametrize(
    "tool",
    [
        {"kind": "edit", "input": {"file_path": "/etc/x"}, "locations": [{"path": "src/a.py"}]},
        {"kind": "edit", "content": [{"path": "/etc/x"}], "locations": [{"path": "src/a.py"}]},
        {"kind": "edit", "input": {"changes": [{"path": "src/a.py"}, {"path": "../x"}]}},
        {"kind": "execute", "input": {"command": "ls", "workdir": "/etc"}},
        {"kind": "execute", "input": {"command": "ls", "cwd": "out"}},
    ],
)
def test_every_path_that_is_said_anywhere_counts(tree: Path, tool: dict[str, Any]) -> None:
    """Whichever member names a place outside, no rule allows it."""
    assert decided(tree, tool, "allow any") is None


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git status", "allow"),
        (["git", "status"], "allow"),
        ("git status; rm x", None),
        (["git", "status", "; rm x"], None),
        (["git", "status", "a b"], None),
        ("git push", None),
        ("git status" + CUT, None),
        (None, None),
        (7, None),
        ({"a": 1}, None),
    ],
)
def test_an_allow_for_a_command_is_for_that_alone(
    tree: Path, command: Any, decision: str | None
) -> None:
    """One simple command, as text or as words that joined are that text."""
    assert decided(tree, run(command), "allow execute git status *") == decision


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git push x", "deny"),
        ("ls", None),
        ("ls; git push", "ask"),
        ("g$(x)", "ask"),
        (None, "ask"),
    ],
)
def test_what_a_denial_may_be_about_is_asked(
    tree: Path, command: Any, decision: str | None
) -> None:
    """A command that cannot be read for certain does not slip past a rule that forbids."""
    found = judged(tree, run(command), "deny execute git push *")

    assert (found and found.decide) == decision
    assert (found is not None and found.unclear) is (decision == "ask")


@pytest.mark.parametrize(
    ("path", "decision"),
    [
        (".env", "deny"),
        ("src/.env", "deny"),
        ("/srv/.env", "deny"),
        ("src/a.py", None),
        ("/srv/a", None),
        ("out/a", "ask"),
        ("~/a", "ask"),
    ],
)
def test_a_denied_path_is_denied_wherever_it_is(
    tree: Path, path: str, decision: str | None
) -> None:
    """Outside too, and among others; what leads over a link is a question."""
    assert decided(tree, edit(path), "deny edit **/.env") == decision
    assert decided(tree, edit("src/a.py", path), "deny edit **/.env") == decision


def test_a_rule_for_paths_says_nothing_of_commands(tree: Path) -> None:
    """A command names no paths that can be relied on, so that a path rule is not about it."""
    assert decided(tree, run("cat .env"), "deny any **/.env") is None
    assert decided(tree, run("cat .env"), "allow any **") is None


STEPS = st.sampled_from([".", "..", "src", "deep", "up", "out", "a.py", "secret", "new", ""])


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(steps=["", "out"], inside=True)
@example(steps=["src", "", "up"], inside=False)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), inside=st.booleans())
def test_what_stays_inside_is_inside(tree: Path, steps: list[str], inside: bool) -> None:
    """Wherever the kernel would really go, a path that is taken for certain stays in the tree."""
    path = "/".join(([INSIDE] if inside else []) + steps)
    placed = Workspace(INSIDE, str(tree)).place(path)
    if placed.inside:
        real = os.path.realpath(
            os.path.join(tree, os.path.relpath(path, INSIDE) if inside else path)
        )
        assert (real + "/").startswith(f"{tree}/")
        assert real == os.path.normpath(tree / placed.path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/x/**/y/**/z/**/q", "x/y/z/" * 400 + "w"),
        ("**/*a*a*a*a*a*a*b", "a" * 250),
        ("**/" * 40 + "b", "a/" * 400 + "a"),
    ],
)
def test_no_path_takes_a_rule_long(tree: Path, pattern: str, path: str) -> None:
    """An agent writes its paths so that patterns try every way: the daemon serves others yet."""
    began_s = time.process_time()

    assert decided(tree, edit(path), f"deny edit {pattern}") is None
    # Tried in every way they take from minutes to longer than the world stands.
    assert time.process_time() - began_s < 5.0
