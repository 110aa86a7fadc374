"""One kept session of a real agent: it remembers, and an interrupt goes on with another prompt."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents_model import ModelServer
from agents_parts import PARTS
from live_stage import WORKSPACE, Play, Stage, eventually
from sleepers import new_sleep, sleeping

pytestmark = pytest.mark.real_agent
SOON_S = 20.0


@pytest.fixture(params=["opencode", "claude", "codex-app-server"])
def stage(request: pytest.FixtureRequest, agents_dir: Path) -> Iterator[Stage]:
    """A stage of its own: what the session heard is counted."""
    part = PARTS[request.param]
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    with ModelServer() as model, Stage(part, agents_dir, root, model) as stage:
        yield stage
    shutil.rmtree(root, ignore_errors=True)


def heard(play: Play) -> int:
    """How many messages the model was last sent for the session."""
    return int([r["messages"] for r in play.requests() if not r["title"]][-1])


def interrupt(play: Play, turn: int, text: str) -> str:
    """End the turn with another prompt; what the agent says to that."""
    told = play.stage.client.run.interrupt(play.run, play.stage.part.prompt(text, WORKSPACE))
    assert told["turn"] == turn
    assert play.turn(turn, SOON_S)["stop_reason"] == "cancelled"
    assert play.turn(turn + 1)["stop_reason"] == "end_turn"
    return play.said(turn + 1).strip()


def test_it_remembers_and_goes_on_with_what_interrupts(stage: Stage) -> None:
    """Three prompts share one context; mid-stream and mid-tool a new prompt ends the turn."""
    play = stage.start("SAY one", keep=True, permissions="allow")
    play.turn(1)
    counts = [heard(play)]
    for word in ("two", "three"):
        turn = play.prompt(f"SAY {word}")
        play.turn(turn)
        counts.append(heard(play))
    words = [play.said(turn).strip() for turn in (1, 2, 3)]

    streaming = play.prompt("SLOW 30 one two three four five six seven eight nine ten")
    eventually(lambda: play.said(streaming), f"{play} speaks")
    instead = interrupt(play, streaming, "SAY instead")

    seconds = new_sleep()
    using = play.prompt(f"RUN sh linger.sh {seconds}")
    play.tool_runs(using, seconds)
    after = interrupt(play, using, "SAY after the tool")
    eventually(lambda: not sleeping(seconds), "the tool is gone", SOON_S)
    counts.append(heard(play))
    play.close()
    result = play.result()

    assert words == ["one", "two", "three"]
    assert (instead, after) == ("instead", "after the tool")
    assert counts == sorted(set(counts))
    assert {event["session"] for event in play.events("turn.ended")} == {result["session"]}
    assert (result["outcome"], result["turns"]) == ("succeeded", 7)
    assert play.keepers() == []
