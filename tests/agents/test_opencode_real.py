"""The real opencode, outside any sandbox, driven by its adapter against the scripted model."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agents_driver import Drive
from agents_model import ModelServer
from agents_replay import ended, text_of
from coachman_adapters.conversation import TurnEnded, Usage

pytestmark = [pytest.mark.real_agent, pytest.mark.long]


def recorder() -> ModuleType:
    """The recorder's bench, which is how recordings are made too."""
    path = Path(__file__).parent / "record.py"
    spec = importlib.util.spec_from_file_location("agents_record", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def drive(agents_dir: Path, tmp_path: Path, model: ModelServer, scenario: Any) -> tuple[Drive, Any]:
    record = recorder()
    bench = record.Bench(record.PARTS["opencode"], agents_dir, tmp_path, model)
    if isinstance(scenario, str):
        scenario = record.SCENARIOS[scenario]
    return bench.drive(bench.request(), scenario), bench


def test_a_long_sessions_export_is_whole(agents_dir: Path, tmp_path: Path) -> None:
    """An export larger than a pipe's buffer still tells the usage."""
    # Each word is a message of the model's, which opencode takes milliseconds for.
    text = f"{'w' * 99} " * 3_000
    with ModelServer() as model:
        ran, _ = drive(agents_dir, tmp_path, model, {"prompts": [f"SAY {text}"]})

    assert text_of(ran.actions).strip() == text.strip()
    assert len(json.dumps(ran.steps[-1])) > 500_000
    [usage] = [action for action in ran.actions if isinstance(action, Usage)]
    assert usage.counters.items() >= model.totals().items()


def test_a_cancel_in_mid_stream_is_confirmed(agents_dir: Path, tmp_path: Path) -> None:
    """The turn ends as cancelled long before the model is through."""
    with ModelServer() as model:
        ran, _ = drive(agents_dir, tmp_path, model, "cancel_stream")

    assert ended(ran.actions) == [TurnEnded("cancelled")]
