"""The configuration file is taken as meant or refused by key and line."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachmand.config import AgentInstance, Config, RepoSettings
from coachmand.config_reader import ConfigError, load, parse
from coachmand.config_values import duration_s

HOME = "/home/u"

FULL = """\
agent = "claude-work"
profile = "edit"
permissions = "ask"

[timeouts]
wall = "1h30m"
permission = 90

[capacity]
max_active = 3

[storage]
worktrees = "~/wt/../trees"

[agents.claude-work]
adapter = "claude"
executable = "/opt/claude/bin/claude"
model = "opus"
home = "~"
env = { ANTHROPIC_BASE_URL = "http://127.0.0.1:1" }

[repo."~/src/../app"]
setup = "make deps"
copy = [".env.test"]
check = "make test"

[log]
level = "debug"
"""


def test_every_key_is_read() -> None:
    """A file with every key becomes its records, durations in seconds and paths absolute."""
    config = parse(FULL, HOME)

    assert (config.agent, config.profile, config.permissions) == ("claude-work", "edit", "ask")
    assert (config.timeouts.wall_s, config.timeouts.permission_s) == (5400, 90)
    assert config.capacity.max_active == 3
    assert config.storage.worktrees == "/home/u/trees"
    assert config.log.level == "debug"
    assert config.repo == {"/home/u/app": RepoSettings("make deps", (".env.test",), "make test")}
    assert config.agents == {
        "claude-work": AgentInstance(
            adapter="claude",
            executable="/opt/claude/bin/claude",
            model="opus",
            home="/home/u",
            env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
        )
    }


def test_values_of_the_environment_are_not_shown() -> None:
    """The representation of the configuration holds no value of an agent's environment."""
    assert "127.0.0.1" not in repr(parse(FULL, HOME))


def test_no_file_is_the_default(tmp_path: Path) -> None:
    """A missing file means the built-in values."""
    assert load(str(tmp_path / "none.toml"), HOME) == Config() == parse("", HOME)


