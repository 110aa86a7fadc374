"""The same scenarios with every real agent, through the daemon, in worktree and sandbox.

Each scenario is a row of the table in docs/agents.md, each part of `agents_parts` a column.
What a CLI cannot do stands in `live_cannot`, with a proof that is run instead.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from live_cells import scenario
from live_stage import LIMIT_S, Stage, eventually, totals
from sleepers import new_sleep, sleeping

pytestmark = [pytest.mark.real_agent, pytest.mark.long]

WORDS = "one two three four five six seven eight nine ten"
CANCEL_LIMIT_S = 60.0


@scenario
def test_say(stage: Stage) -> None:
    """A prompt is answered, in events and as the turn's message."""
    if stage.part.bounded:
        result = stage.once("SAY hello world").result()
        assert (result["outcome"], result["final_message"]) == ("succeeded", "hello world")
        return
    play = stage.session()
    turn = play.prompt("SAY hello world")

    assert play.turn(turn)["stop_reason"] == "end_turn"
    assert play.said(turn).strip() == "hello world"


@scenario
def test_write(stage: Stage) -> None:
    """What is allowed by policy is written into the worktree, and only there."""
    play = stage.once("WRITE made.txt by the agent\nSAY finished")
    result = play.result()

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == "finished"
    assert [changed["path"] for changed in result["changed_files"]] == ["made.txt"]
    assert not (stage.repo / "made.txt").exists()
    used = {name: result["usage"][name] for name in ("input", "cached_input", "output")}
    assert used == totals(play.requests())


@scenario
def test_deny(stage: Stage) -> None:
    """A denied write is not written, and the agent hears of it."""
    play = stage.session()
    turn = play.prompt("WRITE denied.txt text\nSAY after")
    asked = play.answer("reject_once", turn)
    play.turn(turn)

    assert "denied.txt" in json.dumps(asked)
    assert not (play.tree / "denied.txt").exists()
    assert play.events("permission.resolved")[-1]["kind"] == "reject_once"


@scenario
def test_allow(stage: Stage) -> None:
    """The agent waits for the answer; an allowed write is written."""
    play = stage.session()
    turn = play.prompt("WRITE allowed.txt text")
    eventually(lambda: play.state == "waiting", f"{play} waits")
    before = (play.tree / "allowed.txt").exists()
    play.answer("allow_once", turn)

    assert play.turn(turn)["stop_reason"] == "end_turn"
    assert not before
    assert (play.tree / "allowed.txt").read_text() == "text\n"


@scenario
def test_always(stage: Stage) -> None:
    """What is allowed for always is asked about once; both writes are written."""
    play = stage.start("WRITE twice.txt one\nWRITE twice.txt two", permissions="ask")
    play.answer("allow_always", 1)
    result = play.result()

    assert result["outcome"] == "succeeded", result["error"]
    assert (play.tree / "twice.txt").read_text() == "two\n"
    assert [e["kind"] for e in play.events("permission.resolved")] == ["allow_always"]


@scenario
def test_write_in(stage: Stage) -> None:
    """What its model asks is answered in somebody's own words, and those are what it hears."""
    play, words = stage.session(), "neither of them, take the third"
    turn = play.prompt(f"{stage.part.question}\nSAY heard")
    asked = play.question(turn)
    [own] = [option["id"] for option in asked["options"] if option["requires_message"]]
    without = play.refused(asked, option=own)
    beside = play.refused(asked, option="choice_1", message=words)
    play.settle(asked, option=own, message=words)

    assert play.turn(turn)["stop_reason"] == "end_turn"
    assert "Which one?" in asked["question"]
    assert "needs a message" in without.message
    assert "takes no message" in beside.message
    assert words in play.requests()[-1]["heard"]
    assert play.events("permission.resolved")[-1]["message"] == words
    assert play.said(turn).strip() == "heard"


@scenario
def test_timeout(stage: Stage) -> None:
    """What nobody answers is denied at its deadline, and the agent hears of it."""
    play = stage.start(
        "WRITE late.txt text\nSAY after", permissions="ask", timeouts={"permission_s": 0.5}
    )
    play.result()
    [settled] = play.events("permission.resolved")

    assert settled["by"]["resolver"] == "deadline"
    assert not (play.tree / "late.txt").exists()
    assert [event["stop_reason"] for event in play.events("turn.ended")] != ["error"]


