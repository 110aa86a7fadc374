"""The stages of the live kit: one a part, with the part's daemon and model."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents_model import ModelServer
from agents_parts import PARTS
from live_cells import CELLS
from live_stage import Stage


@pytest.fixture(scope="module", params=sorted(PARTS))
def stage(request: pytest.FixtureRequest, agents_dir: Path) -> Iterator[Stage]:
    """One part's stage, for all scenarios."""
    part = PARTS[request.param]
    if not (agents_dir / "node_modules" / part.executable).exists():
        pytest.skip(f"{part.executable} is not installed in {agents_dir}")
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    began = time.monotonic()
    with ModelServer() as model, Stage(part, agents_dir, root, model) as stage:
        yield stage
    shutil.rmtree(root, ignore_errors=True)
    CELLS.played(stage, time.monotonic() - began)
