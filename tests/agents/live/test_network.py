"""Every real agent behind the gate, with its model's server as the only host that it reaches.

The server has a name that only the gate knows, so that an agent which goes around its proxy
reaches nothing: what passes here is what `AgentSpec.honours_proxies` says.
"""

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents_model import ModelServer
from agents_parts import PARTS, Part
from daemon_process import git
from live_stage import Stage, eventually

pytestmark = [pytest.mark.real_agent, pytest.mark.long]

NAME = "model.test"
WORDS = "one two three four five six seven eight nine ten"
# Twice, so that it can be seen to be told once. What the model is asked next is told from what
# it was asked before by waiting in between.
FETCH = """#!/bin/sh
for n in 1 2; do curl -s -o fetched http://other.test/; done
: >fetched.txt
until [ -e counted.txt ]; do sleep 0.05; done
"""


def renamed(setting: Callable[[ModelServer], dict[str, str]]) -> Callable[[Any], dict[str, str]]:
    """The same configuration, with the server under its name."""

    def made(model: ModelServer) -> dict[str, str]:
        here = f"127.0.0.1:{model.port}"
        told = setting(model)
        return {key: value.replace(here, f"{NAME}:{model.port}") for key, value in told.items()}

    return made


@pytest.fixture(params=sorted(PARTS))
def stage(request: pytest.FixtureRequest, agents_dir: Path) -> Iterator[Stage]:
    """An agent whose user configured the server by its name."""
    part: Part = PARTS[request.param]
    if not (agents_dir / "node_modules" / part.executable).exists():
        pytest.skip(f"{part.executable} is not installed in {agents_dir}")
    part = dataclasses.replace(part, env=renamed(part.env), files=renamed(part.files))
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    with ModelServer() as model, Stage(part, agents_dir, root, model) as stage:
        (stage.repo / "fetch.sh").write_text(FETCH)
        git(stage.repo, "add", ".")
        git(stage.repo, "commit", "-q", "-m", "fetch")
        yield stage
    shutil.rmtree(root, ignore_errors=True)


def test_its_model_is_all_that_it_reaches(stage: Stage) -> None:
    """Another host is denied and told once; a stream goes on while the daemon is killed."""
    place = f"{NAME}:{stage.model.port}"
    play = stage.once(f"RUN sh fetch.sh\nSLOW 4 {WORDS}", network=[f"{place}=127.0.0.1"])
    fetched = play.file("fetched.txt")
    asked = len(play.requests())
    fetched.with_name("counted.txt").touch()
    eventually(lambda: len(play.requests()) > asked, f"{play} asks for the stream")
    stage.daemon.restart()
    result = play.result()
    decided = play.events("network.decided")
    hosts = [event["host"] for event in decided]

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == WORDS
    assert result["network"] == f"{place}=127.0.0.1"
    assert {event["host"] for event in decided if event["allowed"]} == {NAME}
    assert hosts.count("other.test") == 1
