"""Every durable file cut short or with a bit flipped: it opens, or it is told which one is lost."""

import contextlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import coachman
import live_runs as live
import recovery_state as at
from coachmand.evidence.index import Index
from coachmand.evidence.rundir import RunDirectory, read_json
from coachmand.evidence.state import StateDirectory
from coachmand.journal.damage import DamagedError
from coachmand.journal.lines import decode
from coachmand.journal.log import Journal, read_file
from coachmand.runs.attempts.replay import CHECKPOINT_FORMAT, Checkpoint, fold
from coachmand.runs.keepers.starting import read_exit, read_state
from coachmand.runs.tasks import TaskStore
from daemon_process import DaemonProcess

FLIPS = 60
RECORDS = ("request.json", "result.json", "keys/*.json", "tasks/*/*.json")
KEEPER_FILES = {"keeper.json": read_state, "exit.json": read_exit}


@pytest.fixture
def ended(daemon: DaemonProcess, repo: Path) -> str:
    """A run that has ended, its daemon stopped; enough was said for a checkpoint."""
    prompt = "chunks 12000\nask one\nsay end"
    run = at.start(daemon, repo, prompt, permissions="ask", request_key="key")
    request = at.until_asked(daemon, run)
    # A planned restart saves where it stands.
    daemon.cli("daemon", "restart")
    [checkpoint] = daemon.state.glob("runs/*/attempts/1/checkpoint.json")
    shutil.copy(checkpoint, daemon.root / "checkpoint")
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    assert at.result(daemon, run)["outcome"] == "succeeded"
    with daemon.client() as client:
        client.daemon.shutdown()
    return run


def flipped(whole: bytes) -> Iterator[bytes]:
    """``whole`` with one bit changed, here and there."""
    chance = random.Random(len(whole))
    for _ in range(FLIPS):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        yield bytes(data)


def directory(daemon: DaemonProcess, run: str) -> RunDirectory:
    return RunDirectory(at.directory(daemon, run))


def test_a_journal_cut_at_any_byte_loses_its_last_line_and_says_so(
    daemon: DaemonProcess, repo: Path, tmp_path: Path
) -> None:
    """What is before stays; how many bytes were cut is known, and the run is told from the rest."""
    # A short one, for every cut reads it all.
    run = at.start(daemon, repo, "say end")
    assert at.result(daemon, run)["outcome"] == "succeeded"
    whole = directory(daemon, run).journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    last = decode(lines[-1])["seq"]
    path = tmp_path / "events.ndjson"
    for end in range(len(whole) - len(lines[-1]), len(whole)):
        path.write_bytes(whole[:end])
        journal = Journal(path, run)
        view = fold(path, journal.read)
        journal.close()
        assert journal.cut_bytes == end - (len(whole) - len(lines[-1]))
        assert (journal.head, view.seq) == (last - 1, last - 1)
        assert view.outcome is None
    assert journal.cut_bytes == len(lines[-1]) - 1


def test_a_flipped_bit_in_a_journal_is_told_or_means_the_same(
    daemon: DaemonProcess, ended: str, tmp_path: Path
) -> None:
    """A line that is none, does not follow or means nothing is named with its file."""
    whole = directory(daemon, ended).journal.read_bytes()
    path = tmp_path / "events.ndjson"
    told = []
    for data in flipped(whole):
        path.write_bytes(data)
        try:
            Journal(path, ended).close()
            fold(path, partial(read_file, path))
        except DamagedError as error:
            told.append(str(error))
    assert told
    assert all("events.ndjson" in text for text in told)


@pytest.mark.parametrize("pattern", RECORDS)
def test_a_record_that_is_cut_is_named(daemon: DaemonProcess, ended: str, pattern: str) -> None:
    """Half a record is none: whoever reads it is told the file, and that it was left alone."""
    base = daemon.state if "/" in pattern else at.directory(daemon, ended)
    [path] = base.glob(pattern)
    whole = path.read_bytes()
    for torn in [whole[:end] for end in range(len(whole) - 1)]:
        path.write_bytes(torn)
        with pytest.raises(DamagedError) as refused:
            read_json(path)
        assert refused.value.name == "Degraded"
        assert path.name in str(refused.value)
    for data in flipped(whole):
        path.write_bytes(data)
        with contextlib.suppress(DamagedError):
            assert isinstance(read_json(path), dict)
    path.write_bytes(whole)


def test_a_task_that_makes_no_sense_is_named(daemon: DaemonProcess, ended: str) -> None:
    """A task's record that lacks something is told as well."""
    [path] = daemon.state.glob("tasks/*/*.json")
    record: dict[str, Any] = json.loads(path.read_bytes())
    del record["worktree"]
    path.write_text(json.dumps(record))
    store = TaskStore(StateDirectory.at(str(daemon.state)))

    with pytest.raises(DamagedError, match="it is no task's record"):
        store.get(path.parent.name, path.stem)


def test_a_checkpoint_that_is_not_what_was_written_is_none(
    daemon: DaemonProcess, ended: str, tmp_path: Path
) -> None:
    """It costs a longer replay, nothing else."""
    whole = (daemon.root / "checkpoint").read_bytes()
    path, size = tmp_path / "checkpoint.json", 1 << 40
    path.write_bytes(whole)
    assert Checkpoint.read(path, size) is not None
    for data in [*flipped(whole), *(whole[:end] for end in range(0, len(whole), 997))]:
        path.write_bytes(data)
        assert Checkpoint.read(path, size) is None


