"""Command lines as data: what a verb takes, parsed, and its help.

argparse alone would cost a short command 6 ms of its 20, hence these lines.
"""

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP_COLUMN = 28
# Below this difflib pairs words that share a few letters and no meaning.
_LIKENESS = 0.65


class Option:
    """One option: ``flags`` as they are typed, ``metavar`` None for a switch.

    Its name in ``Arguments`` is the long flag without dashes. ``repeat`` allows
    it more than once. One without ``help`` is taken and not told of. ``choices`` are
    what shells offer as its value; whether others are taken is the verb's business.
    """

    __slots__ = ("choices", "flags", "help", "metavar", "name", "repeat")

    def __init__(
        self,
        flags: str,
        help: str,
        metavar: str | None = None,
        *,
        repeat: bool = False,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.flags = tuple(flags.split())
        self.help = help
        self.metavar = metavar
        self.repeat = repeat
        self.choices = choices
        self.name = self.flags[-1].lstrip("-")


COMMON = (
    Option("--json", "print one JSON document (streams: NDJSON) on stdout"),
    Option("-q --quiet", "print only what was asked for"),
    Option("--no-input", "never ask, even on a terminal"),
    Option("-C --directory", "act as if started in DIR", "DIR"),
    Option("--socket", "the daemon's control socket", "PATH"),
    Option("--color", "auto, always or never", "WHEN", choices=("auto", "always", "never")),
    Option("-h --help", "show this help"),
)


class Command:
    """A verb's command line: its usage, what it does, options, operands.

    ``operands`` is (least, most), most None for any number; ``missing`` says what
    to name when there are too few, ``surplus`` what to do when there are too many.
    ``trailing`` allows words after ``--``. ``verb`` is what errors say cannot be
    done (default: the first word of the usage).
    """

    __slots__ = (
        "missing",
        "operands",
        "options",
        "summary",
        "surplus",
        "trailing",
        "usage",
        "verb",
    )

    def __init__(
        self,
        usage: str,
        summary: str,
        *options: Option,
        operands: tuple[int, int | None] = (0, 0),
        missing: str = "",
        surplus: str = "",
        trailing: bool = False,
        verb: str = "",
    ) -> None:
        self.usage = usage
        self.summary = summary
        self.options = (*options, *COMMON)
        self.operands = operands
        self.missing = missing
        self.surplus = surplus
        self.trailing = trailing
        self.verb = verb or usage.partition(" ")[0]

    def help(self) -> str:
        """The text of ``coachman VERB --help``."""
        lines = [f"usage: coachman {self.usage}", "", self.summary, "", "options:"]
        for option in self._told():
            flags = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
            gap = " " if len(flags) < _HELP_COLUMN - 2 else "\n" + " " * (_HELP_COLUMN + 1)
            lines.append(f"  {flags:<{_HELP_COLUMN - 2}}{gap}{option.help}")
        return "\n".join(lines)

    def document(self) -> dict[str, object]:
        """The same for programs."""
        options = [
            {"flags": list(option.flags), "value": option.metavar, "help": option.help}
            for option in self._told()
        ]
        return {"usage": f"coachman {self.usage}", "summary": self.summary, "options": options}

    def _told(self) -> list[Option]:
        return [option for option in self.options if option.help]


class Arguments:
    """What was given: options by name, operands, and the words after ``--``."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self.operands: list[str] = []
        self.trailing: list[str] | None = None

    def __repr__(self) -> str:
        return f"<Arguments {self._values} {self.operands} -- {self.trailing}>"

    def put(self, name: str, value: str) -> None:
        self._values.setdefault(name, []).append(value)

    def has(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """The option's value, the last one if it was repeated."""
        values = self._values.get(name)
        return values[-1] if values else None

    def texts(self, name: str) -> list[str]:
        """Every value of a repeatable option."""
        return self._values.get(name, [])

    def words(self, name: str) -> list[str] | None:
        """The values of a repeatable option, each possibly a comma-separated list."""
        values = [word for value in self.texts(name) for word in value.split(",") if word]
        return values or None

    def integer(self, name: str) -> int | None:
        """The option's value as a number; UsageError where it is none."""
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit():
            raise UsageError(f"cannot read --{name}: {value!r} is not a whole number")
        return int(value)

    def size(self, name: str) -> int | None:
        """The option's value in bytes; UsageError where it is no size."""
        from .sizes import size_bytes

        value = self.text(name)
        return None if value is None else size_bytes(value, f"read --{name}")

    def signed(self, name: str) -> int | None:
        """The option's value as a number that may be below zero."""
        value = self.text(name)
        if value is None:
            return None
        digits = value.removeprefix("-")
        if not digits.isascii() or not digits.isdigit():
            raise UsageError(f"cannot read --{name}: {value!r} is not a whole number")
        return int(value)

    def count(self, name: str) -> int | None:
        """The option's value as a number of things, at least one."""
        value = self.integer(name)
        if value == 0:
            raise UsageError(f"cannot read --{name}: 0 is too few", hint="write 1 or more")
        return value

    def names(self) -> list[str]:
        """The options that were given."""
        return list(self._values)


def parse(command: Command, words: "Sequence[str]", *, leading: bool = False) -> Arguments:
    """Read ``words`` as ``command``; options and operands may be mixed.

    With ``leading`` the first operand ends the options, and it and all that
    follows become operands. Raises UsageError that names what was wrong.
    """
    known = {flag: option for option in command.options for flag in option.flags}
    arguments = Arguments()
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--" and not leading:
            arguments.trailing = rest[::-1]
            break
        if word == "-" or not word.startswith("-"):
            arguments.operands.append(word)
            if leading:
                arguments.operands += rest[::-1]
                break
        else:
            _take_option(command, known, arguments, word, rest)
    if not arguments.has("help") and not leading:
        _check(command, arguments)
    return arguments


def _take_option(
    command: Command,
    known: dict[str, Option],
    arguments: Arguments,
    word: str,
    rest: list[str],
) -> None:
    if word.startswith("--"):
        flag, separator, value = word.partition("=")
        attached = value if separator else None
    else:
        flag, attached = word[:2], word[2:] or None
    option = known.get(flag)
    if option is None:
        raise _unknown(command, flag, known)
    if option.metavar is not None:
        if attached is None and not rest:
            raise UsageError(f"cannot {command.verb}: {flag} needs {option.metavar}")
        attached = rest.pop() if attached is None else attached
    elif attached is not None:
        if word.startswith("--"):
            raise UsageError(f"cannot {command.verb}: {flag} takes no value")
        # Short switches may be run together: -qd.
        rest.append("-" + attached)
    if arguments.has(option.name) and option.metavar is not None and not option.repeat:
        raise UsageError(f"cannot {command.verb}: {flag} was given twice")
    arguments.put(option.name, attached or "")


def _check(command: Command, arguments: Arguments) -> None:
    least, most = command.operands
    given = len(arguments.operands)
    if arguments.trailing is not None and not command.trailing:
        arguments.operands += arguments.trailing
        arguments.trailing = None
        given = len(arguments.operands)
    if given < least:
        raise UsageError(
            f"cannot {command.verb}: {command.missing}", hint=f"usage: coachman {command.usage}"
        )
    if most is not None and given > most:
        surplus = arguments.operands[most]
        advice = f"{command.surplus}; " if command.surplus else ""
        raise UsageError(
            f"cannot {command.verb}: {surplus!r} is one operand too many",
            hint=f"{advice}usage: coachman {command.usage}",
        )


def _unknown(command: Command, flag: str, known: dict[str, Option]) -> UsageError:
    near = nearest(flag, [name for name in known if name.startswith("--")])
    advice = f"near it: {', '.join(near)}; " if near else ""
    return UsageError(
        f"cannot {command.verb}: there is no option {flag}",
        hint=f"{advice}usage: coachman {command.usage}",
    )


def nearest(word: str, names: "Sequence[str]") -> list[str]:
    """Up to three names that ``word`` may be a slip of; empty where none is like it."""
    import difflib

    return difflib.get_close_matches(word, names, n=3, cutoff=_LIKENESS)
