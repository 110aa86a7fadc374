"""The command line's document says what the command line does."""

import re

from client_daemon import ROOT
from coachman import nouns, nouns_daemon, wire
from coachman.cli.main import ALIASES, VERBS, _load

CLI = (ROOT / "docs/cli.md").read_text()
CLIENT = (ROOT / "docs/python-client.md").read_text()


def test_every_verb_and_alias_is_documented() -> None:
    """The table of verbs is complete."""
    words = set(re.findall(r"`([a-z]+)", CLI))

    assert set(VERBS) - words == set()
    assert set(ALIASES) - words == set()


def test_every_exit_code_is_documented() -> None:
    """The table of exit codes has each code that the client knows, and no other."""
    rows = re.findall(r"^\| ([\d, ]+) \|", CLI, re.M)
    documented = {int(code) for row in rows for code in row.split(",")}

    assert documented == {
        v for name, v in vars(wire).items() if name.startswith("EXIT_") and type(v) is int
    }


def test_every_option_of_run_is_documented() -> None:
    """The options of the verb that has most are all mentioned."""
    command = _load("run").COMMAND
    hidden = {"tied", "help"}
    missing = [
        option.name
        for option in command.options
        if option.name not in hidden
        and not any(f"`{flag}" in CLI or f" {flag}" in CLI for flag in option.flags)
    ]

    assert missing == []


def test_every_method_of_the_client_is_documented() -> None:
    """The table of nouns lists each public method."""
    for noun in (
        nouns_daemon.DaemonMethods,
        nouns_daemon.LeaseMethods,
        nouns.AgentMethods,
        nouns.ProfileMethods,
        nouns.RunMethods,
        nouns.EventMethods,
        nouns.PermissionMethods,
        nouns.TaskMethods,
    ):
        name = noun.__name__.removesuffix("Methods").lower()
        (row,) = re.findall(rf"^\| `client\.{name}` \| (.*) \|$", CLIENT, re.M)
        methods = {method for method in vars(noun) if not method.startswith("_")}
        assert methods <= set(re.findall(r"`(\w+)`", row)), name
