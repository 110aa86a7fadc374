"""The replay rule under thousands of random crashes, in a model without processes."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coachman_adapters.acp.conversation import AcpConversation
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import AgentRequest
from coachmand.journal import vocabulary as v
from coachmand.runs.attempts.dialogue import Dialogue, Input, ReplayDivergedError
from coachmand.runs.attempts.replay import replay
from coachmand.runs.reading.view import View
from replay_agents import AcpAgent, Babbler, Digest, Repeater
from replay_world import Tape, World, numbered, uninterrupted

ENDED = v.TURN_ENDED
STORM = settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TAPES = st.binary(min_size=100, max_size=800).map(Tape)


def acp_world(tape: Tape, turns: int) -> World:
    """An agent that speaks ACP, kept for ``turns`` prompts."""
    request = AgentRequest(cwd="/workspace", home="/home/agent", keep=turns > 1)
    return World(
        tape, lambda: AcpConversation(request, Quirks(settle_s=0.2)), AcpAgent(tape), turns
    )


def digest_world(tape: Tape, turns: int) -> World:
    """A conversation that any change of order would change."""
    return World(tape, Digest, Babbler(tape), turns)


def check(world: World) -> None:
    lines, stdin = uninterrupted(world)
    seqs = [event["seq"] for event in world.events()]

    assert seqs == list(range(1, len(seqs) + 1))
    assert [line["n"] for line in numbered(world)] == list(range(1, len(lines) + 1))
    assert numbered(world) == lines
    assert bytes(world.stdin) == stdin


def check_prompts(world: World) -> None:
    """Each prompt that was promised is told once, or waits, or was dropped on request."""
    view = View()
    for event in world.events():
        view.apply(event)
    inputs = [Input.of_event(e) for e in world.events() if e["type"] == v.INPUT]
    told = [given.prompt for given in inputs if given.kind == "prompt"]
    dropped = [e["prompt"] for e in world.events() if e["type"] == v.PROMPT_DROPPED]
    waiting = [queued.number for queued in view.queue]
    cancelled = [given.payload["of_turn"] for given in inputs if given.kind == "cancel"]

    assert len(set(told)) == len(told)
    assert set(told).isdisjoint([*dropped, *waiting])
    assert set(world.promised) <= {*told, *dropped, *waiting}
    assert len(set(cancelled)) == len(cancelled)
    assert all(isinstance(event["turn"], int) for event in world.events() if event["type"] == ENDED)


@pytest.mark.parametrize("make", [acp_world, digest_world])
@STORM
@given(tape=TAPES, turns=st.sampled_from([1, 2, 3, 6]))
def test_a_run_that_lived_through_crashes_says_what_an_uninterrupted_one_says(
    make: Callable[[Tape, int], World], tape: Tape, turns: int
) -> None:
    """After any crashes, lines with ``n`` and stdin are exactly those of a run without."""
    world = make(tape, turns)
    world.live()

    check(world)
    check_prompts(world)


def test_a_stale_end_ends_no_turn() -> None:
    """Of two ends of one turn the second is a remark; the next prompt's own end is its end."""
    given = {turn: Input("prompt", 0, {"prompt_turn": turn, "prompt": turn}) for turn in (1, 2)}
    dialogue = Dialogue(Repeater())
    first = dialogue.apply(given[1], "a")
    dialogue.restore(dialogue.snapshot())
    second = dialogue.apply(given[2], "b")

    assert [(e.type, e.members.get("turn")) for e in first.entries] == [
        (ENDED, 1),
        (v.NOTICE, None),
    ]
    assert [(e.type, e.members.get("turn")) for e in second.entries] == [
        (v.NOTICE, None),
        (ENDED, 2),
        (v.NOTICE, None),
    ]


def test_an_input_at_another_place_of_stdout_is_a_divergence() -> None:
    """An input is applied where it was stamped or not at all."""
    dialogue = Dialogue(Digest())
    dialogue.feed(b"abc\n")

    with pytest.raises(ReplayDivergedError, match="input cancel at 3, fed 4"):
        dialogue.apply(Input("cancel", 3))


def test_stdout_that_is_missing_is_a_divergence() -> None:
    """A raw log that ends before an input's place cannot be replayed."""
    with pytest.raises(ReplayDivergedError, match="stdout ends at 2, input at 9"):
        replay(
            Dialogue(Digest()),
            [Input("cancel", 9)],
            lambda offset, size: b"ab"[offset : offset + size],
            lambda _turn: "",
            lambda _given: pytest.fail("there is no finish"),
            {},
        )


def test_other_words_than_the_keeper_took_are_a_divergence() -> None:
    """What is said again must be what stdin.log holds, byte by byte."""
    request = AgentRequest(cwd="/workspace", home="/home/agent")
    dialogue = Dialogue(
        AcpConversation(request, Quirks()), taken=10, said=lambda _offset, size: b"x" * size
    )

    with pytest.raises(ReplayDivergedError, match="stdin differs after byte 0"):
        dialogue.apply(Input("start", 0))


def test_a_timer_that_expired_behind_a_checkpoint_is_not_armed_again() -> None:
    """Timers armed before a checkpoint and expired after it have done what they were for."""
    found = replay(
        Dialogue(Digest()),
        [Input("timer", 0, {"name": "settle"})],
        lambda _offset, _size: b"",
        lambda _turn: "",
        lambda _given: pytest.fail("there is no finish"),
        {"settle": 0.2, "other": 1.0},
    )

    assert found.timers == {"other": 1.0}
