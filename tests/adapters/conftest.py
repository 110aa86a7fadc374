"""Puts the conformance kit beside the tests that use it on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
