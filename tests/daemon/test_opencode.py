"""A real opencode, in its worktree and sandbox, against the scripted model server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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


def test_opencode_writes_a_file_and_its_usage_is_the_models(
    opencode: DaemonProcess, repo: Path, model: ModelServer
) -> None:
    """The run succeeds with the file in its diff, the model's own usage and opencode's session."""
    ran = opencode.cli(
        "run", "-a", "opencode", "-t", "t1", "WRITE made.txt by the agent\nSAY finished", cwd=repo
    )
    shown = opencode.cli("diff", "t1", cwd=repo)
    result = json.loads(opencode.cli("result", "t1", "--json", cwd=repo).stdout)

    assert ran.returncode == 0, ran.stderr
    assert "+by the agent" in shown.stdout
    assert result["outcome"] == "succeeded"
    assert result["final_message"] == "finished"
    assert result["session"].startswith("ses_")
    totals = model.totals()
    usage = {**totals, "reasoning": 0, "total": sum(totals.values())}
    assert result["usage"] == usage
    assert git(repo, "status", "--porcelain") == ""
    assert not (repo / "made.txt").exists()


@pytest.mark.parametrize(
    ("choice", "outcome", "written"), [("allow", "succeeded", True), ("deny", "blocked", False)]
)
def test_opencode_asks_and_is_answered_from_elsewhere(
    opencode: DaemonProcess,
    repo: Path,
    eventually: Callable[..., object],
    choice: str,
    outcome: str,
    written: bool,
) -> None:
    """Its question is listed; another process's answer goes through and decides what happens."""
    run = opencode.spawn(
        "run", "-a", "opencode", "-t", "t1", "--permissions", "ask", "WRITE made.txt text", cwd=repo
    )
    eventually(lambda: "made.txt" in opencode.cli("permissions", cwd=repo).stdout, 180)
    answered = opencode.cli("answer", "t1", choice, cwd=repo)
    run.communicate(timeout=180)
    result = json.loads(opencode.cli("result", "t1", "--json", cwd=repo).stdout)

    assert answered.returncode == 0, answered.stderr
    assert result["outcome"] == outcome
    assert bool(result["changed_files"]) is written


def test_an_unanswered_question_of_opencode_is_denied_at_its_deadline(
    opencode: DaemonProcess, repo: Path
) -> None:
    """Nobody answers: the deadline denies, nothing is written, the run says that it was blocked."""
    ran = opencode.cli(
        "run", "-a", "opencode", "-t", "t1", "--permissions", "ask", "--permission-timeout", "1s",
        "WRITE made.txt text", cwd=repo,
    )  # fmt: skip
    result = json.loads(opencode.cli("result", "t1", "--json", cwd=repo).stdout)

    assert ran.returncode == 5, ran.stderr
    assert result["outcome"] == "blocked"
    assert result["changed_files"] == []


def test_no_evidence_holds_the_key(opencode: DaemonProcess, repo: Path) -> None:
    """The agent says its key aloud; journal, raw logs, result and daemon log hold none of it."""
    opencode.cli("run", "-a", "opencode", "-t", "t1", f"SAY {SECRET}\nRUN env", cwd=repo)
    result = json.loads(opencode.cli("result", "t1", "--json", cwd=repo).stdout)
    evidence = Path(result["evidence_dir"])
    files = [path for path in evidence.rglob("*") if path.is_file()]

    assert result["outcome"] == "succeeded"
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


def test_the_agent_is_told_about_its_place(opencode: DaemonProcess, repo: Path) -> None:
    """The prompt that is recorded, and that the agent got, ends with where it is and until when."""
    opencode.cli("run", "-a", "opencode", "-t", "t1", "SAY hello", cwd=repo)
    result = json.loads(opencode.cli("result", "t1", "--json", cwd=repo).stdout)
    recorded = (Path(result["evidence_dir"]) / "prompts" / "1.md").read_text()

    assert recorded.startswith("SAY hello\n")
    assert "/output" in recorded
    assert "UTC" in recorded
    assert result["final_message"] == "hello"


def test_a_model_error_fails_the_run_with_the_models_words(
    opencode: DaemonProcess, repo: Path
) -> None:
    """A model that answers 400 makes the run fail, with what it said and exit code 1."""
    ran = opencode.cli("run", "-a", "opencode", "-t", "t1", "FAIL 400", cwd=repo)

    assert ran.returncode == 1
    assert "scripted failure 400" in ran.stderr


def test_a_killed_daemon_finds_opencode_again_with_its_question(
    opencode: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """SIGKILL with a question pending: the next daemon lists it, takes the answer, the run ends."""
    started = opencode.cli(
        "run", "-d", "--json", "-a", "opencode", "-t", "t1", "--permissions", "ask",
        "WRITE made.txt text", cwd=repo,
    )  # fmt: skip
    run = json.loads(started.stdout)["run"]
    eventually(lambda: "made.txt" in opencode.cli("permissions", cwd=repo).stdout, 180)
    opencode.restart()
    listed = opencode.cli("permissions", cwd=repo)
    answered = opencode.cli("answer", "t1", "allow", cwd=repo)
    waited = opencode.cli("wait", "t1", cwd=repo)

    assert "made.txt" in listed.stdout
    assert answered.returncode == 0, answered.stderr
    assert waited.returncode == 0, waited.stderr
    seqs = [event["seq"] for event in opencode.events(run)]
    assert seqs == list(range(1, len(seqs) + 1))
