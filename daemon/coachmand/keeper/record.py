"""The launch record: one JSON document that says what to keep, checked before anything is done."""

from __future__ import annotations

import binascii
import json
import os

from . import PROTOCOL_VERSION
from .errors import LaunchError
from .network import checked_orders
from .system import boot_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEGMENT_BYTES = 64 * 1024 * 1024
OUTPUT_LIMIT_BYTES = 1024 * 1024 * 1024
TERM_GRACE_S = 5.0
UMASK = 0o022
MAX_MOMENT_S = 1e12


def parse_launch(raw: bytes) -> Launch:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"cannot start the keeper: the record is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise LaunchError("cannot start the keeper: the record is not an object")
    return Launch(record)


class Launch:
    """A checked launch record; the members of the wire under the same names."""

    def __init__(self, record: dict[str, Any]) -> None:
        if record.get("version") != PROTOCOL_VERSION:
            raise LaunchError(f"cannot start the keeper: it speaks version {PROTOCOL_VERSION} only")
        self.directory: str = field(record, "directory", str)
        self.native = parse_native(record.get("native"))
        self.bwrap: str = field(record, "bwrap", str, *(["/"] if self.native else []))
        self.args = strings(record, "args", *([[]] if self.native else []))
        self.command = strings(record, "command")
        self.mask = strings(record, "mask", [])
        self.stdin: str = field(record, "stdin", str, "pipe")
        self.boot_id: str = field(record, "boot_id", str)
        self.deadline = record.get("wall_deadline_boottime_s")
        self.term_grace_s: float = field(record, "term_grace_s", (int, float), TERM_GRACE_S)
        self.segment_bytes: int = field(record, "segment_bytes", int, SEGMENT_BYTES)
        self.output_limit_bytes: int = field(record, "output_limit_bytes", int, OUTPUT_LIMIT_BYTES)
        self.umask: int = field(record, "umask", int, UMASK)
        self.memory_limit_bytes = optional_limit(record, "memory_limit_bytes")
        self.tasks_limit = optional_limit(record, "tasks_limit")
        self.oom_score_adj = optional_limit(record, "oom_score_adj")
        self.gate = checked_orders(record.get("gate"))
        self.data = decode_data(strings(record, "data", []))
        self._check()

    def _check(self) -> None:
        problems = {
            "`directory` and `bwrap` must be absolute paths": not (
                os.path.isabs(self.directory) and os.path.isabs(self.bwrap)
            ),
            "`command` is empty": not self.command,
            "`stdin` must be `pipe` or `null`": self.stdin not in {"pipe", "null"},
            "`segment_bytes` must be positive": self.segment_bytes < 1,
            "`output_limit_bytes` must be positive": self.output_limit_bytes < 1,
            "`term_grace_s` must not be negative": not 0 <= self.term_grace_s < MAX_MOMENT_S,
            "`wall_deadline_boottime_s` is not a moment": not is_moment(self.deadline),
            # Without its own PID namespace a tree of processes could not be killed whole.
            "`args` must unshare the PID namespace and keep bwrap's own init": (
                self.native is None
                and (
                    not {"--unshare-pid", "--unshare-all"} & set(self.args)
                    or "--as-pid-1" in self.args
                )
            ),
            "an agent without a sandbox has no gate": bool(self.native and self.gate),
            "the record was made before the last boot": self.boot_id != boot_id(),
        }
        for text, wrong in problems.items():
            if wrong:
                raise LaunchError(f"cannot start the keeper: {text}")


class Native:
    """Where an agent without a sandbox starts, and with which variables."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.cwd: str = field(record, "cwd", str)
        env: dict[str, Any] = field(record, "env", dict)
        if not os.path.isabs(self.cwd) or not all(map(_is_variable, env.items())):
            raise LaunchError("cannot start the keeper: `native` has no directory or environment")
        self.env: dict[str, str] = env


def parse_native(value: Any) -> Native | None:
    """The launch record's `native`; None for an agent that has a sandbox."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise LaunchError("cannot start the keeper: `native` is not an object")
    return Native(value)


def _is_variable(item: tuple[str, Any]) -> bool:
    name, value = item
    texts = isinstance(value, str) and "\0" not in name + value
    return texts and bool(name) and "=" not in name


def field(record: dict[str, Any], name: str, kind: type | tuple[type, ...], *default: Any) -> Any:
    """One checked member of a record; without a default it must be there."""
    value = record.get(name, *default)
    if not isinstance(value, kind) or value is True or value is False:
        raise LaunchError(f"cannot start the keeper: `{name}` is missing or of the wrong type")
    return value


def optional_limit(record: dict[str, Any], name: str) -> int | None:
    """A positive whole number, or None where there is no such limit."""
    value = record.get(name)
    if value is not None and (not isinstance(value, int) or value is True or value < 1):
        raise LaunchError(f"cannot start the keeper: `{name}` must be a positive number")
    return value


def strings(record: dict[str, Any], name: str, *default: list[str]) -> list[str]:
    values = field(record, name, list, *default)
    if not all(isinstance(value, str) and "\0" not in value for value in values):
        raise LaunchError(f"cannot start the keeper: `{name}` must be a list of strings")
    return list(values)


def is_moment(value: object) -> bool:
    """Whether a value is null or seconds of the boot clock; JSON also brings NaN and 10**400."""
    if value is None:
        return True
    return isinstance(value, (int, float)) and value is not True and 0 <= value < MAX_MOMENT_S


def decode_data(texts: list[str]) -> list[bytes]:
    try:
        return [binascii.a2b_base64(text.encode("ascii")) for text in texts]
    except (UnicodeError, binascii.Error) as error:
        raise LaunchError(f"cannot start the keeper: `data` is not base64: {error}") from None
