"""Which profiles a delegate goes with."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from coachman_sandbox.profiles import EDIT, PROFILES
from coachmand.config import Config
from coachmand.rpc.errors import RpcError
from coachmand.runs.facts.grants import Delegate
from coachmand.runs.intake.profile import profile_of
from coachmand.runs.intake.request import StartRequest


def test_a_profile_that_is_not_confined_gets_no_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could reach the host would hand out what nobody can take back."""
    monkeypatch.setitem(PROFILES, "bare", evolve(EDIT, name="bare", no_delegate="it is bare"))  # type: ignore[arg-type]
    services: Any = SimpleNamespace(config=Config())
    request = StartRequest(dir="/", profile="bare", prompt="x")

    assert profile_of(request, services).walls.name == "bare"
    with pytest.raises(RpcError, match="gets no delegate: it is bare") as refused:
        profile_of(evolve(request, delegate=Delegate(1, 1)), services)
    assert "edit, review" in str(refused.value.data)
