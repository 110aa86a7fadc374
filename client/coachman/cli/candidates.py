"""What an unfinished command line may go on with, out of the tables that the parser reads.

The answer is lines ``VALUE<tab>ABOUT``, or the one line ``:files`` or ``:directories``, which says
that the shell is to complete those.
"""

from .visible import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .options import Command, Option

    Candidates = dict[str, str]

FILES = {"FILE": "files", "PATH": "files", "DIR": "directories"}
CHOICES = {"allow": "this once", "always": "from now on", "deny": "this once"}
# What an operand or a value stands for, by its name in usages and options.
KNOWN = {
    "X": "runs",
    "RUN": "runs",
    "TASK": "tasks",
    "A": "agents",
    "AGENT": "agents",
    "P": "profiles",
    "PROFILE": "profiles",
    "EFFORT": "efforts",
}
# What `answer` settles.
ANSWERED = ("permission", "question", "credentials")
# Verbs that act on some runs only.
FITTING = {
    "answer": lambda row: (row.get("attention") or {}).get("kind") in ANSWERED,
    "cancel": lambda row: row.get("state") != "ended",
    "close": lambda row: row.get("state") != "ended",
    "interrupt": lambda row: row.get("state") != "ended",
    "resume": lambda row: row.get("state") == "ended",
    "wait": lambda row: row.get("state") != "ended",
}
_ABOUT_COLUMNS = 60
# A shell executes what it inserts: nothing that means anything to one may be offered.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+%")


def candidates(words: list[str], env: "Mapping[str, str]") -> list[str]:
    """The lines for ``words``, the last of which is unfinished and may be empty."""
    *before, unfinished = _rejoined(words)
    line = _Line(before, unfinished, env)
    found = line.found()
    if line.names:
        return [f":{line.names}"]
    return [
        f"{line.kept}{value}\t{cut(about, _ABOUT_COLUMNS)}"
        for value, about in found.items()
        if value.startswith(line.prefix) and _PLAIN.issuperset(value) and value[:1] not in ("", ":")
    ]


def _rejoined(words: list[str]) -> list[str]:
    """bash takes ``--agent=x`` for three words; without the second it reads the same."""
    out: list[str] = []
    for word in words:
        if word != "=" or not out or not out[-1].startswith("--"):
            out.append(word)
    return [*out, ""] if words[-1] == "=" else out


class _Line:
    """An unfinished line. Of its last word ``kept`` stays and ``prefix`` is to be completed;
    ``names`` says which names of its own the shell completes instead.
    """

    def __init__(self, before: list[str], unfinished: str, env: "Mapping[str, str]") -> None:
        self.kept, self.prefix, self.names = "", unfinished, ""
        self._before = before
        self._env = env
        self._verb = ""
        self._socket: str | None = None

    def found(self) -> "Candidates":
        """Everything that can stand here, by what is to be inserted."""
        from .main import _TOP, ALIASES, VERBS, _load

        self._verb, rest = _split(_TOP, self._before)
        name = ALIASES.get(self._verb, self._verb)
        if not name:
            return self._here(_TOP, rest, {**VERBS, "help": "what a verb does"})
        if name == "help":
            return dict(VERBS)
        if name not in VERBS:
            return {}
        self._verb = name
        return self._here(_load(name).COMMAND, rest, None)

    def _here(
        self, command: "Command", before: list[str], operands: "Candidates | None"
    ) -> "Candidates":
        given, behind, waiting = _read(command, before)
        self._socket = given.get("socket")
        if behind:
            self.names = "files"
            return {}
        flag, separator, value = self.prefix.partition("=")
        if waiting is None and separator and flag.startswith("--"):
            waiting = _option(command, flag)
            self.kept, self.prefix = flag + "=", value
        if waiting is not None:
            return self._values(waiting)
        if self.prefix.startswith("-"):
            return _flags(command, given)
        return operands if operands is not None else self._operand(command, given)

    def _values(self, option: "Option") -> "Candidates":
        """What an option takes; of a list with commas only the last word."""
        if option.repeat and option.choices:
            listed, comma, self.prefix = self.prefix.rpartition(",")
            self.kept += listed + comma
        if option.choices:
            return dict.fromkeys(option.choices, "")
        return self._named(option.metavar or "")

    def _operand(self, command: "Command", given: "Mapping[str, str]") -> "Candidates":
        places = _places(command.usage)
        at = int(given["operands"])
        if not places or (at >= len(places) and not places[-1].endswith("…")):
            return {}
        place = places[min(at, len(places) - 1)].strip("[]…")
        if place == "CHOICE|TEXT":
            return CHOICES
        words = place.split("|")
        if words[0].islower():
            return dict.fromkeys(words, "")
        return self._named(place)

    def _named(self, name: str) -> "Candidates":
        self.names = FILES.get(name, "")
        kind = KNOWN.get(name)
        if kind is None:
            return {}
        from .known import Known

        fits = FITTING.get(self._verb, bool)
        return Known(self._env, self._socket).values(kind, fits)


def _split(top: "Command", words: list[str]) -> tuple[str, list[str]]:
    """The verb, if it is there already, and the other words."""
    waiting = False
    for at, word in enumerate(words):
        if waiting:
            waiting = False
        elif word.startswith("-"):
            option = _option(top, word)
            waiting = option is not None and option.metavar is not None
        else:
            return word, words[:at] + words[at + 1 :]
    return "", words


def _read(
    command: "Command", words: "Iterable[str]"
) -> "tuple[dict[str, str], bool, Option | None]":
    """Options given (and how many "operands"), whether -- was passed, what waits for its value."""
    given: dict[str, str] = {}
    operands, waiting = 0, None
    for word in words:
        if waiting is not None:
            given[waiting.name], waiting = word, None
        elif word == "--":
            return given, True, None
        elif word == "-" or not word.startswith("-"):
            operands += 1
        else:
            flag, separator, value = word.partition("=")
            option = _option(command, flag)
            if option is not None:
                given[option.name] = value
                waiting = option if option.metavar is not None and not separator else None
    return {**given, "operands": str(operands)}, False, waiting


def _option(command: "Command", flag: str) -> "Option | None":
    return next((option for option in command.options if flag in option.flags), None)


def _flags(command: "Command", given: "Mapping[str, str]") -> "Candidates":
    return {
        flag: option.help
        for option in command.options
        if option.help and (option.repeat or option.name not in given)
        for flag in option.flags
    }


def _places(usage: str) -> list[str]:
    """The operands of a usage line, each as it is written there: ``X…``, ``[TASK]``."""
    shown = usage.partition(" [-- ")[0].split()[1:]
    return [word for word in shown if word not in ("[OPTIONS]", "…")]
