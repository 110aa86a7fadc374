"""Every conversation, held to the contract on every recording of its agent."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import (
    DEAD,
    STRAY_LINES,
    Held,
    Recording,
    at_each_step,
    ends,
    meant,
    pieces,
    recordings,
    timeless,
)

from agents_parts import PARTS
from agents_replay import feed, replay, stdin_of, text_of
from coachman_adapters.conversation import (
    Action,
    Answer,
    Ask,
    Cancel,
    Event,
    SessionKnown,
    Write,
)
from coachman_adapters.events import MESSAGE_CHUNK

MEBIBYTE = 1024 * 1024
ALL = recordings()
IDS = [f"{part}-{name}" for part, name in ALL]
EVERY = pytest.mark.parametrize(("part", "name"), ALL, ids=IDS)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def test_every_part_has_recordings() -> None:
    """An agent whose conversation nobody recorded is not known to work."""
    assert {part for part, _ in ALL} == set(PARTS)


@EVERY
def test_a_replay_writes_the_same_stdin(part: str, name: str) -> None:
    """Feeding a recording again writes exactly what was written then, and nothing unlawful."""
    recording = Recording.load(part, name)
    actions = recording.replay()
    held = Held()

    held.hold(actions)

    assert stdin_of(actions).decode() == recording.told["stdin"]
    assert held.ended == sum("prompt" in step for step in recording.steps)


@EVERY
@settings(max_examples=10)
@given(sizes=st.lists(st.integers(1, 900), min_size=1, max_size=30))
def test_chunks_do_not_matter(part: str, name: str, sizes: list[int]) -> None:
    """However stdout is cut into reads, the actions are the same."""
    recording = Recording.load(part, name)

    assert timeless(recording.rechunked(pieces(sizes))) == timeless(recording.replay())


@EVERY
def test_a_snapshot_at_any_point_continues_the_same(part: str, name: str) -> None:
    """Taken as JSON after any step, a snapshot in a new conversation goes on identically."""
    recording = Recording.load(part, name)
    steps = recording.steps
    first, before = recording.converse(), []
    whole, last = recording.replay(), recording.converse()
    replay(last, steps)
    for at in range(len(steps)):
        before += feed(first, steps[at])
        second = recording.converse()
        second.restore(json.loads(json.dumps(first.snapshot())))
        assert before + replay(second, steps[at + 1 :]) == whole
        assert second.snapshot() == last.snapshot()


@EVERY
def test_a_snapshot_inside_a_line_continues_the_same(part: str, name: str) -> None:
    """A snapshot in the middle of a line keeps the part that was read."""
    recording = Recording.load(part, name)
    conversation, actions = recording.converse(), []
    for step in recording.by_lines():
        text = step.get("stdout", "")
        halves = [{"stdout": text[: len(text) // 2]}, {"stdout": text[len(text) // 2 :]}]
        for half in halves if text else [step]:
            actions += feed(conversation, half)
            snapshot = json.loads(json.dumps(conversation.snapshot()))
            conversation = recording.converse()
            conversation.restore(snapshot)

    assert timeless(actions) == timeless(recording.replay())


@EVERY
def test_stray_lines_change_nothing(part: str, name: str) -> None:
    """Logs, broken JSON and unknown variants between any two lines leave the rest as it was."""
    recording = Recording.load(part, name)
    expected = meant(recording.replay())
    small = [line for line in STRAY_LINES.values() if len(line) < 1000]
    conversation, actions, held = recording.converse(), [], Held()
    for step in recording.by_lines():
        for line in small if "stdout" in step else []:
            actions += conversation.receive(line + b"\n")
        actions += feed(conversation, step)

    held.hold(actions)

    assert meant(actions) == expected


@pytest.mark.parametrize("stray", [name for name, line in STRAY_LINES.items() if len(line) > 1000])
@pytest.mark.parametrize("part", sorted(PARTS))
def test_huge_lines_change_nothing(part: str, stray: str) -> None:
    """A line of megabytes or of endless brackets is told in a small event, and the turn ends."""
    recording, told = Recording.load(part, "say"), False
    conversation, actions, held = recording.converse(), [], Held()
    for step in recording.by_lines():
        if "stdout" in step and not told:
            told = True
            for piece in pieces([65536])(STRAY_LINES[stray] + b"\n"):
                actions += conversation.receive(piece)
        actions += feed(conversation, step)

    held.hold(actions)

    assert meant(actions) == meant(recording.replay())


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_line_without_a_bound_is_told_by_its_place(part: str) -> None:
    """Of a line beyond every limit nothing is kept but where it is, and the turn ends as ever."""
    recording, told = Recording.load(part, "say"), list[Event]()
    conversation, actions = recording.converse(), list[Action]()
    for step in recording.by_lines():
        if "stdout" in step and not told:
            for piece in (MEBIBYTE * b"x" for _ in range(65)):
                assert conversation.receive(piece) == []
            told = [a for a in conversation.receive(b"\n") if isinstance(a, Event)]
            actions += told
        actions += feed(conversation, step)

    assert [(event.members["bytes"], event.span and event.span.cut) for event in told] == [
        (65 * MEBIBYTE, True)
    ]
    assert meant(actions) == meant(recording.replay())


@EVERY
def test_carriage_returns_change_nothing(part: str, name: str) -> None:
    """Frames whose lines end as on other systems are the same frames."""
    recording = Recording.load(part, name)
    steps = [
        {"stdout": step["stdout"].replace("\n", "\r\n")} if "stdout" in step else step
        for step in recording.by_lines()
    ]

    assert meant(recording.replay(steps)) == meant(recording.replay())


@pytest.mark.parametrize("part", sorted(PARTS))
def test_separators_inside_text_are_text(part: str) -> None:
    """U+2028 and U+0085, which JSON need not escape, end no line."""
    recording = Recording.load(part, "say")
    steps = [
        {"stdout": step["stdout"].replace("world", "w\u2028o\u2029r\u0085ld")}
        if "stdout" in step
        else step
        for step in recording.steps
    ]

    assert text_of(recording.replay(steps)).strip() == "hello w\u2028o\u2029r\u0085ld"


@EVERY
def test_a_recording_cut_short_never_ends_well(part: str, name: str) -> None:
    """Whatever the last thing was that an agent said before it died, open turns end in error."""
    recording = Recording.load(part, name)
    steps = [step for step in recording.by_lines() if "finish" not in step]
    for at in range(2, len(steps)):
        conversation = recording.converse()
        before = replay(conversation, steps[:at])
        open_turns = sum("prompt" in step for step in steps[:at]) - len(ends(before))
        cancelled = any("cancel" in step for step in steps[:at])

        last = ends(feed(conversation, DEAD))

        assert len(last) == open_turns
        assert {end.stop_reason for end in last} <= (
            {"error", "cancelled"} if cancelled else {"error", "limited"}
        )


@EVERY
def test_an_end_said_twice_ends_once(part: str, name: str) -> None:
    """A terminal record that is repeated, and updates after it, end no turn again."""
    said: list[dict[str, Any]] = []
    recording, held = Recording.load(part, name), Held()
    for conversation, step, actions in at_each_step(recording):
        held.hold(actions)
        if "stdout" not in step:
            continue
        told = any(isinstance(a, Event) and a.type == MESSAGE_CHUNK for a in actions)
        said += [step] if told else []
        if ends(actions):
            for late in [step, *said]:
                again = feed(conversation, late)
                held.hold(again)
                assert not ends(again)


@EVERY
def test_another_session_is_never_passed_off_as_the_one_asked_for(part: str, name: str) -> None:
    """Where stdout names another session, it is told, or the turn fails, or nothing counts."""
    recording = Recording.load(part, name)
    wanted = recording.told["session"]
    if wanted is None or "wrong" in name:
        return
    steps = [
        {"stdout": step["stdout"].replace(wanted, "0" * len(wanted))} if "stdout" in step else step
        for step in recording.steps
    ]
    actions = recording.replay(steps)

    known = {action.session for action in actions if isinstance(action, SessionKnown)}
    well = any(end.stop_reason == "end_turn" for end in ends(actions))
    assert known - {wanted} or not well or not text_of(actions)


@EVERY
def test_a_cancel_answers_what_is_asked(part: str, name: str) -> None:
    """Cancelled with a question open, the agent is answered at once and never a second time."""
    for conversation, _, actions in at_each_step(Recording.load(part, name)):
        asks = [action for action in actions if isinstance(action, Ask)]
        if not asks:
            continue
        written = stdin_of(conversation.intend(Cancel()))
        assert written
        assert not ends(conversation.receive(b""))
        for ask in asks:
            again = conversation.intend(Answer(ask.request, ask.options[0].id))
            assert not [action for action in again if isinstance(action, Write)]
        [end] = ends(feed(conversation, DEAD))
        assert end.stop_reason in ("cancelled", "error")
        return


def _mutated(value: Any, draw: Any) -> Any:
    """``value`` with something in it dropped or replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 3)) == 0:
            return {other: inner for other, inner in value.items() if other != key}
        return {**value, key: _mutated(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _mutated(value[at], draw), *value[at + 1 :]]
    return draw(JSON)


@EVERY
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_nothing_an_agent_says_breaks_its_conversation(
    part: str, name: str, data: st.DataObject
) -> None:
    """Lines dropped, repeated or changed: nothing raises, and each prompt ends exactly once."""
    recording, held = Recording.load(part, name), Held()
    steps, prompts = recording.by_lines(), 0
    chosen = data.draw(st.sets(st.integers(0, len(steps) - 1), max_size=6))
    conversation = recording.converse()
    for at, step in enumerate(steps):
        prompts += "prompt" in step
        if at not in chosen or "stdout" not in step:
            held.hold(feed(conversation, step))
            continue
        try:
            line = json.dumps(_mutated(json.loads(step["stdout"]), data.draw))
        except ValueError:
            line = data.draw(st.text(max_size=20)).replace("\n", "")
        for _ in range(data.draw(st.integers(0, 2))):
            held.hold(conversation.receive(line.encode("utf-8", "replace") + b"\n"))

    assert held.ended == prompts
