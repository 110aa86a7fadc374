"""Command lines that make no sense are refused with what would."""

import json
from pathlib import Path

import pytest

from client_daemon import HANDLE, FakeDaemon, coachman, streaming
from client_samples import result, summary


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["daemon", "foo"],
            "cannot daemon 'foo': say start, stop, restart, logs, reindex, install or uninstall",
            "usage: coachman daemon start|stop|restart|logs|reindex|install|uninstall",
        ),
        (
            ["profile", "foo"],
            "cannot profile 'foo': say list, or explain PROFILE",
            "usage: coachman profile list|explain",
        ),
        (["-V"], "cannot read the command line: there is no option -V", "usage: coachman VERB"),
        (
            ["tail", "--types", "bogus"],
            "cannot tail --types 'bogus': there is no such type of event",
            "choose agent.commands, ",
        ),
        (
            ["tail", "--types", "tool.call,run.endde"],
            "cannot tail --types 'run.endde': there is no such type of event",
            "near it: run.ended",
        ),
        (
            ["tail", "--since", "yesterday"],
            "cannot read --since: 'yesterday' is neither a duration nor a time",
            "or 2026-11-29T22:04",
        ),
        (["log", "-n", "0"], "cannot read --lines: 0 is too few", "write 1 or more"),
        (["list", "--limit", "0"], "cannot read --limit: 0 is too few", "write 1 or more"),
        (["daemon", "logs", "-n", "0"], "cannot read --lines: 0 is too few", "write 1 or more"),
        (["diff", "--limit", "5"], "cannot diff: --offset and --limit are for --json", "all is"),
    ],
)
def test_a_refusal_says_what_to_write(
    state_dir: Path, words: list[str], message: str, hint: str
) -> None:
    """The first line is what was wrong, the second what would be right."""
    done = coachman(state_dir, *words)
    first, second = done.stderr.splitlines()[:2]

    assert (done.returncode, done.stdout, first) == (64, "", message)
    assert hint in second


def test_no_verb_is_a_failure_for_programs_too(state_dir: Path) -> None:
    """Without a verb people see the verbs, and --json gives its one document."""
    people, program = coachman(state_dir), coachman(state_dir, "--json")

    assert (people.returncode, people.stdout) == (64, "")
    assert "  run          start a run" in people.stderr
    assert (program.returncode, program.stderr) == (64, "")
    assert json.loads(program.stdout)["error"]["name"] == "Usage"


@pytest.mark.parametrize("words", [["help", "--json"], ["--json", "help"], ["--help", "--json"]])
def test_the_verbs_are_told_as_a_document(state_dir: Path, words: list[str]) -> None:
    """Help with --json is a document as well."""
    done = coachman(state_dir, *words)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["aliases"]["ps"] == "list"


@pytest.mark.parametrize("words", [["help", "ps"], ["list", "--help"], ["help", "list"]])
def test_help_knows_one_verb(state_dir: Path, words: list[str]) -> None:
    """`help VERB` is `VERB --help`, with --json its options as data."""
    people, program = coachman(state_dir, *words), coachman(state_dir, *words, "--json")
    options = json.loads(program.stdout)["options"]

    assert people.stdout.startswith("usage: coachman list [OPTIONS]\n")
    assert {"flags": ["--limit"], "value": "N", "help": "at most so many"} in options


@pytest.mark.parametrize(
    ("words", "env", "hint", "starts"),
    [
        ([], {"COACHMAN_AUTOSTART": "1"}, "verbs that start work start one", True),
        ([], {"COACHMAN_AUTOSTART": "0"}, "COACHMAN_AUTOSTART is off", True),
        (["--socket", "/nowhere/s"], {}, "its path was chosen", False),
        ([], {"COACHMAN_SOCKET": "/nowhere/s"}, "COACHMAN_SOCKET names it", False),
    ],
)
def test_without_a_daemon_the_advice_fits(
    state_dir: Path, words: list[str], env: dict[str, str], hint: str, starts: bool
) -> None:
    """What helps depends on whether a daemon may be started, and where."""
    done = coachman(state_dir, "status", *words, env=env)

    assert done.returncode == 69
    assert hint in done.stderr
    assert ("next: coachman daemon start" in done.stderr) is starts


@pytest.mark.parametrize("name", ["/nowhere/s", "{}/control.sock"])
@pytest.mark.parametrize("verb", [["status"], ["run", "-a", "demo", "x"], ["daemon", "start"]])
def test_a_socket_that_a_variable_names_is_no_dead_end(
    state_dir: Path, verb: list[str], name: str
) -> None:
    """The variable is named, and the next step is not refused for it."""
    env = {"COACHMAN_SOCKET": name.format(state_dir)}
    done = coachman(state_dir, *verb, "--json", env=env)
    error = json.loads(done.stdout)["error"]

    assert "COACHMAN_SOCKET" in error["message"] + error["hint"]
    assert error["next"] == [["env", "-u", "COACHMAN_SOCKET", "coachman", "daemon", "start"]]


def test_known_types_are_passed_on(state_dir: Path) -> None:
    """The types of events that exist reach the subscription."""
    handlers = {
        "run.get": summary(),
        "permission.list": {"permissions": []},
        "event.subscribe": streaming([]),
        "run.result": result(),
    }
    with FakeDaemon(state_dir / "control.sock", handlers) as daemon:
        coachman(state_dir, "tail", HANDLE, "--types", "run.ended,tool.call")

    assert daemon.params("event.subscribe")[0]["types"] == ["run.ended", "tool.call"]
