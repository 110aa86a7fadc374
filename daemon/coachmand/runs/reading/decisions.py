"""What a run's gate decided, as the gate's own log has it: each destination once."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ...gate import LOG_NAME

MAX_LOG_BYTES = 4 * 1024 * 1024
# What runs in the agent's boundary beside it has a keeper of its own, and with that a gate.
BESIDE = ("setup", "epilogue", "check")
# What a key begins with that is of no allowed and reached place.
DENIED, UNREACHED = "!", "?"


@frozen
class Decision:
    """One destination of an attempt, and how often it was decided about."""

    host: str | None
    port: int | None
    allowed: bool
    reason: str | None
    count: int
    why: str | None = None

    @property
    def key(self) -> str:
        """By what it is told once: a place, allowed or not reached, or a host that was denied."""
        return key_of(self.members())

    def members(self) -> dict[str, Any]:
        """As the journal has it."""
        named = {"host": self.host, "port": self.port, "allowed": self.allowed}
        said = {"reason": self.reason, "why": self.why}
        return {**named, **{name: text for name, text in said.items() if text}}


def key_of(event: Mapping[str, Any]) -> str:
    """What a decision of the journal is known by."""
    host, reason = event["host"], event.get("reason")
    if event["allowed"]:
        return f"{UNREACHED if reason else ''}{host}:{event['port']}"
    return f"{DENIED}{host or reason}"


def totals(noted: Iterable[str]) -> dict[str, int]:
    """How many hosts of these keys were denied, and how many places not reached."""
    signs = Counter(key[:1] for key in noted)
    return {"denied": signs[DENIED], "unreachable": signs[UNREACHED]}


def read(directory: Path) -> list[Decision]:
    """The last line of each destination; what is still being written is left for later. Blocks."""
    try:
        with (directory / LOG_NAME).open("rb") as file:
            lines = file.read(MAX_LOG_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return list({(d.host, d.port, d.reason): d for d in _decisions(lines)}.values())


def all_of(attempt: Path) -> list[Decision]:
    """Those of an attempt's agent and of what ran beside it, added up. Blocks."""
    found: dict[tuple[Any, ...], Decision] = {}
    for directory in (attempt, *(attempt / name for name in BESIDE)):
        for decision in read(directory):
            named = (decision.host, decision.port, decision.reason)
            before = found[named].count if named in found else 0
            found[named] = evolve(decision, count=before + decision.count)
    return list(found.values())


def _decisions(lines: Iterable[bytes]) -> Iterator[Decision]:
    for line in lines:
        try:
            found: Mapping[str, Any] = json.loads(line)
        except ValueError:
            continue  # torn by a full disk; its count comes again
        yield Decision(
            found.get("host"),
            found.get("port"),
            bool(found.get("allowed")),
            found.get("reason"),
            int(found.get("count") or 0),
            found.get("why"),
        )
