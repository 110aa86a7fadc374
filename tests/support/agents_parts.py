"""The parts of the real agents, for tests of other packages too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))

from parts import PARTS, Part

__all__ = ["PARTS", "Part"]
