"""`tail` on journal files: no daemon, files that grow, are cut, are replaced; cursors in files."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from client_daemon import RUN, coachman, command, environment, numbered
from coachmand.journal import vocabulary

OTHER = "261129-220418-m2x9d"
EVENTS = numbered(
    {"type": "run.queued"},
    *({"type": "agent.message_chunk", "message_id": "m", "text": f"part {n}\n"} for n in range(4)),
    {"type": "run.ended", "outcome": "succeeded"},
)


def lines(events: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.fixture
def journal(state_dir: Path) -> Path:
    """A run's directory with a journal that has all but its last three events."""
    path = state_dir / "runs" / RUN
    path.mkdir(parents=True)
    request = {"format": 1, "task": "parser", "labels": {"team": "a"}, "dir": str(state_dir)}
    (path / "request.json").write_text(json.dumps(request))
    (state_dir / "live").mkdir(exist_ok=True)
    (state_dir / "live" / RUN).touch()
    (path / "events.ndjson").write_bytes(lines(EVENTS[:3]))
    return path / "events.ndjson"


class Tail:
    """A `tail --json` under way, and what it has printed so far."""

    def __init__(self, state_dir: Path, *words: str) -> None:
        self._output = state_dir / "printed"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command("tail", "--json", *words),
                cwd=state_dir,
                env=environment(state_dir),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
            )

    def printed(self) -> list[dict[str, Any]]:
        whole = self._output.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def types(self) -> list[str]:
        return [line["type"] for line in self.printed()]

    def end(self) -> list[dict[str, Any]]:
        self.process.communicate(timeout=30)
        return self.printed()


@pytest.fixture
def tail(state_dir: Path) -> Iterator[Callable[..., Tail]]:
    """``tail(words…)`` starts one; those that are left are ended."""
    found: list[Tail] = []

    def start(*words: str) -> Tail:
        found.append(Tail(state_dir, *words))
        return found[-1]

    yield start
    for one in found:
        one.process.kill()
        one.process.communicate()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize("named", ["path", "directory", "handle", "task", "prefix"])
def test_a_journal_is_followed_without_a_daemon_until_its_run_ends(
    state_dir: Path,
    journal: Path,
    tail: Callable[..., Tail],
    eventually: Callable[..., object],
    named: str,
) -> None:
    """However it is named: what there is, what is added, half lines once they are whole."""
    names = {
        "path": str(journal),
        "directory": str(journal.parent),
        "handle": RUN[-5:],
        "task": "parser",
        "prefix": RUN[:9],
    }
    following = tail(names[named])
    eventually(lambda: len(following.printed()) == 3)
    rest = lines(EVENTS[3:])
    append(journal, rest[:50])
    append(journal, rest[50:])
    printed = following.end()

    assert printed[:-1] == EVENTS
    assert (printed[-1]["type"], printed[-1]["reason"]) == ("stream.ended", "run_ended")
    assert following.process.returncode == 0


def test_a_journal_that_is_cut_is_said_and_nothing_is_shown_twice(
    journal: Path, tail: Callable[..., Tail], eventually: Callable[..., object]
) -> None:
    """Truncated and written on, the tail says so and goes on with what is new."""
    following = tail(str(journal))
    append(journal, b'{"type":"agent.mess')
    eventually(lambda: len(following.printed()) == 3)
    journal.write_bytes(lines(EVENTS[:2]))
    eventually(lambda: "stream.truncated" in following.types())
    append(journal, lines(EVENTS[2:]))
    printed = following.end()

    assert [event for event in printed if not event["type"].startswith("stream.")] == EVENTS
    assert "cut to" in next(e["message"] for e in printed if e["type"] == "stream.truncated")


def test_a_file_that_takes_the_journals_place_is_said_and_followed(
    journal: Path, tail: Callable[..., Tail], eventually: Callable[..., object]
) -> None:
    """Rotated: what the old file still got is shown, then the new one from its start."""
    following = tail(str(journal))
    eventually(lambda: len(following.printed()) == 3)
    journal.rename(journal.with_name("events.1"))
    append(journal.with_name("events.1"), lines(EVENTS[3:4]))
    eventually(lambda: "stream.removed" in following.types())
    newer = [{**event, "seq": seq} for seq, event in enumerate(EVENTS[4:], 1)]
    journal.write_bytes(lines(newer))
    printed = following.end()

    assert "stream.rotated" in following.types()
    told = [event for event in printed if not event["type"].startswith("stream.")]
    assert told == EVENTS[:4] + newer


