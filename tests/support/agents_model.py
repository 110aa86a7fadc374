"""The scripted model server, for tests of other packages too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))

from model_server import CACHED_TOKENS, TEXT_TOKENS, TOOL_TOKENS, ModelServer

__all__ = ["CACHED_TOKENS", "TEXT_TOKENS", "TOOL_TOKENS", "ModelServer"]
