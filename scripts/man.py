"""Writes client/man/coachman.1 from the help tables of the command line and docs/cli.md.

python scripts/man.py           write it
python scripts/man.py --check   exit 1 where the committed page says something else
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "client/man/coachman.1"
COLUMNS = 78
sys.path.insert(0, str(ROOT / "client"))

from coachman import __version__  # noqa: E402 - found through sys.path
from coachman.cli.main import ALIASES, VERBS, _load  # noqa: E402
from coachman.cli.options import COMMON, Option  # noqa: E402

DOCUMENT = (ROOT / "docs/cli.md").read_text()
INTRODUCTION = (
    "Coachman runs coding agents unattended, each in a git worktree of its own and inside a"
    " sandbox. A daemon carries the runs; this command talks to it, and starts it where need be.",
    "`X` is a run or a task: a run's id, its handle (the last five characters of the id), a"
    " unique prefix of either, a task's name (its newest run), or `@` (the newest run of the"
    " repository around the current directory).",
)
FILES = (
    ("~/.local/state/coachman", "runs and everything about them, and the daemon's log"),
    ("~/.config/coachman/config.toml", "the configuration; it need not exist"),
    ("$XDG_RUNTIME_DIR/coachman/control.sock", "the daemon's control socket"),
)
SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha"}
CODE = re.compile(r"`([^`]+)`")
ROW = re.compile(r"^\| (.+?) \| (.+?) \|$", re.MULTILINE)


def page() -> str:
    """The whole page."""
    lines = [
        '.\\" Written by scripts/man.py; changes belong into the tables that it reads.',
        f'.TH COACHMAN 1 "" "coachman {__version__}" "User Commands"',
        ".SH NAME",
        "coachman \\- run coding agents, each in its own worktree and sandbox",
        ".SH SYNOPSIS",
        ".B coachman",
        ".I VERB",
        ".RI [ OPTIONS ]",
        ".SH DESCRIPTION",
        *_paragraphs(INTRODUCTION),
        ".SH VERBS",
        *(line for verb in VERBS for line in _verb(verb)),
        ".SH COMMON OPTIONS",
        *_options(COMMON),
        ".SH ENVIRONMENT",
        *_rows("variable"),
        '.SH "EXIT STATUS"',
        "Codes below 64 tell how a run ended, the others are about coachman itself.",
        *_rows("code"),
        ".SH FILES",
        *(line for path, about in FILES for line in _item(f"`{path}`", about)),
        '.SH "SEE ALSO"',
        ".BR bwrap (1),",
        ".BR git (1)",
    ]
    return "\n".join(lines) + "\n"


def _verb(verb: str) -> Iterator[str]:
    command = _load(verb).COMMAND
    also = [alias for alias, name in ALIASES.items() if name == verb]
    yield f'.SS "{_plain(command.usage)}"'
    yield from _text(command.summary.replace("\n", " "))
    if also:
        yield from _text(f"Also: {', '.join(f'`{alias}`' for alias in also)}.", before=".br")
    yield from _options(option for option in command.options if option not in COMMON)


def _options(options: "Iterator[Option] | tuple[Option, ...]") -> Iterator[str]:
    for option in options:
        if option.help:
            flags = ", ".join(f"`{flag}`" for flag in option.flags)
            value = f" \\fI{_plain(option.metavar)}\\fR" if option.metavar else ""
            yield ".TP"
            yield _shown(flags) + value
            yield from _text(option.help)


def _rows(head: str) -> Iterator[str]:
    """The rows of the table in docs/cli.md whose first column is called ``head``."""
    table = DOCUMENT.split(f"\n| {head} |", 1)[1].split("\n\n", 1)[0]
    for name, about in ROW.findall(table):
        if not name.startswith("---"):
            yield from _item(name, about)


def _item(name: str, about: str) -> Iterator[str]:
    yield ".TP"
    yield _shown(name)
    yield from _text(about)


def _paragraphs(texts: tuple[str, ...]) -> Iterator[str]:
    for at, text in enumerate(texts):
        yield from _text(text, before=".PP" if at else "")


def _text(text: str, before: str = "") -> Iterator[str]:
    if before:
        yield before
    # A sentence begins a line, as roff has it; a dot that begins one is no request.
    for sentence in re.split(r"(?<=[a-z`)]\.) ", text):
        for line in textwrap.wrap(_shown(sentence), COLUMNS, break_on_hyphens=False):
            yield f"\\&{line}" if line[0] in ".'" else line


def _shown(text: str) -> str:
    """Text with `code` in bold."""
    parts = CODE.split(text)
    return "".join(
        f"\\fB{_plain(part)}\\fR" if at % 2 else _plain(part) for at, part in enumerate(parts)
    )


def _plain(text: str) -> str:
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    return "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.is_file() and PAGE.read_text() == text:
            return 0
        print(f"cannot pass {PAGE.name}: it is not what the tables say", file=sys.stderr)
        print("  next: python scripts/man.py", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
