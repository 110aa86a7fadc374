"""A connection to a keeper that breaks while the keeper and its agent live on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coachman_adapters.conversation import Action, Ending, Event, Intent, Prompt, TurnEnded, Write
from coachman_adapters.events import NOTICE
from coachmand.evidence.rundir import RunDirectory
from coachmand.journal.lines import Entry, decode
from coachmand.journal.log import Journal
from coachmand.runs.attempts import replay
from coachmand.runs.attempts.attempt import Attempt
from coachmand.runs.control import inbox
from coachmand.runs.keepers.starting import KeeperError
from coachmand.runs.reading.view import View


class Echo:
    """Says every prompt's text to the agent, and nothing else."""

    def start(self) -> list[Action]:
        return [Write(b"hello\n")]

    def receive(self, data: bytes) -> list[Action]:
        return []

    def intend(self, intent: Intent) -> list[Action]:
        return [Write(intent.text.encode())] if isinstance(intent, Prompt) else []

    def expire(self, timer: str) -> list[Action]:
        return []

    def finish(self, ending: Ending) -> list[Action]:
        return []

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: object) -> None:
        pass


class Link:
    """A keeper's end: takes what follows what it has, refuses a gap, is deaf when told so."""

    def __init__(self, stdin: bytearray) -> None:
        self.stdin = stdin
        self.deaf = False
        self.closed = False

    @property
    def status(self) -> dict[str, int]:
        return {"stdout": 0, "stdin_taken": len(self.stdin)}

    async def write(self, offset: int, content: bytes) -> int:
        if self.deaf:
            raise KeeperError("cannot write: the keeper did not answer", "timeout")
        if self.closed:
            raise KeeperError("cannot write: stdin is closed", "stdin_closed")
        if offset > len(self.stdin):
            raise KeeperError("cannot write: a gap", "gap", len(self.stdin))
        self.stdin += content[len(self.stdin) - offset :]
        return len(self.stdin)

    async def close_stdin(self) -> None:
        if self.deaf:
            raise KeeperError("cannot close: the keeper did not answer", "timeout")
        self.closed = True

    def close(self) -> None:
        pass


class Host:
    """A run that only journals."""

    permission_s = 60.0
    boot = "boot"

    def __init__(self, path: Path) -> None:
        self.directory = RunDirectory(path)
        self.directory.attempt(1).mkdir(parents=True)
        self.journal = Journal(self.directory.journal, "r")
        self.view = View()
        self.posted: list[inbox.Message] = []

    async def record(self, entries: Sequence[Entry]) -> None:
        for event in await self.journal.append(entries, {}):
            self.view.apply(event)

    def post(self, message: inbox.Message) -> None:
        self.posted.append(message)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "run")


async def test_what_a_broken_connection_swallowed_is_said_over_the_next(host: Host) -> None:
    """Nothing that the dialogue said is missing from stdin, and nothing is there twice."""
    link = Link(bytearray())
    attempt = Attempt(host, 1, link)
    attempt.begin(Echo())
    await attempt.tell("start")
    link.deaf = True
    await attempt.tell("prompt", {"prompt_turn": 1}, prompt="first\n")
    await attempt.tell("prompt", {"prompt_turn": 2}, prompt="second\n")
    await attempt.close_stdin()
    # It had been taken, only the reply was lost.
    link.stdin += b"fir"

    again = Link(link.stdin)
    await attempt.rejoin(again)

    assert bytes(again.stdin) == b"hello\nfirst\nsecond\n"
    assert again.closed
    assert host.posted
    assert all(isinstance(message, inbox.KeeperGone) for message in host.posted)


async def test_words_behind_the_end_of_stdin_are_dropped(host: Host) -> None:
    """What a dialogue says once stdin is closed is no reason to look for the keeper."""
    link = Link(bytearray())
    attempt = Attempt(host, 1, link)
    attempt.begin(Echo())
    await attempt.tell("start")
    await attempt.close_stdin()
    await attempt.tell("prompt", {"prompt_turn": 1}, prompt="too late\n")
    again = Link(link.stdin)
    await attempt.rejoin(again)

    assert host.posted == []
    assert again.closed
    assert bytes(again.stdin) == b"hello\n"


async def test_a_gap_is_no_broken_connection(host: Host) -> None:
    """The keeper misses bytes that nobody can say any more: the run is taken up from its log."""
    attempt = Attempt(host, 1, Link(bytearray()))
    attempt.begin(Echo())
    await attempt.tell("start")
    await attempt.rejoin(Link(bytearray()))
    with pytest.raises(KeeperError, match="a gap"):
        await attempt.tell("prompt", {"prompt_turn": 1}, prompt="first\n")

    assert host.posted == []


async def test_no_checkpoint_is_taken_of_what_the_keeper_has_not_heard(host: Host) -> None:
    """A crash after it could not say the swallowed words again."""
    link = Link(bytearray())
    attempt = Attempt(host, 1, link)
    attempt.begin(Echo())
    link.deaf = True
    await attempt.tell("start")
    await attempt.checkpoint()
    missing = host.directory.checkpoint(1)
    assert not missing.exists()

    link.deaf = False
    await attempt.rejoin(link)
    await attempt.checkpoint()
    assert missing.exists()


class Lines(Echo):
    """Each line is a notice, but "end" ends the turn."""

    def receive(self, data: bytes) -> list[Action]:
        lines = data.decode().split()
        return [
            TurnEnded("end_turn") if line == "end" else Event(NOTICE, {"text": line})
            for line in lines
        ]


@pytest.mark.parametrize("size", [4, 100])
async def test_what_follows_a_turns_end_is_late_however_it_was_chunked(
    host: Host, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lateness is a fact of the order, not of how much one read returned."""
    monkeypatch.setattr(replay, "CHUNK_BYTES", size)
    attempt = Attempt(host, 1, None)
    attempt.begin(Lines())
    await attempt.tell("prompt", {"prompt_turn": 1}, prompt="go")
    (host.directory.attempt(1) / "stdout.0").write_bytes(b"one end two tre ")
    while await attempt.feed():
        pass
    notices = [decode(line.data) for line in host.journal.recent(0, 100) or []]

    assert [(e["text"], e.get("late")) for e in notices if e["type"] == NOTICE] == [
        ("one", None),
        ("two", True),
        ("tre", True),
    ]
