"""The command line: find the verb, import only that, report as it must be reported."""

import os
import sys

from ..errors import CoachmanError, UsageError
from ..wire import EXIT_CANCELLED, EXIT_INTERNAL, EXIT_OK, EXIT_STORAGE, EXIT_USAGE
from .console import Console
from .options import Arguments, Command, nearest, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

VERBS = {
    "run": "start a run of an agent in a task's worktree",
    "resume": "go on in the session of a run that has ended",
    "list": "the living runs and those of the last 12 hours",
    "show": "everything about one run",
    "result": "how a run ended, and its final message",
    "log": "the transcript of a run",
    "tail": "the events of a run as they happen",
    "diff": "what a run or a task changed, as a patch",
    "usage": "what runs used: tokens, cost, outcomes",
    "tree": "a run and the runs that came from it",
    "status": "the daemon, its load, its boundary",
    "doctor": "what keeps runs from working, and the remedy",
    "prompt": "give a kept run another prompt",
    "interrupt": "end the turn that runs, then go on",
    "permissions": "what agents ask to be allowed",
    "answer": "allow or deny what an agent asks, or tell it",
    "ask": "for an agent: ask the run that started its own",
    "wait": "wait until runs end, or until they need you",
    "close": "end runs once they have nothing more to do",
    "cancel": "end runs now",
    "cleanup": "remove what ended runs left, or tell what could go",
    "agents": "the agents that can be run",
    "profile": "what a run may touch: list, explain",
    "completion": "what makes your shell complete these",
    "daemon": "start, stop, restart, logs, install, uninstall",
    "skill": "what an agent must know to drive this version",
    "version": "the version of coachman",
}
ALIASES = {
    "ps": "list",
    "ls": "list",
    "inspect": "show",
    "logs": "log",
    "kill": "cancel",
    "stop": "cancel",
}
# `tail --classify`, for those who are used to it.
WATCH = "watch"
EXIT_BROKEN_PIPE = 141
_TOP = Command(
    "VERB … [OPTIONS]",
    "Run coding agents, each in its own worktree and sandbox.",
    operands=(0, None),
    verb="read the command line",
)


def main(words: list[str] | None = None) -> int:
    """Run one command line; returns its exit code, with all output flushed."""
    words = sys.argv[1:] if words is None else words
    for stream in (sys.stdout, sys.stderr):
        # Always UTF-8, whatever the locale says; never an exception over a character.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        try:
            return _run(words)
        except KeyboardInterrupt:
            return EXIT_CANCELLED
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    except OSError as error:
        return _unwritable(error)


def _unwritable(error: OSError) -> int:
    """Output that nobody takes: a reader that has enough, or a full disk."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    sys.stderr.write(f"cannot write the output: {os.strerror(error.errno or 0)}\n")
    return EXIT_STORAGE


def _run(words: list[str]) -> int:
    console = None
    try:
        verb, rest = _verb(words)
        if verb is None:
            console = _bare_console(words)
            return _overview(console, wanted=bool(rest))
        module = _load(verb)
        arguments = parse(module.COMMAND, rest)
        if arguments.has("help"):
            console = _bare_console(words)
            return _help(console, module.COMMAND)
        console = Console(arguments, os.environ)
        code: int = module.main(console, arguments)
        return code
    except CoachmanError as error:
        return (console or _bare_console(words)).fail(error)
    except BrokenPipeError:
        # The client maps those of the daemon's socket; this one is of stdout.
        raise
    except Exception as error:
        if os.environ.get("COACHMAN_TRACEBACK"):
            raise
        return (console or _bare_console(words)).fail(_unexpected(error))
    finally:
        if console is not None:
            console.close()


def _verb(words: list[str]) -> tuple[str | None, list[str]]:
    """The verb and the words for it; options before the verb are handed on to it."""
    if words[:1] == ["--version"]:
        return "version", words[1:]
    top = parse(_TOP, words, leading=True)
    if not top.operands:
        return None, ["help"] if top.has("help") else []
    name = top.operands[0]
    before = words[: len(words) - len(top.operands)]
    if name == "help":
        topic = parse(_TOP, [*before, *top.operands[1:]]).operands
        return (ALIASES.get(topic[0], topic[0]), ["--help"]) if topic else (None, ["help"])
    if name == WATCH:
        return "tail", [*before, "--classify", *top.operands[1:]]
    return ALIASES.get(name, name), before + top.operands[1:]


def _load(verb: str) -> "ModuleType":
    if verb not in VERBS:
        near = nearest(verb, sorted(VERBS))
        raise UsageError(
            f"cannot {verb}: there is no such verb",
            hint=f"near it: {', '.join(near)}" if near else None,
            next=[["coachman", "--help"]],
        )
    from importlib import import_module

    return import_module(f"coachman.cli.{verb}")


def _overview(console: Console, *, wanted: bool) -> int:
    """The verbs: as an answer to ``--help``, else as what to say instead of nothing."""
    if console.json and not wanted:
        raise UsageError(
            "cannot read the command line: it has no verb", next=[["coachman", "--help"]]
        )
    if console.json:
        console.document({"usage": f"coachman {_TOP.usage}", "verbs": VERBS, "aliases": ALIASES})
        return EXIT_OK
    lines = ["usage: coachman VERB …   (coachman VERB --help tells more)", ""]
    lines += [f"  {verb:<12} {summary}" for verb, summary in VERBS.items()]
    (sys.stdout if wanted else sys.stderr).write("\n".join(lines) + "\n")
    return EXIT_OK if wanted else EXIT_USAGE


def _help(console: Console, command: Command) -> int:
    if console.json:
        console.document(command.document())
    else:
        console.line(command.help())
    return EXIT_OK


def _bare_console(words: list[str]) -> Console:
    """A console for failures before the options were understood."""
    arguments = Arguments()
    options = words[: words.index("--")] if "--" in words else words
    if "--json" in options:
        arguments.put("json", "")
    return Console(arguments, os.environ)


def _unexpected(error: Exception) -> CoachmanError:
    return CoachmanError(
        f"cannot go on: {type(error).__name__}: {error}",
        hint="this is a fault of coachman; COACHMAN_TRACEBACK=1 shows where",
        exit_code=EXIT_INTERNAL,
    )
