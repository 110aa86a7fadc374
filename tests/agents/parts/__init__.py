"""The parts that real agents play in tests: how a user of each has it set up for the model."""

from parts.opencode import OPENCODE
from parts.part import Part

PARTS: dict[str, Part] = {part.name: part for part in (OPENCODE,)}

__all__ = ["PARTS", "Part"]