REFUSED = {
    '[timeouts]\n\nwal = "4h"': "unknown key `timeouts.wal` on line 3; did you mean `wall`?",
    'agnt = "x"': "unknown key `agnt` on line 1; did you mean `agent`?",
    '# one\n# two\n[hosts."~/src"]\nsetup = "x"': "unknown key `hosts` on line 3; known here: "
    "agent, profile, permissions, network, permission_handler, rules, on_limit, retries, timeouts, "
    "capacity, storage, retention, agents, repo, profiles, notify, log",
    '[timeouts]\nidle = "1m"': "unknown key `timeouts.idle` on line 2; known here: "
    "wall, work, stall, turn, queue, permission, parked, check",
    '[repo."src/app"]\ncheck = "x"': "`repo.src/app` on line 1 must be named by an absolute path, "
    "or one that starts with ~/, not 'src/app'",
    '[repo."~/app"]\ncheck = ""': "`repo.~/app.check` on line 2 must be a string that is not empty",
    '[[rules]]\ndecide = "allow"\ncommand = "a; b"': "`rules[0].command` on line 3 must be a "
    "simple command, in which * and ? may stand, not 'a; b'",
    '[[rules]]\n[[rules]]\ntool = "bash"': "`rules[1].tool` on line 3 must be one or an "
    "array of read, edit, delete, move, search, execute, think, fetch, switch_mode, other,",
    "rules = 1": "`rules` on line 1 must be an array of tables, not 1",
    "[profiles.none]\nrules = []": "`profiles.none` on line 1 lacks `inherits`, the "
    "profile that it is made of: edit, review",
    'permission_handler = "file:q"': "`permission_handler` on line 1 must be file:BASE or "
    "command:PATH, each with an absolute path, not 'file:q'",
    "timeouts = { wall_s = 3 }": "unknown key `timeouts.wall_s` on line 1; did you mean `wall`?",
    'agent = "a"\n[agents.x]\nmodel = """\na\n"""\nadaptor = "y"': "unknown key "
    "`agents.x.adaptor` on line 6; did you mean `adapter`?",
    '[agents.x.env]\nA = "1"\n[agents.x.envs]': "unknown key `agents.x.envs` on line 3; "
    "did you mean `env`?",
    "\n[timeouts]\nwall = [\n 1,\n]": "`timeouts.wall` on line 3 must be a duration such as "
    "90, 90s, 30m, 1h30m or 2d, not an array",
    '[timeouts]\nwall = "4 hours"': "`timeouts.wall` on line 2 must be a duration such as "
    "90, 90s, 30m, 1h30m or 2d, not '4 hours'",
    "[timeouts]\nwall = 0": "must be a duration such as 90, 90s, 30m, 1h30m or 2d, not 0",
    "[timeouts]\nwall = true": "must be a duration such as 90, 90s, 30m, 1h30m or 2d, not true",
    "[timeouts]\nwall = 1.5": "must be a duration such as 90, 90s, 30m, 1h30m or 2d, not 1.5",
    '[notify]\ncommand = ["bin/tell"]': "`notify.command` on line 2 must be an array of a "
    "program's absolute path and its arguments, not an array with 'bin/tell'",
    "[notify]\ncommand = []": "absolute path and its arguments, not an empty array",
    "[notify]\ncommand = ['/a', 1]": "must be an array of strings, not an array with 1",
    '[notify]\non = ["ended", "wat"]': "`notify.on` on line 2 must be one or an array of "
    "attention, ended, limited, degraded, not an array with 'wat'",
    "[agents.x]\nadapter = 'acp'\ncommand = ['a/b']": "not an array with 'a/b'",
    '[profile.ci]\ninherits = "edit"': "`profile` on line 1 is one name, no table; did you mean "
    "`[profiles.NAME]`?",
    '[agent.x]\nadapter = "demo"': "did you mean `[agents.NAME]`?",
    "timeouts = 3": "`timeouts` on line 1 must be a table, not 3",
    "agents = []": "`agents` on line 1 must be a table, not an empty array",
    "[capacity]\nmax_active = true": "`capacity.max_active` on line 2 must be a whole number "
    "from 1, not true",
    '[storage]\nworktrees = "wt"': "`storage.worktrees` on line 2 must be an absolute path, "
    "or one that starts with ~/, not 'wt'",
    'permissions = "yes"': "`permissions` on line 1 must be one of allow, ask, deny, not 'yes'",
    '[log]\nlevel = "loud"': "`log.level` on line 2 must be one of debug, info, warning, error",
    "agent = 1": "`agent` on line 1 must be a name of lower-case letters, digits",
    '[agents."A b"]\n': "`agents.A b` on line 1 must be named in lower-case letters",
    "[agents.x]\nenv = { A = 1 }": '`agents.x.env` on line 2 must be a table of NAME = "value"',
    'agent = "a\n': "Illegal character '\\n' (at line 1, column 11)",
    "agent": "Expected '=' after a key in a key/value pair (at end of document)",
    'agent = "a"\nagent = "b"': "Cannot overwrite a value",
}


