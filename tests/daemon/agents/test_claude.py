"""A real Claude Code, in its worktree and sandbox, against the scripted model server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from agents_model import ModelServer
from daemon_process import DaemonProcess, git
from sleepers import new_sleep, sleeping

pytestmark = pytest.mark.real_agent

SECRET = "sk-canary-0123456789abcdef"
AGENT = {"agent": "claude", "task": "t1"}
# Anthropic's list prices of the model, in dollars for a million tokens.
PRICES = {"input": 3.0, "cached_input": 0.3, "output": 15.0}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model on loopback."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def claude(state_dir: Path, agents_dir: Path, model: ModelServer) -> Iterator[DaemonProcess]:
    """A daemon whose user has Claude Code installed, its API on loopback, and a key."""
    env = {
        "ANTHROPIC_API_KEY": SECRET,
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        # The daemon takes none of this name from its own environment, the command line does.
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }
    process = DaemonProcess(state_dir, env)
    process.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{process.env['PATH']}"
    process.start()
    yield process
    process.tidy()


def costs(tokens: dict[str, int]) -> Any:
    """Dollars for ``tokens``, as far as floats are exact."""
    return pytest.approx(sum(PRICES[name] * count for name, count in tokens.items()) / 1e6)


def test_a_run_writes_a_file_and_its_usage_is_the_models(
    claude: DaemonProcess, repo: Path, model: ModelServer
) -> None:
    """The file is in the diff, every use of a tool on record, tokens and cost are the model's."""
    run = at.start(claude, repo, "WRITE made.txt by the agent\nRUN ls\nSAY finished", **AGENT)
    result = at.result(claude, run)
    shown = claude.cli("diff", "t1", cwd=repo)

    assert "+by the agent" in shown.stdout
    assert (result["outcome"], result["final_message"]) == ("succeeded", "finished")
    assert result["permissions_decided"] == {"allowed": 2, "denied": 0}
    totals = model.totals()
    assert result["usage"] == {**totals, "reasoning": 0, "total": sum(totals.values())}
    assert result["cost"]["usd"] == costs(totals)
    assert result["agent_version"] == result["executable"]["version"]
    assert git(repo, "status", "--porcelain") == ""


def test_what_is_always_allowed_is_asked_once(claude: DaemonProcess, repo: Path) -> None:
    """Its question is answered from elsewhere for the whole session: no other edit is asked."""
    run = at.start(claude, repo, "WRITE one.txt 1\nWRITE two.txt 2", permissions="ask", **AGENT)
    at.until_asked(claude, run)
    listed = claude.cli("permissions", cwd=repo)
    answered = claude.cli("answer", "t1", "always", cwd=repo)
    result = at.result(claude, run)

    assert "Edit /workspace/one.txt?" in listed.stdout
    assert answered.returncode == 0, answered.stderr
    assert {file["path"] for file in result["changed_files"]} == {"one.txt", "two.txt"}
    assert result["permissions_decided"] == {"allowed": 1, "denied": 0}


def test_a_denial_reaches_the_model_with_its_reason(claude: DaemonProcess, repo: Path) -> None:
    """What the person says with the denial is what the tool failed with; the turn goes on."""
    run = at.start(claude, repo, "WRITE one.txt 1\nSAY then not", permissions="ask", **AGENT)
    at.until_asked(claude, run)
    claude.cli("answer", "t1", "deny", "--message", "leave it alone", cwd=repo)
    result = at.result(claude, run)

    outputs = [e.get("output") for e in claude.events(run) if e["type"] == "tool.call_update"]
    assert "leave it alone" in outputs
    assert (result["final_message"], result["changed_files"]) == ("then not", [])


