"""A real opencode, in its worktree and sandbox, against the scripted model server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from agents_model import ModelServer
from daemon_process import DaemonProcess, git

pytestmark = pytest.mark.real_agent

SECRET = "sk-canary-0123456789abcdef"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model on loopback."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def opencode(state_dir: Path, opencode_bin: Path, model: ModelServer) -> Iterator[DaemonProcess]:
    """A daemon whose user has opencode installed, configured for the model, with a key."""
    process = DaemonProcess(state_dir, {"OPENAI_API_KEY": SECRET})
    process.env["PATH"] = f"{opencode_bin}:{process.env['PATH']}"
    config = process.home / ".config" / "opencode"
    config.mkdir(parents=True)
    (config / "opencode.json").write_text(json.dumps(_config(model)))
    process.start()
    yield process
    process.tidy()


def _config(model: ModelServer) -> dict[str, Any]:
    """The model as the only provider, its key from the variable that the run lends."""
    config: dict[str, Any] = model.opencode_config()
    config["provider"]["fake"]["options"]["apiKey"] = "{env:OPENAI_API_KEY}"
    return config


def test_a_run_leaves_what_it_did_and_nothing_of_the_key(
    opencode: DaemonProcess, repo: Path, model: ModelServer
) -> None:
    """The file is in the diff, usage is the model's, the prompt told of its place.

    The agent says its key aloud; journal, raw logs, result and daemon log hold none of it.
    """
    prompt = f"WRITE made.txt by the agent\nRUN env\nSAY finished {SECRET}"
    ran = opencode.cli("run", "-a", "opencode", "-t", "t1", prompt, cwd=repo)
    shown = opencode.cli("diff", "t1", cwd=repo)
    result = json.loads(opencode.cli("result", "t1", "--json", cwd=repo).stdout)
    evidence = Path(result["evidence_dir"])
    recorded = (evidence / "prompts" / "1.md").read_text()
    files = [path for path in evidence.rglob("*") if path.is_file()]

    assert ran.returncode == 0, ran.stderr
    assert "+by the agent" in shown.stdout
    assert result["outcome"] == "succeeded"
    assert result["final_message"].startswith("finished ")
    assert result["session"].startswith("ses_")
    totals = model.totals()
    usage = {**totals, "reasoning": 0, "total": sum(totals.values())}
    assert result["usage"] == usage
    assert git(repo, "status", "--porcelain") == ""
    assert not (repo / "made.txt").exists()
    assert recorded.startswith("WRITE made.txt")
    assert "/output" in recorded
    assert "UTC" in recorded
    # The prompt is the caller's own text, kept as it was given.
    holding = [p for p in files if SECRET.encode() in p.read_bytes() and p.parent.name != "prompts"]
    assert [str(path.relative_to(evidence)) for path in holding] == []
    assert SECRET not in opencode.log


def test_a_lent_key_is_masked_by_a_daemon_that_was_never_told_it(
    opencode: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The agent says a key that a caller lent while no daemon lives: it is masked all the same."""
    del opencode.env["OPENAI_API_KEY"]
    opencode.restart()
    started = opencode.cli(
        "run", "-d", "--json", "-a", "opencode", "-t", "t1", f"SLOW 2 {SECRET}",
        cwd=repo, env={"OPENAI_API_KEY": SECRET},
    )  # fmt: skip
    evidence = Path(json.loads(started.stdout)["evidence_dir"])
    eventually(lambda: "agent.message_chunk" in (evidence / "events.ndjson").read_text(), 180)
    opencode.kill()
    eventually(lambda: b"end_turn" in b"".join(_raw(evidence, "stdout.*")), 180)
    opencode.start()
    waited = opencode.cli("wait", "t1", cwd=repo)

    assert waited.returncode == 0, waited.stderr
    files = [path for path in evidence.rglob("*") if path.is_file()]
    assert [p.name for p in files if SECRET.encode() in p.read_bytes()] == []


def _raw(evidence: Path, pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in (evidence / "attempts" / "1").glob(pattern)]


def test_a_killed_daemon_finds_opencode_again_with_its_question(
    opencode: DaemonProcess, repo: Path
) -> None:
    """SIGKILL with a question pending: the next daemon lists it and takes what denies it."""
    started = opencode.cli(
        "run", "-d", "--json", "-a", "opencode", "-t", "t1", "--permissions", "ask",
        "WRITE made.txt text", cwd=repo,
    )  # fmt: skip
    run = json.loads(started.stdout)["run"]
    at.until_asked(opencode, run)
    opencode.restart()
    listed = opencode.cli("permissions", cwd=repo)
    answered = opencode.cli("answer", "t1", "deny", cwd=repo)
    waited = opencode.cli("wait", "t1", cwd=repo)
    result = at.result(opencode, run)

    assert "made.txt" in listed.stdout
    assert answered.returncode == 0, answered.stderr
    assert waited.returncode == 5, waited.stderr
    assert (result["outcome"], result["changed_files"]) == ("blocked", [])
    seqs = [event["seq"] for event in opencode.events(run)]
    assert seqs == list(range(1, len(seqs) + 1))