@pytest.mark.parametrize(("text", "complaint"), REFUSED.items())
def test_a_mistake_is_named_with_its_line(text: str, complaint: str) -> None:
    """A mistake is refused with the key, its line and what it should be."""
    with pytest.raises(ConfigError) as caught:
        parse(text, HOME)

    assert str(caught.value).startswith("cannot read the configuration: ")
    assert complaint in str(caught.value)


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    """A FIFO that nobody writes is refused at once, a directory too; /dev/null is an empty file."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, why in ((fifo, "it is no regular file"), (tmp_path, "Is a directory|regular")):
        with pytest.raises(ConfigError, match=f"{path}: ({why})"):
            load(str(path), HOME)

    assert load(os.devnull, HOME) == Config()


def test_what_is_no_text_is_refused_by_line(tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused with the line of the first bad byte."""
    path = tmp_path / "config.toml"
    path.write_bytes(b'agent = "a"\n# caf\xe9\n')

    with pytest.raises(ConfigError, match="not UTF-8 on line 2"):
        load(str(path), HOME)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A path that cannot be read, or is far too large, is named with its cause."""
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*: Is a directory"):
        load(str(tmp_path), HOME)
    (tmp_path / "large.toml").write_text("#" * 100_000)
    with pytest.raises(ConfigError, match=r"large.toml: it exceeds 64 KiB"):
        load(str(tmp_path / "large.toml"), HOME)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172_800), ("1d2h3m4s", 93784)],
)
def test_durations(text: str, seconds: int) -> None:
    """A duration is seconds, or amounts of d, h, m and s from large to small."""
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "1h 30m", "30m1h", "1.5h", "-1", "h", "٣s", "1w", "1" * 50])
def test_other_texts_are_no_durations(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="is not a duration such as"):
        duration_s(text)


@given(st.text(alphabet='abw=[].{}"\n# 1', max_size=60))
def test_reading_never_fails_otherwise(text: str) -> None:
    """Any text gives a configuration or a complaint."""
    with suppress(ConfigError):
        assert isinstance(parse(text, HOME), Config)


def test_an_agent_that_does_not_exist_is_refused_by_line() -> None:
    """An adapter or default agent that this version does not have is named, with those it has."""
    known = ("demo", "opencode")
    with pytest.raises(ConfigError) as adapter:
        parse('[agents.work]\nadapter = "foo"\n', HOME, known)
    with pytest.raises(ConfigError) as default:
        parse('agent = "nope"\n', HOME, known)
    parse('agent = "work"\n[agents.work]\nadapter = "demo"\n', HOME, known)

    assert "`agents.work.adapter` on line 2 must be one of acp, demo, opencode, not 'foo'" in str(
        adapter.value
    )
    assert "`agent` on line 1 must be one of demo, opencode, not 'nope'" in str(default.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[agents.new]\nadapter = "acp"\n', "`agents.new` on line 1 lacks `command`, a program"),
        (
            '[agents.demo]\nadapter = "acp"\ncommand = ["x"]\n',
            '`agents.demo` on line 1 must be the name of no other agent where its adapter is "acp"',
        ),
        (
            '[agents.work]\nadapter = "demo"\n\nmode = "plan"\n',
            '`agents.work.mode` on line 4 is only for an agent with `adapter = "acp"`',
        ),
        (
            '[agents.new]\nadapter = "acp"\ncommand = ["/opt/x"]\n',
            "`agents.new.command` on line 3 must be an array of a program's name and its arguments",
        ),
        (
            '[agents.new]\nadapter = "acp"\ncommand = ["x"]\nfiles = ["../x"]\n',
            "`agents.new.files` on line 4 must be an array of paths relative to the home directory",
        ),
        (
            '[agents.new]\nadapter = "acp"\ncommand = ["x"]\ncredentials = ["A B"]\n',
            "`agents.new.credentials` on line 4 must be an array of names of variables",
        ),
        (
            '[agents.new]\nadapter = "acp"\ncommand = ["x"]\nusage = "some"\n',
            "`agents.new.usage` on line 4 must be one of none, turn, session, steps, not 'some'",
        ),
    ],
)
def test_an_agent_that_speaks_acp_is_described_in_full(text: str, complaint: str) -> None:
    """What is missing, misplaced or of the wrong form is told by key and line."""
    with pytest.raises(ConfigError) as refused:
        parse(text, HOME, ("demo", "opencode"))

    assert complaint in str(refused.value)


def test_a_complaint_names_the_file(tmp_path: Path) -> None:
    """Three places may hold a configuration: the complaint says which one it is about."""
    path = tmp_path / "config.toml"
    path.write_text("agnet = 1\n")

    with pytest.raises(ConfigError, match=f"cannot read the configuration {path}: unknown key"):
        load(str(path), HOME)
