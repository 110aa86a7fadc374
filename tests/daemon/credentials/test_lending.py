"""What a shell lent, after the daemon that knew it is gone: asked for again, and given again."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from hostile_stage import KEY, Stage, staged

# As long as it is waited for, whatever else this machine does.
LIMIT_S = 5


@pytest.fixture
def stage(state_dir: Path) -> Iterator[Stage]:
    """A daemon with one place, whose agent wants a key of its caller."""
    with staged(state_dir, places=1) as found:
        yield found


def limited(stage: Stage, seconds: int = LIMIT_S, **options: Any) -> str:
    """A run that waits for its provider's limit, its agent gone."""
    run = stage.start("acp", f"limited_once {seconds}", **options)
    at.until_event(stage.daemon, run, lambda e: e["type"] == "attempt.ended")
    return run


def attention(stage: Stage, run: str) -> dict[str, Any]:
    """What the run needs, waited for."""
    with stage.daemon.client() as client:
        waited = client.run.wait([run], until="attention", timeout_s=60)
    assert waited["met"] == "attention", waited
    return dict(waited["runs"][0])


def lend(stage: Stage, run: str, key: str | None = KEY) -> Any:
    """`coachman answer RUN lend` in a shell that has that key."""
    env = {} if key is None else {"HOSTILE_KEY": key}
    return stage.daemon.cli("answer", run[-5:], "lend", cwd=stage.repo, env=env)


def test_a_run_between_attempts_waits_for_what_its_shell_lends(stage: Stage) -> None:
    """Shown wherever one looks; lent again it goes on in the same session, with the key."""
    run = limited(stage)
    stage.daemon.restart()
    row = attention(stage, run)
    listed = stage.daemon.cli("list", cwd=stage.repo).stdout
    shown = stage.daemon.cli("show", run, cwd=stage.repo).stdout
    waits = stage.daemon.cli("wait", run, "--until", "attention", cwd=stage.repo)
    without = lend(stage, run, key=None)
    wrong = stage.daemon.cli("answer", run, "allow", "--json", cwd=stage.repo)
    other = "sk-another-9876543210"
    given = lend(stage, run, other)
    again = lend(stage, run, other)
    result = stage.result(run)
    events = stage.daemon.events(run)

    assert (row["state"], row["attention"]["kind"]) == ("waiting", "credentials")
    assert row["next"] == [["coachman", "answer", run[-5:], "lend"]]
    assert "needs you" in listed
    assert f"coachman answer {run[-5:]} lend" in shown
    assert (waits.returncode, "HOSTILE_KEY" in waits.stdout) == (10, True)
    assert (without.returncode, "HOSTILE_KEY is not set" in without.stderr) == (64, True)
    assert json.loads(wrong.stdout)["error"]["next"] == [["coachman", "answer", run, "lend"]]
    assert given.stdout == f"{run[-5:]}  lent HOSTILE_KEY\n"
    assert again.returncode == 76
    assert (result["outcome"], result["attempts"]) == ("succeeded", 2)
    assert result["final_message"] == f"a key of {len(other)}"
    assert len({e["session"] for e in events if e["type"] == "agent.session"}) == 1
    assert [e["action"] for e in events if e["type"] == "limit.reached"] == ["wait"]
    assert list(stage.holding()) == []
    assert not [p for p in stage.daemon.state.rglob("*.*") if p.is_file() and _holds(p, other)]
    at.check_journal(events)


def _holds(path: Path, secret: str) -> bool:
    return secret.encode() in path.read_bytes()


def _links(directory: Path) -> Iterator[str]:
    """Where they lead; one may be gone before it is looked at."""
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(path)


def test_a_restart_in_place_keeps_what_was_lent(stage: Stage) -> None:
    """A run between attempts and one that is queued go on with it, and it is nowhere to be read."""
    between = limited(stage, 3 * LIMIT_S)
    lingers = stage.start("acp", "lingers", timeouts={"wall_s": 600})
    queued = stage.start("acp", "limited_once 1")
    for _ in range(2):
        stage.daemon.restart_in_place()
    assert stage.daemon.process is not None
    process = Path(f"/proc/{stage.daemon.process.pid}")
    open_files = [*_links(process / "fd")]
    told = [(process / name).read_bytes() for name in ("cmdline", "environ")]
    with stage.daemon.client() as client:
        client.run.cancel([lingers])
    results = [stage.result(between), stage.result(queued)]
    states = [e for run in (between, queued) for e in live.of_type(stage.daemon, run, "run.state")]

    assert [result["final_message"] for result in results] == [f"a key of {len(KEY)}"] * 2
    assert "credentials" not in {event["reason"] for event in states}
    assert not [path for path in open_files if "coachman-lent" in path]
    assert not [text for text in told if KEY.encode() in text]
    assert list(stage.holding()) == []


def test_a_queued_run_waits_without_a_place(stage: Stage) -> None:
    """Others go first meanwhile; lent again it queues, and begins for the first time."""
    first = stage.start("acp", "lingers", timeouts={"wall_s": 600})
    run = stage.start("acp", "nothing")
    stage.daemon.restart()
    attention(stage, run)
    with stage.daemon.client() as client:
        client.run.cancel([first])
        stage.result(first)
        between = client.run.start("say hi", dir=str(stage.repo), agent="demo")["run"]
        assert stage.result(between)["outcome"] == "succeeded"
        lent = client.run.lend(run, {"HOSTILE_KEY": KEY})
    result = stage.result(run)
    states = [(e["to"], e["reason"]) for e in live.of_type(stage.daemon, run, "run.state")]

    assert lent["names"] == ["HOSTILE_KEY"]
    assert states[:3] == [
        ("waiting", "credentials"), ("queued", "credentials"), ("preparing", None),
    ]  # fmt: skip
    assert (result["outcome"], result["attempts"]) == ("empty", 1)


def test_nobody_is_waited_for_without_end(stage: Stage) -> None:
    """After the time that a question may take the run fails, and says what it lacked."""
    run = limited(stage, 1, timeouts={"permission_s": 2})
    stage.daemon.restart()
    result = stage.result(run)
    [expired] = live.of_type(stage.daemon, run, "deadline.expired")

    assert (result["outcome"], result["stop_reason"]) == ("failed", "start_failed")
    assert "nobody lent HOSTILE_KEY again in time" in result["error"]["message"]
    assert expired["which"] == "credentials"
    assert stage.daemon.keepers() == []
    at.check_journal(stage.daemon.events(run))


def test_the_next_restart_asks_for_it_until_the_same_moment(stage: Stage) -> None:
    """It is one wait; and a cancel ends it."""
    run = limited(stage, 300)
    stage.daemon.restart()
    before = attention(stage, run)["attention"]["deadline"]
    stage.daemon.restart()
    after = attention(stage, run)["attention"]["deadline"]
    with stage.daemon.client() as client:
        client.run.cancel([run])

    assert after == before
    assert stage.result(run)["outcome"] == "cancelled"
    reasons = [e["reason"] for e in live.of_type(stage.daemon, run, "run.state")]
    assert reasons.count("credentials") == 1