def test_a_cancelled_tool_leaves_no_process(
    claude: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Cancelled in the middle of a command, the run tells its usage and nothing of it lives on."""
    seconds = new_sleep()
    run = at.start(claude, repo, f"RUN sleep {seconds} & wait", **AGENT)
    eventually(lambda: sleeping(seconds), 180)
    claude.cli("cancel", "t1", cwd=repo)
    result = at.result(claude, run)

    assert (result["outcome"], result["exit"]["signal"]) == ("cancelled", None)
    assert result["usage"]["input"] == 910
    assert sleeping(seconds) == []


def test_three_turns_over_a_resume_cost_what_they_cost(
    claude: DaemonProcess, repo: Path, model: ModelServer
) -> None:
    """Each run's tokens and cost are its own, though the CLI counts the cost of the session."""
    run = at.start(claude, repo, "SAY one", keep=True, **AGENT)
    claude.cli("prompt", "t1", "--wait", "SAY two", cwd=repo)
    claude.cli("close", "t1", cwd=repo)
    first, told = at.result(claude, run), model.totals()
    model.requests.clear()
    resumed = claude.cli("resume", "t1", "SAY three", cwd=repo)
    claude.cli("close", "t1", cwd=repo)
    claude.cli("wait", "t1", cwd=repo)
    second = json.loads(claude.cli("result", "t1", "--json", cwd=repo).stdout)

    assert resumed.returncode == 0, resumed.stderr
    assert [first["final_message"], second["final_message"]] == ["two", "three"]
    assert (first["turns"], first["session"]) == (2, second["session"])
    # The first two turns are in the third's request.
    assert model.requests[0]["messages"] == 5
    for result, totals in ((first, told), (second, model.totals())):
        assert result["usage"].items() >= totals.items()
        assert result["cost"]["usd"] == costs(totals)


def test_an_interrupted_turn_is_followed_by_another(claude: DaemonProcess, repo: Path) -> None:
    """The model is cut off, and the same process takes the next prompt."""
    run = at.start(claude, repo, "SLOW 60 one two three", keep=True, **AGENT)
    at.until_event(claude, run, lambda event: event.get("text") == "one ")
    claude.cli("interrupt", "t1", "SAY instead", cwd=repo)
    claude.cli("close", "t1", cwd=repo)
    result = at.result(claude, run)

    ends = [e["stop_reason"] for e in claude.events(run) if e["type"] == "turn.ended"]
    assert ends == ["cancelled", "end_turn"]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "instead")
    assert result["attempts"] == 1


@pytest.mark.parametrize(
    ("prompt", "reason", "words"),
    [
        ("FAIL 400", "error", "scripted failure 400"),
        ("LIMIT", "limited", "Request rejected (429)"),
        ("STOP refusal no\nSTOP refusal no", "refusal", "refused"),
    ],
)
def test_a_turn_that_went_wrong_is_no_success(
    claude: DaemonProcess, repo: Path, prompt: str, reason: str, words: str
) -> None:
    """The CLI calls these ends "success"; the run says what became of it."""
    ran = claude.cli("run", "-a", "claude", "--on-limit", "fail", "-t", "t1", prompt, cwd=repo)
    result = json.loads(claude.cli("result", "t1", "--json", cwd=repo).stdout)

    assert ran.returncode != 0
    assert result["outcome"] in ("failed", "refused", "limited")
    assert result["stop_reason"] == reason
    assert words in result["error"]["message"]


def test_no_evidence_holds_the_key(claude: DaemonProcess, repo: Path) -> None:
    """The agent says its key aloud; journal, raw logs, result and daemon log hold none of it."""
    run = at.start(claude, repo, f"SAY {SECRET}\nRUN env", **AGENT)
    evidence = Path(at.result(claude, run)["evidence_dir"])
    files = [path for path in evidence.rglob("*") if path.is_file()]

    # The prompt is the caller's own text, kept as it was given.
    holding = [p for p in files if SECRET.encode() in p.read_bytes() and p.parent.name != "prompts"]
    assert [str(path.relative_to(evidence)) for path in holding] == []
    assert SECRET not in claude.log


def test_a_killed_daemon_finds_claude_again_in_the_middle_of_a_tool(
    claude: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """SIGKILL while a command runs: the next daemon takes the dialogue up, the run ends well."""
    run = at.start(
        claude, repo, "RUN while ! test -e /output/go; do sleep 0.1; done\nSAY on", **AGENT
    )
    at.until_event(claude, run, lambda event: event.get("status") == "in_progress")
    with claude.client() as client:
        evidence = Path(client.run.get(run)["evidence_dir"])
    claude.restart()
    eventually(lambda: _go(evidence), 180)
    result = at.result(claude, run)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "on")
    at.check_journal(claude.events(run))


def _go(evidence: Path) -> bool:
    """Let the command go on, by a file where the sandbox has /output."""
    (evidence / "output" / "go").touch()
    return True