@scenario
def test_allow_command(stage: Stage) -> None:
    """A command that is allowed runs; one that need not be asked about runs as well."""
    play = stage.session()
    turn = play.prompt("RUN sh note.sh\nSAY noted")
    play.allow_all(turn)

    assert play.said(turn).strip() == "noted"
    assert "it ran" in json.dumps(play.events("tool.call_update"))


@scenario
def test_two_prompts(stage: Stage) -> None:
    """A prompt that comes while another runs waits for it, and gets a turn of its own."""
    play = stage.session()
    first = play.prompt(f"SLOW 1 {WORDS}")
    second = play.prompt("SAY and two")
    ends = [play.turn(turn)["stop_reason"] for turn in (first, second)]

    assert ends == ["end_turn", "end_turn"]
    assert second == first + 1
    assert (play.said(first).strip(), play.said(second).strip()) == (WORDS, "and two")


@scenario
def test_cancel_stream(stage: Stage) -> None:
    """An interrupt ends the turn at once; the session goes on with what was said in mind."""
    if stage.part.bounded:
        play = stage.once(f"SLOW 30 {WORDS}")
        eventually(play.requests, f"{play} asks the model")
        play.cancel()
        assert play.result(CANCEL_LIMIT_S)["outcome"] == "cancelled"
        return
    play = stage.session()
    turn = play.prompt(f"SLOW 30 {WORDS}")
    eventually(lambda: play.said(turn), f"{play} speaks")
    play.interrupt()
    ended = play.turn(turn, CANCEL_LIMIT_S)
    play.parked()
    after = play.prompt("SAY still here")

    assert ended["stop_reason"] == "cancelled"
    assert play.turn(after)["stop_reason"] == "end_turn"
    assert play.said(after).strip() == "still here"


@scenario
def test_model_error(stage: Stage) -> None:
    """What the model's server refuses is no success, and its words are told."""
    if stage.part.bounded:
        error = stage.once("FAIL 400").result()["error"]
    else:
        play = stage.session()
        error = play.turn(play.prompt("FAIL 400")).get("error")

    assert error is not None
    assert "scripted failure 400" in json.dumps(error)


@scenario
def test_interrupt_tool(stage: Stage) -> None:
    """An interrupt ends the tool that runs, with its process; the session goes on."""
    play, seconds = stage.tools(), new_sleep()
    turn = play.prompt(f"RUN sh linger.sh {seconds}")
    play.tool_runs(turn, seconds)
    play.interrupt()
    ended = play.turn(turn, CANCEL_LIMIT_S)

    assert ended["stop_reason"] == "cancelled"
    eventually(lambda: not sleeping(seconds), "the tool is gone", CANCEL_LIMIT_S)
    play.parked()
    assert play.turn(play.prompt("SAY still here"))["stop_reason"] == "end_turn"


@scenario
def test_cancel_tool(stage: Stage) -> None:
    """A run that is cancelled while its tool runs leaves no process behind."""
    seconds = new_sleep()
    if stage.part.bounded:
        play, turn = stage.once(f"RUN sh linger.sh {seconds}"), 1
    else:
        play = stage.tools()
        turn = play.prompt(f"RUN sh linger.sh {seconds}")
    play.tool_runs(turn, seconds)
    play.cancel()

    assert play.result(CANCEL_LIMIT_S)["outcome"] == "cancelled"
    assert sleeping(seconds) == []
    eventually(lambda: not play.keepers(), "the keeper is gone", CANCEL_LIMIT_S)


@scenario
def test_resume(stage: Stage) -> None:
    """A second run goes on in the very session of the first, and the model hears the past."""
    first, second = stage.resumed()
    results = [play.result() for play in (first, second)]

    assert [result["outcome"] for result in results] == ["succeeded", "succeeded"]
    assert results[0]["session"] == results[1]["session"]
    assert results[1]["resumed_from"] == first.run
    # A past that is known is in every request.
    assert second.said(1).strip() == "second"
    counts = [
        [r["messages"] for r in play.requests() if not r["title"]] for play in (first, second)
    ]
    assert min(counts[1][-1:]) > counts[0][0]