def test_a_checkpoint_of_another_version_is_none(
    daemon: DaemonProcess, ended: str, tmp_path: Path
) -> None:
    """A conversation may remember other things by now: it is replayed instead."""
    data, _, _ = (daemon.root / "checkpoint").read_bytes().rpartition(b"\n")
    path = tmp_path / "checkpoint.json"
    other = data.replace(f'"format":{CHECKPOINT_FORMAT}'.encode(), b'"format":1', 1)
    path.write_bytes(other + b"\n" + sha256(other).hexdigest().encode())

    assert other != data
    assert Checkpoint.read(path, 1 << 40) is None


@pytest.mark.parametrize("name", KEEPER_FILES)
def test_a_keepers_record_that_is_cut_is_none(daemon: DaemonProcess, ended: str, name: str) -> None:
    """Without it nobody can say how the agent ended, and nobody does."""
    path = at.attempt(daemon, ended) / name
    whole = path.read_bytes()
    for torn in [whole[:end] for end in range(len(whole) - 1)]:
        path.write_bytes(torn)
        assert KEEPER_FILES[name](path.parent) is None
    path.write_bytes(b"\xff" + whole)
    assert KEEPER_FILES[name](path.parent) is None


def test_an_index_that_is_cut_or_flipped_is_made_anew(
    daemon: DaemonProcess, ended: str, tmp_path: Path
) -> None:
    """Whatever is left of it, it opens, and holds the run again once it is filled."""
    whole = (daemon.state / "index.db").read_bytes()
    state = StateDirectory.at(str(daemon.state))
    path = tmp_path / "index.db"
    for data in [*flipped(whole), *(whole[:end] for end in range(0, len(whole), 1021))]:
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(data)
        index = Index(path)
        if index.is_new:
            index.rebuild(state)
        found = index.get(ended)
        index.close()
        assert found is None or found["run"] == ended or index.is_new


@pytest.mark.parametrize("text", ["", "17", "17960", "x\n", "99999999999\n"])
def test_a_counter_of_daemons_that_is_torn_goes_on_above_what_was(
    daemon: DaemonProcess, repo: Path, text: str, eventually: Callable[..., object]
) -> None:
    """The next daemon is the newest all the same: keepers take it, and its runs go on."""
    run = at.start(daemon, repo, "say hi\nsleep 0.5\nsay end")
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    (daemon.state / "generation").write_text(text)
    daemon.start()

    assert at.result(daemon, run)["outcome"] == "succeeded"


@pytest.mark.parametrize(
    "name",
    [
        *("request.json", "events.ndjson", "prompts/1.md", "attempts/1/keeper.json"),
        *("attempts/1/stdin.log", "attempts/1/stdout.0", "attempts/1/keeper.lock"),
    ],
)
def test_a_daemon_starts_on_whatever_is_left_of_a_living_run(
    daemon: DaemonProcess, repo: Path, name: str, eventually: Callable[..., object]
) -> None:
    """With a file of it cut to half, others go on, and clients are told what is known of it."""
    run = live.keep(daemon, repo, "say one")
    live.until_parked(daemon, run)
    daemon.kill()
    path = at.directory(daemon, run) / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    daemon.start()
    other = at.start(daemon, repo, "say hi")
    told = []
    with daemon.client() as client:
        asks = (client.run.get, client.run.result, client.run.prompt, client.run.cancel)
        for ask in asks:
            try:
                ask([run] if ask == client.run.cancel else run, *["more"][: ask == asks[2]])
            except coachman.CoachmanError as error:
                told.append(error.name)
        client.run.list()

    assert at.result(daemon, other)["outcome"] == "succeeded"
    assert "InternalError" not in told


def test_a_prompt_that_is_not_what_was_written_is_given_to_nobody(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A kept run drops it, saying so, and goes on with what waits behind it."""
    run = live.keep(daemon, repo, "say one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        for text in ("say two", "say three"):
            client.run.prompt(run, text)
        (at.directory(daemon, run) / "prompts" / "2.md").write_text("say tw")
        client.run.interrupt(run, "say now", keep_queue=True)
    live.until_parked(daemon, run)
    result = live.close(daemon, run)
    [dropped] = live.of_type(daemon, run, "prompt.dropped")

    assert (dropped["prompt"], dropped["why"]) == (2, "damaged")
    assert [prompt for _, prompt, _ in live.turns(daemon, run)] == [1, 4, 3]
    assert result["final_message"] == "three"
    assert any("not what was written" in warning for warning in result["warnings"])
    assert "prompt_damaged" in daemon.log
    live.check(daemon, run)


def test_a_run_whose_prompt_is_not_what_was_written_fails(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Its agent is told nothing, also by the daemon that comes after; the file is named."""
    config = daemon.home / ".config" / "coachman" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[capacity]\nmax_active = 1\n")
    daemon.restart()
    first = at.start(daemon, repo, "sleep 60", task="t1")
    run = at.start(daemon, repo, "write a.txt and all else", task="t2")
    daemon.kill()
    (at.directory(daemon, run) / "prompts" / "1.md").write_text("write a.txt")
    daemon.start()
    with daemon.client() as client:
        client.run.cancel([first])
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "start_failed")
    assert "cannot read prompts/1.md: 11 of 24 bytes are there" in result["error"]["message"]
    assert result["changed_files"] == []
    assert live.of_type(daemon, run, "turn.started") == []


def test_a_dialogue_is_not_rebuilt_from_another_prompt(daemon: DaemonProcess, repo: Path) -> None:
    """A letter that was changed while no daemon ran is found, and the run is lost, saying why."""
    run = live.keep(daemon, repo, "say one")
    live.until_parked(daemon, run)
    daemon.kill()
    (at.directory(daemon, run) / "prompts" / "1.md").write_text("say two")
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("lost", "replay_diverged")
    assert "prompts/1.md: it is not what was written" in result["error"]["message"]
    assert daemon.keepers() == []
