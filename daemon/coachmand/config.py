"""The daemon's configuration: one TOML file to frozen records.

Every complaint reads "cannot read the configuration: …" and names the key and
its line. A key that this version does not know is refused, never ignored.
"""

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from attrs import field, fields, frozen

from coachman.results import Permissions
from coachman.wire import PERMISSION_MODES

MAX_FILE_BYTES = 64 * 1024
LOG_LEVELS = ("debug", "info", "warning", "error")

_UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
_SECONDS = re.compile(r"\d{1,12}", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)

T = TypeVar("T")
KeyPath = tuple[str, ...]


class ConfigError(Exception):
    """The configuration cannot be used; the text says what, where and what instead."""


def duration_s(text: str) -> int:
    """Seconds of "90", "90s", "30m", "1h30m" or "2d". Raises ValueError."""
    if _SECONDS.fullmatch(text):
        return int(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None or len(text) > 40:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m, 1h30m or 2d")
    amounts = zip(match.groups(), _UNIT_SECONDS.values(), strict=True)
    return sum(int(amount) * seconds for amount, seconds in amounts if amount)


# --- what a key may hold --------------------------------------------------------


class _UnfitError(ValueError):
    """Completes "`key` must be …"."""


def _string(value: Any, _home: str) -> str:
    if not isinstance(value, str) or not value:
        raise _UnfitError("a string that is not empty")
    return value


def _name(value: Any, _home: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _UnfitError("a name of lower-case letters, digits, `.`, `_` and `-`")
    return value


def _duration(value: Any, _home: str) -> int:
    try:
        seconds = duration_s(value if isinstance(value, str) else str(value))
    except ValueError:
        seconds = 0
    if seconds <= 0 or isinstance(value, bool):
        raise _UnfitError("a duration such as 90, 90s, 30m, 1h30m or 2d")
    return seconds


def _count(value: Any, _home: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _UnfitError("a whole number from 1")
    return value


def _path(value: Any, home: str) -> str:
    path = value if isinstance(value, str) else ""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    if not os.path.isabs(path) or "\0" in path:
        raise _UnfitError("an absolute path, or one that starts with ~/")
    return os.path.normpath(path)


def _one_of(*choices: str) -> Callable[[Any, str], str]:
    def check(value: Any, _home: str) -> str:
        if value not in choices:
            raise _UnfitError("one of " + ", ".join(choices))
        return str(value)

    return check


def _environment(value: Any, _home: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise _UnfitError('a table of NAME = "value"')
    for name, text in value.items():
        if not _ENV_NAME.fullmatch(name) or not isinstance(text, str) or "\0" in text:
            raise _UnfitError('a table of NAME = "value"')
    return dict(value)


# --- the records ----------------------------------------------------------------


def _key(check: Callable[[Any, str], Any], default: Any, name: str | None = None) -> Any:
    """A field that the file may set, under ``name`` where that differs from the field's."""
    return field(default=default, metadata={"check": check, "name": name})


@frozen
class Timeouts:
    """Deadlines of a run that names none, in seconds."""

    wall_s: int = _key(_duration, 4 * 3600, "wall")
    permission_s: int = _key(_duration, 3600, "permission")
    parked_s: int = _key(_duration, 8 * 3600, "parked")


@frozen
class Capacity:
    """How many runs are active at once; more of them queue."""

    max_active: int = _key(_count, 8)


@frozen
class Storage:
    """Where task worktrees go; None: below the state directory."""

    worktrees: str | None = _key(_path, None)


@frozen
class Log:
    """What the daemon's log holds."""

    level: str = _key(_one_of(*LOG_LEVELS), "info")


@frozen
class AgentInstance:
    """A named variant of an agent: another account, executable or model.

    ``adapter`` is the instance's own name where the file gives none.
    """

    adapter: str | None = _key(_name, None)
    executable: str | None = _key(_path, None)
    model: str | None = _key(_string, None)
    home: str | None = _key(_path, None)
    env: Mapping[str, str] = field(
        factory=dict, repr=lambda env: f"<{len(env)} values>", metadata={"check": _environment}
    )


@frozen
class Config:
    """The whole configuration; every default is here."""

    agent: str | None = _key(_name, None)
    profile: str = _key(_name, "edit")
    permissions: Permissions | None = _key(_one_of(*PERMISSION_MODES), None)  # noqa: RUF009
    timeouts: Timeouts = field(factory=Timeouts, metadata={"table": Timeouts})
    capacity: Capacity = field(factory=Capacity, metadata={"table": Capacity})
    storage: Storage = field(factory=Storage, metadata={"table": Storage})
    agents: Mapping[str, AgentInstance] = field(factory=dict, metadata={"each": AgentInstance})
    log: Log = field(factory=Log, metadata={"table": Log})


# --- reading --------------------------------------------------------------------


def load(path: str, home: str, agents: Collection[str] | None = None) -> Config:
    """Read the file; a missing one is the default. ``home`` expands ``~``.

    ``agents`` are those that there are: others cannot be meant. Raises ConfigError, which
    names the file.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        limit_kib = MAX_FILE_BYTES // 1024
        raise ConfigError(f"cannot read the configuration {path}: it exceeds {limit_kib} KiB")
    try:
        return parse(data.decode(), home, agents)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = f"cannot read the configuration {path}: not UTF-8 on line {line}"
        raise ConfigError(text) from error
    except ConfigError as error:
        named = str(error).replace("the configuration:", f"the configuration {path}:", 1)
        raise ConfigError(named) from error


def parse(text: str, home: str, agents: Collection[str] | None = None) -> Config:
    """The configuration that ``text`` spells. Raises ConfigError."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"cannot read the configuration: {error}") from error
    reader = _Reader(text, home)
    config: Config = reader.record(Config, document, ())
    if agents is not None:
        reader.check_agents(config, agents)
    return config


@frozen
class _Reader:
    text: str
    home: str

    def record(self, cls: type[T], table: Any, path: KeyPath) -> T:
        """One table as an instance of ``cls``."""
        if not isinstance(table, dict):
            raise self._unfit(path, "a table", table)
        kind: Any = cls
        attributes = {item.metadata.get("name") or item.name: item for item in fields(kind)}
        for key in table:
            if key not in attributes:
                raise self._unknown((*path, key), attributes)
        members = {
            attributes[key].name: self._value(attributes[key].metadata, value, (*path, key))
            for key, value in table.items()
        }
        return cls(**members)

    def _value(self, metadata: Mapping[str, Any], value: Any, path: KeyPath) -> Any:
        if "table" in metadata:
            return self.record(metadata["table"], value, path)
        if "each" in metadata:
            return self._records(metadata["each"], value, path)
        try:
            return metadata["check"](value, self.home)
        except _UnfitError as error:
            raise self._unfit(path, str(error), value) from None

    def _records(self, cls: type[T], tables: Any, path: KeyPath) -> dict[str, T]:
        if not isinstance(tables, dict):
            raise self._unfit(path, "a table", tables)
        for name in tables:
            if not _NAME.fullmatch(name):
                raise self._unfit((*path, name), "named in lower-case letters and digits", name)
        return {name: self.record(cls, table, (*path, name)) for name, table in tables.items()}

    def check_agents(self, config: Config, agents: Collection[str]) -> None:
        """Every agent that is named must be one that there is."""
        for name, instance in config.agents.items():
            if (instance.adapter or name) not in agents:
                path = ("agents", name, *(("adapter",) if instance.adapter else ()))
                raise self._unfit(path, _one_named(agents), instance.adapter or name)
        if config.agent is not None and config.agent not in {*agents, *config.agents}:
            raise self._unfit(("agent",), _one_named({*agents, *config.agents}), config.agent)

    # --- complaints -------------------------------------------------------------

    def _unknown(self, path: KeyPath, known: Mapping[str, Any]) -> ConfigError:
        near = get_close_matches(path[-1], known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "known here: " + ", ".join(known)
        return ConfigError(
            f"cannot read the configuration: unknown key `{_dotted(path)}`"
            f" on line {self._line(path)}; {hint}"
        )

    def _unfit(self, path: KeyPath, words: str, value: Any) -> ConfigError:
        return ConfigError(
            f"cannot read the configuration: `{_dotted(path)}` on line {self._line(path)}"
            f" must be {words}, not {_shown(value)}"
        )

    def _line(self, path: KeyPath) -> int:
        """The line on which the key appears.

        tomllib tells no positions. The key is on the first line after the longest
        prefix of the file that is TOML and lacks it.
        """
        last = 0
        for number, document in self._prefixes():
            if _holds(document, path):
                break
            last = number
        return last + 1

    def _prefixes(self) -> Iterator[tuple[int, dict[str, Any]]]:
        lines = self.text.splitlines(keepends=True)
        for number in range(1, len(lines) + 1):
            try:
                yield number, tomllib.loads("".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue


def _one_named(names: Collection[str]) -> str:
    return f"one of {', '.join(sorted(names))}"


def _holds(document: Any, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _dotted(path: KeyPath) -> str:
    return ".".join(path)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
