"""What counts as one simple command, judged by what real shells make of it."""

import os
import shlex
import shutil
import string
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coachmand.permissions.commands import RESERVED, matches, pattern_of, words_of

FOUND = filter(None, map(shutil.which, ("sh", "bash", "dash", "zsh")))
SHELLS = sorted({os.path.realpath(path) for path in FOUND})
# Each would do more, or something else, than a rule for `git status` or `git log *` means.
BYPASSES = [
    "git status; rm -rf x",
    "git status && rm x",
    "git status || rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git status\rrm x",
    "git status\0rm x",
    "git status\x0brm x",
    "git status\u2028rm x",
    "git status $(rm x)",
    "git status `rm x`",
    "git status ${x:=y}",
    "git status $HOME",
    "git status $'a'",
    'git status "$(rm x)"',
    'git status "`rm x`"',
    'git status "a\\"b"',
    "git status > x",
    "git status >> x",
    "git status 2>x",
    "git status < x",
    "git status <(rm x)",
    "git status << x",
    "git status *",
    "git status ?",
    "git status [a]",
    "git status {a,b}",
    "git status ~/x",
    "git status a=~",
    "git status # x",
    "git status \\\nrm",
    "git status 'a",
    'git status "a',
    "git status 'a\\'",
    "git status 'a\nb'",
    "git status !x",
    "git status '!x'",
    "git status a^b",
    "(git status)",
    "{ git status; }",
    "! git status",
    "PATH=/tmp git status",
    "A+=b git status",
    "=git status",
    "git =status",
    "if git status",
    "while git status",
    "time git status",
    "exec git status",
    "eval git status",
    "command git status",
    ". git status",
    "source git status",
    "\u00a0git status",
    "git\u2003status",
    "git\u200bstatus",
    "",
    " ",
    "''",
    "git " + "a" * 10_000,
]


@pytest.mark.parametrize("text", BYPASSES)
def test_what_is_more_than_a_simple_command_has_no_words(text: str) -> None:
    """Operators, expansion, redirection, quoting that is not certain, assignments: no words."""
    assert words_of(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git status", ("git", "status")),
        ("  git\t log  --oneline ", ("git", "log", "--oneline")),
        ("git commit -m 'a; b $c `d` > e'", ("git", "commit", "-m", "a; b $c `d` > e")),
        ('npm run "build all"', ("npm", "run", "build all")),
        ("./a.sh --x=1,2 a:b %c @d ''", ("./a.sh", "--x=1,2", "a:b", "%c", "@d", "")),
        ("a'b'\"c\"d e", ("abcd", "e")),
        ("grüß", None),
        ("echo 'grüß'", ("echo", "grüß")),
    ],
)
def test_a_simple_command_has_its_words(text: str, words: tuple[str, ...] | None) -> None:
    """Blanks divide words, quotes hold them together, and are not part of them."""
    assert words_of(text) == words


def argv_of(shell: str, text: str) -> list[str]:
    """The words that a shell makes of ``text``, in a shell that could do nothing else."""
    script = f"words() {{ printf '%s\\0' \"$@\"; }}; words {text}"
    done = subprocess.run([shell, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\0")[:-1]


ODD = st.text(
    alphabet=string.ascii_letters + " \t'\"$`\\;&|<>(){}[]*?~#!=^%@+:,./-\n\r\0é", max_size=24
)
PLAIN = st.text(alphabet=string.ascii_letters + string.digits + "_@%+:,./-", min_size=1, max_size=6)
QUOTED = st.text(alphabet=st.characters(exclude_categories=["C", "Z"], exclude_characters="'!\\"))
PIECES = st.one_of(PLAIN, QUOTED.map(lambda text: f"'{text}'"), ODD)
TEXTS = st.lists(st.lists(PIECES, min_size=1, max_size=3).map("".join), max_size=5).map(" ".join)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_a_shell_sees_the_very_words(shell: str, text: str) -> None:
    """Whatever is taken for a simple command is, to a real shell, those words and no more."""
    words = words_of(text)
    if words is not None:
        assert argv_of(shell, text) == list(words)


@settings(max_examples=200, deadline=None)
@given(first=PLAIN, rest=st.lists(PLAIN | QUOTED, max_size=4))
def test_quoted_words_come_back(first: str, rest: list[str]) -> None:
    """Words that need nothing but plain quotes are found again, in their order."""
    wanted = (first, *rest)
    found = words_of(shlex.join(wanted))

    if first in RESERVED or any("'" in word for word in wanted):
        assert found is None or found == wanted
    else:
        assert found == wanted


@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_nothing_but_plain_characters_stands_outside_of_quotes(text: str) -> None:
    """What remains of a simple command without its quoted parts means nothing to a shell."""
    if words_of(text) is not None:
        outside, quote = [], ""
        for character in text:
            if quote:
                quote = "" if character == quote else quote
            elif character in "'\"":
                quote = character
            else:
                outside.append(character)
        assert quote == ""
        assert set(outside) <= set(string.ascii_letters + string.digits + "_@%+=:,./- \t")


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git log *", "git log", True),
        ("git log *", "git log a b", True),
        ("git log *", "git logs", False),
        ("git *", "git", True),
        ("git * x", "git log x", True),
        ("git * x", "git log y x", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run 'test:a b'", True),
        ("npm run test:?", "npm run test:ab", False),
        ("'my tool' *", "'my tool' x", True),
        ("git commit -m '*'", "git commit -m x", False),
        ("git commit -m '*'", "git commit -m '*'", True),
        ('grep "a?" *', "grep ab x", False),
        ('grep "a?" *', "grep 'a?' x", True),
        ("echo 'a*'*", "echo 'a*b'", True),
        ("git log '*'", "git log a b", False),
        ("git", "GIT", False),
        ("*", "ls", True),
        ("*", "ls x", False),
        ("a.b", "axb", False),
    ],
)
def test_a_pattern_is_matched_word_by_word(pattern: str, command: str, fits: bool) -> None:
    """A star stays within its word, but for a last one behind others, which takes what is left."""
    wanted, words = pattern_of(pattern), words_of(command)

    assert wanted is not None
    assert words is not None
    assert matches(wanted, words) is fits


@pytest.mark.parametrize("pattern", ["", "git;", "git $x", "git [a]", "git 'x", "git > x", "a\nb"])
def test_what_is_no_command_is_no_pattern(pattern: str) -> None:
    """A pattern that no simple command could fit is refused when it is read."""
    assert pattern_of(pattern) is None
