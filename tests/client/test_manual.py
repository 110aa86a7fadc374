"""The manual page says what `--help` says, and is good roff."""

import re
import shutil
import subprocess
import sys

import pytest

from client_daemon import ROOT
from coachman.cli.main import VERBS, _load

PAGE = ROOT / "client/man/coachman.1"
CHECKS = (
    ["groff", "-man", "-ww", "-z", "-Tutf8"],
    ["mandoc", "-Tlint"],
)
# A date would only say when the page was written anew.
ACCEPTED = "WARNING: missing date"


def test_the_page_is_what_the_tables_say() -> None:
    """The committed page is the generated one; a difference says how to write it anew."""
    done = subprocess.run(
        [sys.executable, "scripts/man.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_has_every_verb_and_option() -> None:
    """Nothing that `--help` tells is missing."""
    text = re.sub(r"\\f[BIR]", "", PAGE.read_text().replace("\\-", "-"))

    for verb in VERBS:
        section = text.split(f'\n.SS "{verb}', 1)[1].split("\n.SH", 1)[0]
        for option in _load(verb).COMMAND.options:
            if option.help:
                assert option.flags[-1] in section + text.split(".SH COMMON OPTIONS")[1]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check[0])
def test_the_page_is_good_roff(check: list[str]) -> None:
    """The formatters that are here have nothing to say about it."""
    if shutil.which(check[0]) is None:
        pytest.skip(f"{check[0]} is not installed: apt-get install {check[0]}")
    done = subprocess.run([*check, PAGE], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).splitlines()

    assert [line for line in said if ACCEPTED not in line] == []
