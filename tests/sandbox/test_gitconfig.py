"""What of a repository's configuration crosses."""

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from coachman_sandbox.gitconfig import scrub

HOSTILE = """\
[core]
\trepositoryformatversion = 1
\tfilemode = false ; a comment
\tignoreCase
\tautocrlf = "input"
\tsshCommand = ssh -i /secret
\tfsmonitor = /bin/evil
\thooksPath = hooks
\tpager = evil
[remote "origin"]
\turl = https://user:hunter2@example.org/r.git
[extensions]
\tobjectFormat = sha1
\tworktreeConfig = true
[core "sub"]
\tsymlinks = false
[include]
\tpath = ~/.gitconfig-secret
[credential]
\thelper = store --file=/secret
[http "https://example.org"]
\textraHeader = AUTHORIZATION: basic c2VjcmV0
[filter "x"]\tclean = evil
[alias] core = evil
# [core] \\
[url "https://token@example.org"]
\tinsteadOf = gh
"""


def test_only_harmless_keys_cross() -> None:
    """Format, modes and line endings are kept; remotes, commands and includes are not."""
    assert scrub(HOSTILE) == (
        "[core]\n\tautocrlf = input\n\tfilemode = false\n\tignorecase = true\n"
        "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha1\n"
    )


def test_git_reads_what_was_kept(tmp_path: Path) -> None:
    """The scrubbed text means to git what the original meant."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(HOSTILE)
    after.write_text(scrub(HOSTILE))
    for key in ("core.filemode", "core.ignorecase", "core.autocrlf", "extensions.objectformat"):
        values = [
            subprocess.run(
                ["git", "config", "--file", path, "--no-includes", "--get", key],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for path in (before, after)
        ]
        # git prints a key without a value as an empty line, and means true by it.
        assert values[0] in (values[1], ""), key


def test_an_empty_configuration_has_its_format() -> None:
    """Nothing in, a valid minimum out."""
    assert scrub("") == "[core]\n\trepositoryformatversion = 0\n"


@given(st.text())
def test_any_text_yields_plain_words(text: str) -> None:
    """Whatever comes in, what goes out is sections, known keys and short plain values."""
    once = scrub(text)
    assert scrub(once) == once
    assert set(once) <= set("[]\n\t =._-") | set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    )
