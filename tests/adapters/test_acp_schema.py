"""Every frame we write, and every frame our demo agent writes, against the official schema."""

import pytest

import agents_replay
from agents_schema import Judge

NAMES = agents_replay.names("opencode")
# opencode reports usage on the prompt's result and more; the schema is open for it.
MUST_BE_SEEN = {
    "initialize Request",
    "session/new Request",
    "session/resume Request",
    "session/prompt Request",
    "session/cancel Notification",
    "session/set_config_option Request",
    "session/request_permission Response",
}


def judged(name: str) -> list[str]:
    """Both directions of a recording in the order a peer saw them."""
    told = agents_replay.load("opencode", name)
    judge = Judge()
    from_agent = "".join(step.get("stdout", "") for step in told["steps"]).splitlines()
    ours = told["stdin"].splitlines()
    requests = [line for line in ours if '"method"' in line]
    for line in requests:
        judge.check("client", line)
    for line in from_agent:
        judge.check("agent", line)
    for line in ours:
        if line not in requests:
            judge.check("client", line)
    return judge.judged


@pytest.mark.parametrize("name", NAMES)
def test_recorded_frames_keep_the_schema(name: str) -> None:
    """What was said in a recording, by either side, validates."""
    assert judged(name)


def test_the_recordings_cover_what_we_send() -> None:
    """Each kind of frame that we write is in some recording."""
    seen = {kind for name in NAMES for kind in judged(name)}

    assert seen >= MUST_BE_SEEN
