"""Completion: what a line may go on with, in the shells that people type it into."""

import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from client_daemon import HANDLE, ROOT, FakeDaemon, coachman, command, environment
from client_samples import AGENTS, summary
from coachman.cli.candidates import candidates
from coachman.cli.completion import SCRIPTS
from coachman.cli.main import VERBS, _load

SHELL_LIMIT_S = 90.0
OTHER = "zzzzz"
ROWS = [
    summary(),
    summary(
        run=f"261129-220417-{OTHER}",
        handle=OTHER,
        task="fix-login",
        agent="opencode",
        state="ended",
        outcome="failed",
        profile="sealed",
        attention=None,
    ),
]
PROFILES = {"profiles": [{"name": "edit"}, {"name": "review"}]}
HANDLERS: dict[str, Any] = {
    "run.list": {"runs": ROWS, "older": 0},
    "agent.list": AGENTS,
    "profile.list": PROFILES,
}


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    """Asks for the candidates of a line, of a scripted daemon."""
    socket = tmp_path / "control.sock"
    with FakeDaemon(socket, HANDLERS):
        yield lambda line: values(line, tmp_path)


def values(line: str, state_dir: Path) -> list[str]:
    """What a line may go on with; a line that ends with a blank begins another word."""
    words = shlex.split(line) + ([""] if line.endswith(" ") or not line else [])
    done = coachman(state_dir, "completion", "--candidates", "--", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [found.partition("\t")[0] for found in done.stdout.splitlines()]


def test_verbs_are_those_of_the_table(asked: Any) -> None:
    """Nothing typed yet: every verb; help takes them too."""
    assert set(asked("")) == {*VERBS, "help"}
    assert set(asked("help ")) == set(VERBS)
    assert asked("-C /tmp --json per") == ["permissions"]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_option_of_the_help_is_offered(verb: str, asked: Any) -> None:
    """What `VERB --help` tells, and what it does not tell is not offered."""
    flags = {f for option in _load(verb).COMMAND.options if option.help for f in option.flags}

    assert set(asked(f"{verb} -")) == flags


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run --per", ["--permissions", "--permission-handler", "--permission-timeout"]),
        ("run -d --det", []),
        ("run -l a=b --lab", ["--label"]),
        ("run --permissions ", ["allow", "ask", "deny"]),
        ("run --permissions=d", ["--permissions=deny"]),
        ("run --permissions = d", ["deny"]),
        ("run --permissions =", ["allow", "ask", "deny"]),
        ("list --state act", ["active"]),
        ("list --state active,wai", ["active,waiting"]),
        ("list --state=active,wai", ["--state=active,waiting"]),
        ("--color n", ["never"]),
        ("list --color n", ["never"]),
        ("wait --until a", ["attention"]),
        ("daemon st", ["start", "stop"]),
        ("daemon stop --mode d", ["detach", "drain"]),
        ("daemon stop ", []),
        ("profile ", ["list", "explain"]),
        ("profile explain ", ["edit", "review"]),
        ("run -p r", ["review"]),
        ("run -a ", ["demo"]),
        ("agents d", ["demo"]),
        ("run -t f", ["fix-login"]),
        ("show ", [HANDLE, OTHER, "parser", "fix-login", "@"]),
        ("inspect z", [OTHER]),
        ("wait z", []),
        ("cancel k", [HANDLE]),
        (f"wait {HANDLE} p", ["parser"]),
        (f"show {HANDLE} ", []),
        (f"answer {HANDLE} ", ["allow", "always", "deny"]),
        ("run --prompt-file ", [":files"]),
        ("run -C ", [":directories"]),
        ("run -- ls ", [":files"]),
        ("run ", []),
        ("nonsense ", []),
    ],
)
def test_a_line_goes_on_with_what_fits(line: str, expected: list[str], asked: Any) -> None:
    """Options, their values and operands, each where they can stand."""
    assert asked(line) == expected


def test_only_what_asks_can_be_answered(tmp_path: Path) -> None:
    """`answer` offers the runs that wait for an answer."""
    waiting = summary(handle="aaaaa", task="t", attention={"kind": "permission"})
    page = {"runs": [*ROWS, waiting], "older": 0}
    with FakeDaemon(tmp_path / "control.sock", {"run.list": page}):
        assert values("answer ", tmp_path) == ["aaaaa", "t", "@"]


