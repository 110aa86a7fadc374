"""An agent that writes too much: the run ends, says why, and what was stored has no hole."""

from collections.abc import Callable
from pathlib import Path

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess

LIMIT = 1 << 20
FLOOD = {"agent": "command", "argv": ["sh", "-c", "yes 0123456789abcdef; sleep 300"]}


def stored(daemon: DaemonProcess, run: str) -> int:
    """The bytes of both streams on disk."""
    files = at.attempt(daemon, run).glob("std[oe]*.*")
    return sum(path.stat().st_size for path in files if path.name.startswith(("stdout", "stderr")))


def test_a_flood_ends_the_run_that_it_comes_from(daemon: DaemonProcess, repo: Path) -> None:
    """The agent is ended at its limit, and everything that it wrote before is kept."""
    run = at.start(daemon, repo, "x", output_limit=LIMIT, **FLOOD)
    result = at.result(daemon, run)
    raw = b"".join(p.read_bytes() for p in sorted(at.attempt(daemon, run).glob("stdout.*")))

    assert (result["outcome"], result["stop_reason"]) == ("failed", "output_limit")
    assert "output limit" in result["error"]["message"]
    assert LIMIT <= stored(daemon, run) < LIMIT + 128 * 1024
    assert set(raw.splitlines()[:-1]) == {b"0123456789abcdef"}
    at.check_journal(daemon.events(run))


def test_a_flood_ends_without_a_daemon_as_well(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The keeper knows the limit: nobody has to live for the disk to be safe."""
    argv = ["sh", "-c", "echo ready; sleep 1; yes 0123456789abcdef"]
    run = at.start(daemon, repo, "x", agent="command", argv=argv, output_limit=LIMIT)
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    daemon.kill()
    eventually((at.attempt(daemon, run) / "exit.json").exists)
    written = stored(daemon, run)
    daemon.start()
    result = at.result(daemon, run)

    assert LIMIT <= written < LIMIT + 128 * 1024
    assert (result["outcome"], result["stop_reason"]) == ("failed", "output_limit")


def test_the_limit_comes_from_the_command_line_or_the_configuration(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A size is read as one; a limit of nothing is refused."""
    argv = ["run", "-a", "command", "--output-limit", "512KiB", "--", "yes"]
    done = daemon.cli(*argv, cwd=repo)
    refused = live.refused(_start_without, daemon, repo)
    daemon.stop()
    config = daemon.root / "config.toml"
    config.write_text('[storage]\noutput_limit = "256KiB"\n')
    daemon.env["COACHMAN_CONFIG"] = str(config)
    daemon.start()
    run = at.start(daemon, repo, "x", **FLOOD)
    result = at.result(daemon, run)

    assert "output limit" in done.stdout + done.stderr
    assert refused.name == "InvalidParams"
    assert result["stop_reason"] == "output_limit"
    assert 256 * 1024 <= stored(daemon, run) < 384 * 1024


def _start_without(daemon: DaemonProcess, repo: Path) -> None:
    with daemon.client() as client:
        client.run.start("x", dir=str(repo), output_limit=0, **FLOOD)


def test_a_turn_within_the_limit_knows_nothing_of_it(daemon: DaemonProcess, repo: Path) -> None:
    """What a run says in all its turns counts; less than the limit changes nothing."""
    run = live.keep(daemon, repo, "chunks 100", output_limit=LIMIT)
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert result["outcome"] == "succeeded"