def test_a_line_that_is_no_event_is_said(state_dir: Path, journal: Path) -> None:
    """Garbage in the middle is named and left out; the rest is shown."""
    journal.write_bytes(lines(EVENTS[:2]) + b"{\x00garbage\n[1]\n" + lines(EVENTS[2:]))
    done = coachman(state_dir, "tail", str(journal), "--json")
    printed = [json.loads(line) for line in done.stdout.splitlines()]

    assert [event["type"] for event in printed].count("stream.damaged") == 2
    assert [event for event in printed if "seq" in event] == EVENTS


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_tail_that_was_killed_goes_on_where_its_cursor_file_says(
    state_dir: Path,
    journal: Path,
    tail: Callable[..., Tail],
    eventually: Callable[..., object],
    interrupted: bool,
) -> None:
    """SIGKILL and SIGINT: the next one prints what was not printed yet, and nothing again."""
    first = tail(RUN[-5:], "--cursor", "at")
    eventually(lambda: len(first.printed()) == 3)
    eventually((state_dir / "at").exists)
    eventually(lambda: json.loads((state_dir / "at").read_text())["at"] == {"seq": 3})
    first.process.send_signal(2 if interrupted else 9)
    first.process.wait(30)
    append(journal, lines(EVENTS[3:]))
    printed = tail(RUN[-5:], "--cursor", "at").end()

    assert printed[:-1] == EVENTS[3:]
    assert [p.name for p in state_dir.iterdir() if p.name.startswith("at")] == ["at"]


def test_how_a_run_ended_is_said_last(state_dir: Path, journal: Path) -> None:
    """As with a daemon, where it has ended; its result lies beside the journal."""
    living = coachman(state_dir, "tail", "@", "--no-follow")
    append(journal, lines(EVENTS[3:]))
    result = {"format": 1, "handle": RUN[-5:], "outcome": "failed", "error": {"message": "exit 3"}}
    (journal.parent / "result.json").write_text(json.dumps(result))
    ended = coachman(state_dir, "tail", RUN[-5:])
    quiet = coachman(state_dir, "tail", RUN[-5:], "-q")

    assert "failed" not in living.stderr
    assert f"{RUN[-5:]} failed: exit 3" in ended.stderr
    assert "failed" not in quiet.stderr


def test_a_cursor_that_only_a_daemon_understands_wants_one(state_dir: Path, journal: Path) -> None:
    """It is no mistake of the caller's: the daemon is missing, and the hint starts it."""
    saved = {"format": 1, "of": {"facts": {}}, "at": {"cursor": "c"}}
    (state_dir / "at").write_text(json.dumps(saved))
    refused = coachman(state_dir, "tail", "-a", "--no-follow", "--cursor", "at")

    assert refused.returncode == 69
    assert "next: coachman daemon start" in refused.stderr


def test_a_cursor_file_of_another_stream_is_refused(state_dir: Path, journal: Path) -> None:
    """One file holds one stream's place; a file that holds none is named."""
    assert coachman(state_dir, "tail", "@", "--no-follow", "--cursor", "at").returncode == 0
    other = coachman(state_dir, "tail", str(journal), "--no-follow", "--cursor", "at")
    (state_dir / "bad").write_text("what?")
    bad = coachman(state_dir, "tail", "@", "--no-follow", "--cursor", "bad")

    assert (other.returncode, bad.returncode) == (64, 64)
    assert "it is of another stream" in other.stderr
    assert "cannot tail --cursor" in bad.stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["tail", "@", "--cursor", "fifo.req"], "it is no regular file"),
        (["tail", "@", "--cursor", "live"], "it is no regular file"),
        (["tail", "@", "--cursor", "text"], "it holds no cursor"),
        (["tail", "@", "--cursor", "deep"], "it holds no cursor"),
        (["tail", "@", "--cursor", ""], "name a file"),
        (["tail", "@", "--cursor", "none/at"], "its directory is missing or cannot be written"),
        (["tail", "./fifo.req"], "cannot tail ./fifo.req: it is no regular file"),
        (["answer", "--file", "fifo", "allow"], "cannot read fifo.req: it is no regular file"),
        (["answer", "--file", "d", "allow"], "cannot read d.req: it is no regular file"),
        (["run", "x", "--sentinel-file", ""], "--sentinel-file '': name a file"),
    ],
)
def test_a_file_that_is_none_is_refused_at_once(
    state_dir: Path, journal: Path, words: list[str], error: str
) -> None:
    """A FIFO nobody writes to, a directory, text, no name: an error of its own words, no wait."""
    os.mkfifo(state_dir / "fifo.req")
    (state_dir / "d.req").mkdir()
    (state_dir / "text").write_text("what?")
    (state_dir / "deep").write_text("[" * 60_000)
    done = coachman(state_dir, *words)

    assert done.returncode == 64
    assert error in done.stderr
    assert "Errno" not in done.stderr


