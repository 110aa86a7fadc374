"""``coachman completion``: what makes a shell complete command lines of coachman."""

import os
import sys

from ..errors import UsageError
from ..wire import EXIT_OK
from .options import Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "completion bash|zsh|fish",
    "Print the completion script of a shell. It asks this command again at each TAB, so that it\n"
    "always knows the verbs of this version, your runs, tasks, agents and profiles.\n"
    'For now: eval "$(coachman completion bash)"; for good: see where your shell looks for them.',
    # What the scripts call: the words behind --, the last of them unfinished.
    Option("--candidates", ""),
    operands=(0, 1),
    trailing=True,
)
SCRIPTS = {"bash": "coachman.bash", "zsh": "_coachman", "fish": "coachman.fish"}


def main(console: "Console", arguments: "Arguments") -> int:
    """Print a script, or the candidates that one asked for."""
    if arguments.has("candidates"):
        from .candidates import candidates

        # Nobody could read a complaint: a shell that completes shows nothing but candidates.
        for line in candidates(arguments.trailing or [""], console.env):
            sys.stdout.write(line + "\n")
        return EXIT_OK
    shell = arguments.operands[0] if arguments.operands else ""
    if shell not in SCRIPTS or arguments.trailing:
        raise UsageError(
            f"cannot complete for {shell!r}: choose {', '.join(SCRIPTS)}",
            hint=f"usage: coachman {COMMAND.usage}",
        )
    with open(
        os.path.join(os.path.dirname(__file__), "completions", SCRIPTS[shell]), encoding="utf-8"
    ) as script:
        text = script.read()
    if console.json:
        console.document({"shell": shell, "script": text})
    else:
        sys.stdout.write(text)
    return EXIT_OK
