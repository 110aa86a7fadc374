"""The README's commands are the ones that CI runs, so they cannot be wrong."""

import os
import re
import subprocess

import sourcetree
from coachman.cli.main import VERBS

README = sourcetree.ROOT / "README.md"
EXTRACT = sourcetree.ROOT / "scripts/readme-commands.awk"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
VERB = re.compile(r"^(?:\$ )?coachman (?:-[^ ]+ )*([a-z]+)", re.MULTILINE)


def commands() -> list[str]:
    """What .ci/run reads from the README and runs."""
    done = subprocess.run(
        ["awk", "-f", EXTRACT, README], check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def test_the_two_commands_are_there_and_executable() -> None:
    """The README's first commands are scripts of this repository that can be started."""
    assert commands() == ["scripts/try", "scripts/test"]
    assert all(os.access(sourcetree.ROOT / command, os.X_OK) for command in commands())


def test_every_verb_that_is_shown_exists() -> None:
    """Every `coachman VERB` in a block of the README is a command that exists."""
    shown = {verb for block in BLOCK.findall(README.read_text()) for verb in VERB.findall(block)}

    assert shown - set(VERBS) == set()