def test_a_journal_is_named_by_its_file_in_its_directory(state_dir: Path, journal: Path) -> None:
    """`tail events.ndjson` means the file that lies there; elsewhere the word is a run's."""
    append(journal, lines(EVENTS[3:]))
    there = coachman(state_dir, "tail", "events.ndjson", "--json", cwd=journal.parent)
    elsewhere = coachman(state_dir, "tail", "events.ndjson")

    printed = [json.loads(line) for line in there.stdout.splitlines()]
    assert printed[:-1] == EVENTS
    assert (elsewhere.returncode, "are named so" in elsewhere.stderr) == (66, True)


def test_every_type_of_event_can_be_chosen(state_dir: Path, journal: Path) -> None:
    """`--types` takes each type that a journal may hold, and no other."""
    every = ",".join(sorted(vocabulary.EVENT_TYPES))
    done = coachman(state_dir, "tail", str(journal), "--no-follow", "--json", "--types", every)
    wrong = coachman(state_dir, "tail", str(journal), "--types", "permission.passt")

    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4)
    assert (wrong.returncode, "near it: permission.passed" in wrong.stderr) == (64, True)


def test_several_journals_are_one_stream_with_each_line_named(
    state_dir: Path, journal: Path
) -> None:
    """Lines of several runs are whole, in order of time, behind their run's handle."""
    other = [{**event, "run": OTHER} for event in EVENTS]
    path = journal.parents[1] / OTHER
    path.mkdir()
    (path / "events.ndjson").write_bytes(lines(other))
    (path / "request.json").write_text(json.dumps({"format": 1, "labels": {"team": "a"}}))
    append(journal, lines(EVENTS[3:]))
    printed = [
        coachman(state_dir, "tail", *words).stdout.splitlines()
        for words in ((str(journal), str(path)), (RUN, OTHER), ("-l", "team=a"))
    ]

    assert printed[0] == printed[1] == printed[2]
    assert printed[0][:3] == ["k7q3x part 0", "m2x9d part 0", "k7q3x part 1"]
    assert printed[0][-1] == "m2x9d   [ended: succeeded]"
    none = coachman(state_dir, "tail", "-l", "team=b", "--json")
    assert json.loads(none.stdout)["reason"] == "run_ended"


def test_watch_says_what_class_each_line_is(state_dir: Path, journal: Path) -> None:
    """`watch` is `tail --classify`, as text and as JSON."""
    append(
        journal,
        lines(
            numbered(
                *EVENTS[:3],
                {"type": "agent.message_chunk", "message_id": "m", "text": "Bug: off by one\n"},
                {"type": "run.ended", "outcome": "succeeded"},
            )[3:]
        ),
    )
    text = coachman(state_dir, "watch", RUN).stdout.splitlines()
    found = coachman(state_dir, "tail", RUN, "--classify", "--json", "--types", "run.ended")

    assert text == [
        "activity  part 0",
        "activity  part 1",
        "finding   Bug: off by one",
        "milestone   [ended: succeeded]",
    ]
    assert json.loads(found.stdout.splitlines()[0])["classify"] == "milestone"


def test_a_line_keeps_its_class_whatever_ends_it(state_dir: Path, journal: Path) -> None:
    """An event's lines are judged one by one, and one that is left open is no later event's."""
    texts = [
        ("m", "say hello"),
        ("n", "Bug: it drops "),
        ("n", "lines\nso what"),
        ("o", "3 failed"),
    ]
    chunks = [
        {"type": "agent.message_chunk", "message_id": message, "text": text}
        for message, text in texts
    ]
    ended = {"type": "run.ended", "outcome": "succeeded"}
    journal.write_bytes(lines(numbered(*chunks, ended)))
    text = coachman(state_dir, "watch", RUN).stdout.splitlines()
    journal.write_bytes(lines(numbered(*chunks[:2])))
    half = coachman(state_dir, "watch", RUN, "--no-follow", "--cursor", "at").stdout.splitlines()

    assert text == [
        "activity  say hello",
        "finding   Bug: it drops lines",
        "activity  so what",
        "finding   3 failed",
        "milestone   [ended: succeeded]",
    ]
    assert half == ["activity  say hello", "finding   Bug: it drops "]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["x", "-l", "a=b"], "name runs, or choose them"),
        (["x", "y", "--after", "3"], "sequence numbers are those of one run"),
        (["./x", "y"], "name runs, or paths"),
        (["-l", "a"], "write KEY=VALUE"),
        (["./no/such"], "there is no such journal"),
        (["nothing"], "no run's files are named so"),
    ],
)
def test_what_cannot_be_tailed_is_said(state_dir: Path, words: list[str], error: str) -> None:
    """A contradiction, or a name that means nothing, is an error of its own words."""
    done = coachman(state_dir, "tail", *words)

    assert done.returncode in (64, 66)
    assert error in done.stderr
