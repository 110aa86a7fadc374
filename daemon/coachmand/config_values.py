"""What a key of the configuration may hold: each check returns the value to keep."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any

from coachman_sandbox.network import WORDS, NetworkError, check_words, parse

from .gate.addresses import is_forbidden
from .permissions import commands, globs, handlers

_UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
_SECONDS = re.compile(r"\d{1,12}", re.ASCII)
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE = re.compile(r"(\d{1,15})(B|KiB|MiB|GiB|TiB)?", re.ASCII)
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)


def duration_s(text: str) -> int:
    """Seconds of "90", "90s", "30m", "1h30m" or "2d". Raises ValueError."""
    if _SECONDS.fullmatch(text):
        return int(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None or len(text) > 40:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m, 1h30m or 2d")
    amounts = zip(match.groups(), _UNIT_SECONDS.values(), strict=True)
    return sum(int(amount) * seconds for amount, seconds in amounts if amount)


class UnfitError(ValueError):
    """Completes "`key` must be …". ``wrong`` is what an array has and may not."""

    def __init__(self, words: str, *wrong: Any) -> None:
        super().__init__(words)
        self.wrong = wrong[:1]


def string(value: Any, _home: str) -> str:
    if not isinstance(value, str) or not value:
        raise UnfitError("a string that is not empty")
    return value


def name(value: Any, _home: str) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise UnfitError("a name of lower-case letters, digits, `.`, `_` and `-`")
    return value


def duration(value: Any, _home: str) -> int:
    try:
        seconds = duration_s(value if isinstance(value, str) else str(value))
    except ValueError:
        seconds = 0
    if seconds <= 0 or isinstance(value, bool):
        raise UnfitError("a duration such as 90, 90s, 30m, 1h30m or 2d")
    return seconds


def size(value: Any, _home: str) -> int:
    """Bytes: a whole number, or one with KiB, MiB, GiB or TiB behind it."""
    match = _SIZE.fullmatch(str(value))
    if match is None or isinstance(value, bool):
        raise UnfitError("a size such as 512MiB or 2GiB")
    return int(match[1]) << 10 * _SIZE_UNITS.index(match[2] or "B")


def count(value: Any, _home: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UnfitError("a whole number from 1")
    return value


def count_or_none(value: Any, home: str) -> int:
    """As `count`, and 0."""
    try:
        return 0 if value == 0 and not isinstance(value, bool) else count(value, home)
    except UnfitError:
        raise UnfitError("a whole number from 0") from None


def path(value: Any, home: str) -> str:
    path = value if isinstance(value, str) else ""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    if not os.path.isabs(path) or "\0" in path:
        raise UnfitError("an absolute path, or one that starts with ~/")
    return os.path.normpath(path)


def paths(value: Any, home: str) -> tuple[str, ...]:
    """An array of paths."""
    items = value if isinstance(value, list) else []
    found = []
    for item in items:
        try:
            found.append(path(item, home))
        except UnfitError:
            raise UnfitError("an array of paths, absolute or from ~/", item) from None
    if not isinstance(value, list):
        raise UnfitError("an array of paths, absolute or from ~/")
    return tuple(found)


def flag(value: Any, _home: str) -> bool:
    if not isinstance(value, bool):
        raise UnfitError("true or false")
    return value


def key(value: Any, _home: str) -> str:
    """What a table of tables may be called."""
    if not NAME.fullmatch(value):
        raise UnfitError("named in lower-case letters and digits")
    return str(value)


def directory(value: Any, home: str) -> str:
    """A table's name that is a path, as the kernel knows it, whatever links lead there."""
    try:
        return os.path.realpath(path(value, home))
    except UnfitError as error:
        raise UnfitError(f"named by {error}") from None


def one_of(*choices: str) -> Callable[[Any, str], str]:
    def check(value: Any, _home: str) -> str:
        if value not in choices:
            raise UnfitError("one of " + ", ".join(choices))
        return str(value)

    return check


def network(value: Any, _home: str) -> tuple[str, ...]:
    """Words and destinations of a network, one or an array."""
    words = [value] if isinstance(value, str) else value
    try:
        if not isinstance(words, list) or not words:
            raise TypeError
        return network_of(words)
    except NetworkError as error:
        raise UnfitError(f"a network, and {error}") from None
    except (AttributeError, TypeError):
        words_ = "agent, registries, full, none, host, or an array of destinations"
        raise UnfitError(words_) from None


