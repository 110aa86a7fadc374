"""The daemon's configuration: one TOML file to the records of `config`.

Every complaint reads "cannot read the configuration: …" and names the key and
its line. A key that this version does not know is refused, never ignored.
"""

import os
import stat
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from attrs import fields, frozen

from . import config_profiles
from . import config_values as values
from .config import ACP, AgentInstance, Config

MAX_FILE_BYTES = 64 * 1024
_ACP_KEYS = (
    "command",
    "environment",
    "credentials",
    "files",
    "credential_files",
    "efforts",
    "mode",
    "usage",
    "pricing",
)

T = TypeVar("T")
KeyPath = tuple[str, ...]


class ConfigError(Exception):
    """The configuration cannot be used; the text says what, where and what instead."""


def load(path: str, home: str, agents: Collection[str] | None = None) -> Config:
    """Read the file; a missing one is the default. ``home`` expands ``~``.

    ``agents`` are those that there are: others cannot be meant. Raises ConfigError, which
    names the file.
    """
    try:
        data = _content(path)
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


def _content(path: str) -> bytes:
    """What the file begins with. A FIFO, which might never be written, is not waited for."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        is_null = stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev
        if not stat.S_ISREG(found.st_mode) and not is_null:
            raise ConfigError(f"cannot read the configuration {path}: it is no regular file")
        return file.read(MAX_FILE_BYTES + 1)


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
    try:
        config_profiles.check(config)
    except config_profiles.ProfileError as error:
        raise reader.complaint(error.path, str(error)) from None
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
            if isinstance(table[key], dict) and f"{key}s" in attributes:
                named = f"is one name, no table; did you mean `[{key}s.NAME]`?"
                raise self.complaint((*path, key), named)
        members = {
            attributes[key].name: self._value(attributes[key].metadata, value, (*path, key))
            for key, value in table.items()
        }
        return cls(**members)

    def _value(self, metadata: Mapping[str, Any], value: Any, path: KeyPath) -> Any:
        if "table" in metadata:
            return self.record(metadata["table"], value, path)
        if "rows" in metadata:
            return self._rows(metadata["rows"], value, path)
        if "each" in metadata:
            return self._records(metadata["each"], metadata.get("named", values.key), value, path)
        try:
            return metadata["check"](value, self.home)
        except values.UnfitError as error:
            raise self._unfit(path, str(error), value, *error.wrong) from None

    def _rows(self, cls: type[T], tables: Any, path: KeyPath) -> tuple[T, ...]:
        if not isinstance(tables, list):
            raise self._unfit(path, "an array of tables", tables)
        return tuple(
            self.record(cls, table, (*path, f"[{number}]")) for number, table in enumerate(tables)
        )

    def _records(
        self, cls: type[T], named: Callable[[Any, str], str], tables: Any, path: KeyPath
    ) -> dict[str, T]:
        if not isinstance(tables, dict):
            raise self._unfit(path, "a table", tables)
        return {
            self._name(named, name, path): self.record(cls, table, (*path, name))
            for name, table in tables.items()
        }

    def _name(self, named: Callable[[Any, str], str], name: str, path: KeyPath) -> str:
        try:
            return named(name, self.home)
        except values.UnfitError as error:
            raise self._unfit((*path, name), str(error), name) from None

    def check_agents(self, config: Config, agents: Collection[str]) -> None:
        """Every agent that is named must be one that there is."""
        for name, instance in config.agents.items():
            self._check_agent(name, instance, agents)
        if config.agent is not None and config.agent not in {*agents, *config.agents}:
            raise self._unfit(("agent",), _one_named({*agents, *config.agents}), config.agent)

    def _check_agent(self, name: str, instance: AgentInstance, agents: Collection[str]) -> None:
        path = ("agents", name)
        if instance.adapter == ACP:
            if name in agents:
                known = f'the name of no other agent where its adapter is "{ACP}"'
                raise self._unfit(path, known, name)
            if not instance.command:
                raise self.complaint(path, "lacks `command`, a program and its arguments")
            return
        for key in _ACP_KEYS:
            if getattr(instance, key):
                only = f'is only for an agent with `adapter = "{ACP}"`'
                raise self.complaint((*path, key), only)
        if (instance.adapter or name) not in agents:
            where = (*path, "adapter") if instance.adapter else path
            raise self._unfit(where, _one_named({*agents, ACP}), instance.adapter or name)

    # --- complaints -------------------------------------------------------------

    def _unknown(self, path: KeyPath, known: Mapping[str, Any]) -> ConfigError:
        near = get_close_matches(path[-1], known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "known here: " + ", ".join(known)
        return ConfigError(
            f"cannot read the configuration: unknown key `{_dotted(path)}`"
            f" on line {self._line(path)}; {hint}"
        )

    def _unfit(self, path: KeyPath, words: str, value: Any, *wrong: Any) -> ConfigError:
        is_within = isinstance(value, list) and wrong
        shown = f"an array with {_shown(wrong[0])}" if is_within else _shown(value)
        return self.complaint(path, f"must be {words}, not {shown}")

    def complaint(self, path: KeyPath, words: str) -> ConfigError:
        where = f"`{_dotted(path)}` on line {self._line(path)}"
        return ConfigError(f"cannot read the configuration: {where} {words}")

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
        if isinstance(document, list):
            document = {f"[{number}]": each for number, each in enumerate(document)}
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _dotted(path: KeyPath) -> str:
    return ".".join(path).replace(".[", "[")


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array" if value else "an empty array"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