@scenario
def test_usage(stage: Stage) -> None:
    """Each run's tokens and cost are what the model reported to it alone."""
    first, second = stage.resumed()
    until = second.asked
    asked = (stage.model.requests[first.asked : until], second.requests())
    for play, requests in zip((first, second), asked, strict=True):
        result = play.result()
        used = {name: result["usage"][name] for name in ("input", "cached_input", "output")}
        assert used == totals(requests)
        assert result["usage"]["total"] == sum(totals(requests).values())
        _check_cost(stage, requests, result["cost"])


def _check_cost(stage: Stage, requests: list[dict[str, Any]], cost: Any) -> None:
    """The cost is the tokens' at the part's prices, and no more than the titles' besides."""
    if stage.part.prices is None:
        assert cost is None
        return
    usd = _priced(stage, totals(requests))
    if not stage.part.titles_cost:
        assert cost["usd"] == pytest.approx(usd)
        return
    # When it asks for one, and in which run's cost that is, is a matter of luck.
    titles = [request for request in stage.model.requests if request["title"]]
    extra = (cost["usd"] - usd) / _priced(stage, totals(titles[:1], titles=True))
    assert extra == pytest.approx(round(extra), abs=1e-6), (cost, usd, titles)
    assert abs(round(extra)) <= len(titles)


def _priced(stage: Stage, tokens: dict[str, int]) -> float:
    prices = stage.part.prices or {}
    return sum(tokens[name] * price for name, price in prices.items()) / 1e6


@scenario
def test_wrong_session(stage: Stage) -> None:
    """A session that is not there fails the run; no other one is begun in its place."""
    first, _ = stage.resumed()
    stage.lose_session(first)
    asked = len(stage.model.requests)
    started = stage.client.run.resume(first.run, "SAY never", keep=False)
    waited = stage.client.run.wait([started["run"]], timeout_s=LIMIT_S)
    result = stage.client.run.result(started["run"])

    assert waited["met"] == "ended"
    assert result["outcome"] == "failed"
    assert result["final_message"] == ""
    assert len(stage.model.requests) == asked


@scenario
def test_review(stage: Stage) -> None:
    """A command runs and its output is told; the tree stays as it was."""
    play = stage.once("RUN sh note.sh >/output/note; touch made\nSAY finished", profile="review")
    result = play.result()

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == "finished"
    assert (result["changed_files"], (play.tree / "made").exists()) == ([], False)
    assert _artifacts(result) == {"note": "it ran\n"}


@scenario
def test_sealed(stage: Stage) -> None:
    """The model is reached with the login and its endpoint alone; a command runs."""
    play = stage.once("RUN ls /workspace >/output/found\nSAY finished", profile="sealed")
    result = play.result()

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == "finished"
    assert _artifacts(result) == {"found": ""}


@scenario
def test_host(stage: Stage) -> None:
    """A command changes the worktree at its path on the host, with the user's own settings."""
    play = stage.once("RUN sh note.sh >noted\nSAY finished", profile="host")
    result = play.result()

    assert result["outcome"] == "succeeded", result["error"]
    assert [changed["path"] for changed in result["changed_files"]] == ["noted"]
    assert (play.tree / "noted").read_text() == "it ran\n"


def _artifacts(result: dict[str, Any]) -> dict[str, str]:
    """The files that a run left, by name."""
    where = Path(result["evidence_dir"], "artifacts")
    return {each["path"]: (where / each["path"]).read_text() for each in result["artifacts"]}


@scenario
def test_daemon_killed(stage: Stage) -> None:
    """SIGKILL of the daemon while a tool runs: the run goes on, and its journal is whole."""
    play = stage.once("RUN sh await.sh\nSAY finished")
    play.file("begun")
    stage.daemon.restart()
    (play.tree / "go").touch()
    result = play.result()
    seqs = [event["seq"] for event in play.events()]

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == "finished"
    assert (play.tree / "went.txt").exists()
    assert seqs == list(range(1, len(seqs) + 1))
    assert [event["type"] for event in play.events()].count("turn.ended") == 1