def network_of(words: Iterable[str]) -> tuple[str, ...]:
    """The words and entries of a network, checked. Raises NetworkError.

    Of what no policy reaches nobody is to believe that theirs does.
    """
    checked = check_words(words)
    for entry in checked:
        if entry in WORDS:
            continue
        found = parse(entry)
        address = found.host.strip("[]") if found.is_address else found.address
        if address and is_forbidden(ip_address(address)):
            raise NetworkError(
                f"{entry} is a link-local or metadata address, which only the network host reaches"
            )
    return checked


def destinations(value: Any, _home: str) -> tuple[str, ...]:
    """An array of HOST[:PORT] and *.SUFFIX[:PORT]."""
    try:
        return tuple(str(parse(each)) for each in value)
    except NetworkError as error:
        raise UnfitError(f"destinations, and {error}") from None
    except (AttributeError, TypeError):
        raise UnfitError("an array of destinations such as api.example.org:443") from None


def some_of(*choices: str) -> Callable[[Any, str], tuple[str, ...]]:
    """One of them, or an array of some."""

    def check(value: Any, _home: str) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        wrong = [item for item in items if item not in choices]
        if not items or wrong:
            raise UnfitError(f"one or an array of {', '.join(choices)}", *wrong)
        return tuple(items)

    return check


def command_pattern(value: Any, home: str) -> str:
    """A simple command, with ``*`` and ``?``."""
    if commands.pattern_of(string(value, home)) is None:
        raise UnfitError("a simple command, in which * and ? may stand")
    return str(value)


def path_pattern(value: Any, home: str) -> str:
    """A path from the worktree's top, or an absolute one, with ``*``, ``?`` and ``**``."""
    if globs.fault(string(value, home)) is not None:
        raise UnfitError("a plain path, in which *, ? and ** may stand")
    return str(value)


def handler(value: Any, home: str) -> str:
    """Who else may answer: a file or a program."""
    kind, colon, where = string(value, home).partition(":")
    text = f"{kind}:{path(where, home)}" if colon and where.startswith("~/") else str(value)
    if text == handlers.NONE or handlers.parsed(text, "configuration") is None:
        raise UnfitError("file:BASE or command:PATH, each with an absolute path")
    return text


def environment(value: Any, _home: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise UnfitError('a table of NAME = "value"')
    for name, text in value.items():
        if not ENV_NAME.fullmatch(name) or not isinstance(text, str) or "\0" in text:
            raise UnfitError('a table of NAME = "value"')
    return dict(value)


def list_of(check: Callable[[Any], bool], words: str) -> Callable[[Any, str], tuple[str, ...]]:
    """An array of strings that ``check`` takes; ``words`` say what it is to be."""

    def checked(value: Any, _home: str) -> tuple[str, ...]:
        items: list[Any] = value if isinstance(value, list) else [value]
        wrong = [item for item in items if not isinstance(item, str) or not check(item)]
        if not isinstance(value, list) or wrong:
            raise UnfitError(f"an array of {words}", *wrong)
        return tuple(items)

    return checked


def paths_below(value: Any, home: str) -> tuple[str, ...]:
    """Files and folders of a checkout, named from its top."""
    return list_of(_is_below, "plain paths below the checkout")(value, home)


def _is_below(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and not {"", ".", "..", ".git"}.intersection(parts)


def command(value: Any, home: str) -> tuple[str, ...]:
    """A program's name and its arguments; where it lies is not said here."""
    words = list_of(lambda word: "\0" not in word, "strings")(value, home)
    if not words or not words[0] or "/" in words[0]:
        form = "an array of a program's name and its arguments (a path is `executable`)"
        raise UnfitError(form, *words)
    return words


def program(value: Any, home: str) -> tuple[str, ...]:
    """A program's path and its arguments."""
    words = list_of(lambda word: "\0" not in word, "strings")(value, home)
    try:
        return (path(words[0], home), *words[1:])
    except (IndexError, UnfitError):
        form = "an array of a program's absolute path and its arguments"
        raise UnfitError(form, *words) from None


def _is_below_home(path: str) -> bool:
    parts = path.split("/")
    return bool(path) and "\0" not in path and not {"", ".", ".."} & set(parts)


variables = list_of(lambda name: ENV_NAME.fullmatch(name) is not None, "names of variables")
home_files = list_of(_is_below_home, "paths relative to the home directory")
names = list_of(lambda name: NAME.fullmatch(name) is not None, "names in lower-case letters")
patterns = list_of(lambda pattern: bool(pattern.strip("/")) and "\0" not in pattern, "patterns")