def test_without_a_daemon_the_files_answer_and_none_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs, tasks, agents and profiles of the state directory; nothing new lies in it."""
    run = tmp_path / "runs" / f"261129-220417-{HANDLE}"
    run.mkdir(parents=True)
    (run / "request.json").write_text(
        '{"task": "parser", "agent": "demo", "profile": "edit", "created_ms": 1}'
    )
    env = environment(tmp_path, COACHMAN_AUTOSTART="1")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    lines = {line: candidates(line.split(" "), env) for line in ("show ", "run -a ", "run -p ")}

    assert lines == {
        "show ": [f"{HANDLE}\tparser, demo, lost", "parser\ttask", "@\tthe newest run here"],
        "run -a ": ["demo\t"],
        "run -p ": ["edit\t"],
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_a_daemon_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    """The files answer while the daemon still thinks."""
    answered = threading.Event()

    def never(_params: dict[str, Any], _peer: Any) -> dict[str, Any]:
        answered.wait()
        return HANDLERS["run.list"]

    with FakeDaemon(tmp_path / "control.sock", {"run.list": never}):
        try:
            assert values("show ", tmp_path) == ["@"]
        finally:
            answered.set()


@pytest.mark.parametrize("evil", ["$(touch x)", "a b", "a;b", "a\x1b[2J", "a\nb", "`id`", "'", ""])
def test_nothing_that_means_something_to_a_shell_is_offered(evil: str, tmp_path: Path) -> None:
    """A name with control characters, blanks or shell syntax is left out."""
    rows = [summary(task=evil), summary(handle=evil, task="b" * 99)]
    with FakeDaemon(tmp_path / "control.sock", {"run.list": {"runs": rows, "older": 0}}):
        done = coachman(tmp_path, "completion", "--candidates", "--", "show", "")
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]

    assert set(offered) == {HANDLE, "b" * 99, "@"}
    assert done.stdout.replace("\n", "").replace("\t", "").isprintable()


def test_a_shell_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """The three shells are named."""
    done = coachman(tmp_path, "completion", "tcsh")

    assert done.returncode == 64
    assert "choose bash, zsh, fish" in done.stderr


# --- in real shells -------------------------------------------------------------

PROMPT = "ready>"
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        f"PS1='{PROMPT}'; bind 'set enable-bracketed-paste off'; . {{script}}",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        f"PROMPT='{PROMPT}'; autoload -U compinit; compinit -u -D; . {{script}}",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        f"function fish_prompt; echo '{PROMPT}'; end; source {{script}}",
    ),
}


# What is typed, and the words that the shell then carries out.
LINES = (
    ("coachman vers\t--qui\t", "version --quiet"),
    ("coachman list --color nev\t--state=wai\t", "list --color never --state=waiting"),
    ("coachman show zz\t", f"show {OTHER}"),
    ("coachman run --prompt-file my-pro\t", "run --prompt-file my-prompt.txt"),
    ("coachman -C my-dir\t stat\t", "-C my-directory/? status"),
    ("coachman nonsense fi\tx", "nonsense fix"),
)


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        ours, theirs = pty.openpty()
        # A session whose terminal it is: without one fish leaves at once.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            cwd=cwd,
        )
        os.close(theirs)
        self._fd = ours
        self.said = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def expect(self, pattern: str) -> None:
        """Read until the pattern is on the screen; what came before is forgotten."""
        ends = time.monotonic() + SHELL_LIMIT_S
        while not (found := re.search(pattern, self.said)):
            ready, _, _ = select.select([self._fd], [], [], max(0.0, ends - time.monotonic()))
            assert ready, f"{pattern!r} did not appear in {self.said!r}"
            self.said += os.read(self._fd, 65536).decode("utf-8", "replace")
        self.said = self.said[found.end() :]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


@pytest.fixture(params=SHELLS)
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An interactive shell with coachman on its PATH and its completion loaded."""
    argv, setup = SHELLS[request.param]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed: apt-get install {argv[0]}")
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "coachman").write_text(
        f"#!/bin/sh\n"
        f'[ "$1" = completion ] && exec {shlex.join(command())} "$@"\n'
        f"""(IFS='|'; printf '[%s]\\n' "$*")\n"""
    )
    (tmp_path / "my-prompt.txt").touch()
    (tmp_path / "my-directory").mkdir()
    (bin_dir / "coachman").chmod(0o755)
    script = coachman(tmp_path, "completion", request.param)
    (tmp_path / "script").write_text(script.stdout)
    env = environment(tmp_path, TERM="dumb", LANG="C.UTF-8")
    env["PATH"] = f"{bin_dir}:{env['PATH']}"
    with FakeDaemon(tmp_path / "control.sock", HANDLERS):
        shell = Terminal(argv, env, tmp_path)
        try:
            # What is typed is echoed, and so is not yet what is waited for.
            shell.type(setup.format(script=shlex.quote(str(tmp_path / "script"))) + "\r")
            shell.type("echo lo''aded\r")
            shell.expect("loaded")
            yield shell
        finally:
            shell.close()


def test_shells_complete(terminal: Terminal) -> None:
    """TAB completes a verb, an option, the value of one, a handle, and the name of a file."""
    for typed, line in LINES:
        terminal.type(typed + "\r")
        terminal.expect(rf"\[{line.replace(' ', '[|]')}]")


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_a_script_is_printed_as_it_is_shipped(shell: str, tmp_path: Path) -> None:
    """With --json it is a member of the one document."""
    script = (ROOT / "client/coachman/cli/completions" / SCRIPTS[shell]).read_text()

    assert coachman(tmp_path, "completion", shell).stdout == script
    wrapped = json.loads(coachman(tmp_path, "completion", shell, "--json").stdout)
    assert wrapped == {"shell": shell, "script": script}
