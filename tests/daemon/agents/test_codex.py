"""A real codex, in its worktree and sandbox, against the scripted model server."""

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
KEY = {"CODEX_API_KEY": SECRET}
AGENT = {"agent": "codex", "task": "t1", "env": KEY}
# OpenAI's list prices of the model, in dollars for a million tokens.
PRICES = {"input": 5.0, "cached_input": 0.5, "output": 30.0}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model on loopback."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def codex(state_dir: Path, agents_dir: Path, model: ModelServer) -> Iterator[DaemonProcess]:
    """A daemon whose user has codex installed, its API on loopback, and a key."""
    process = DaemonProcess(state_dir, KEY)
    process.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{process.env['PATH']}"
    config = process.home / ".codex" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'model = "gpt-5.5"\nopenai_base_url = "{model.base_url}"\n')
    process.start()
    yield process
    process.tidy()


def counted(model: ModelServer, since: int = 0) -> dict[str, int]:
    """What the model reported, as a run's usage tells it."""
    past, model.requests = model.requests, model.requests[since:]
    totals = model.totals()
    model.requests = past
    return {**totals, "reasoning": 0, "total": sum(totals.values())}


def costs(usage: dict[str, int]) -> Any:
    """Dollars for ``usage``, as far as floats are exact."""
    return pytest.approx(sum(usage[name] * price for name, price in PRICES.items()) / 1e6)


def test_a_bounded_run_writes_a_file_and_its_usage_is_the_models(
    codex: DaemonProcess, repo: Path, model: ModelServer
) -> None:
    """The native binary runs; the file is in the diff, tokens and cost are the model's."""
    run = at.start(codex, repo, "WRITE made.txt by the agent\nRUN ls\nSAY finished", **AGENT)
    result = at.result(codex, run)
    shown = codex.cli("diff", "t1", cwd=repo)

    assert "+by the agent" in shown.stdout
    assert (result["outcome"], result["final_message"]) == ("succeeded", "finished")
    assert result["executable"]["path"].endswith("/bin/codex")
    assert "-linux-musl" in result["executable"]["path"]
    assert result["usage"] == counted(model)
    assert result["cost"]["usd"] == costs(result["usage"])
    assert git(repo, "status", "--porcelain") == ""


def test_a_thread_goes_on_in_codexs_other_form(
    codex: DaemonProcess, repo: Path, model: ModelServer
) -> None:
    """What exec began the app server takes up, and back: each run has its own tokens and cost."""
    at.result(codex, at.start(codex, repo, "SAY one", **AGENT))
    for keep, prompt in ((["--keep"], "SAY two"), ([], "SAY three")):
        before = len(model.requests)
        resumed = codex.cli("resume", "t1", *keep, prompt, cwd=repo)
        codex.cli("close", "t1", cwd=repo)
        codex.cli("wait", "t1", cwd=repo)
        result = json.loads(codex.cli("result", "t1", "--json", cwd=repo).stdout)

        assert resumed.returncode == 0, resumed.stderr
        assert (result["outcome"], result["final_message"]) == ("succeeded", prompt[4:])
        assert result["usage"] == counted(model, before)
        assert result["cost"]["usd"] == costs(result["usage"])
        # The past is in the request: there is one message more for each turn that was.
        assert model.requests[-1]["messages"] > model.requests[before - 1]["messages"]


def test_a_cancelled_run_leaves_no_process(
    codex: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """exec has no form for it: it is signalled at once, and its tool goes with it."""
    seconds = new_sleep()
    run = at.start(codex, repo, f"RUN sleep {seconds} & sleep {seconds}; wait", **AGENT)
    eventually(lambda: sleeping(seconds), 180)
    codex.cli("cancel", "t1", cwd=repo)
    result = at.result(codex, run)

    # codex would have gone on after ten seconds, and have said that it was done.
    assert (result["outcome"], result["final_message"]) == ("cancelled", "")
    assert sleeping(seconds) == []


def test_what_is_always_allowed_is_asked_once(codex: DaemonProcess, repo: Path) -> None:
    """A command is asked by its own words; allowed for good, the same one runs without."""
    run = at.start(codex, repo, "RUN touch a\nRUN touch a\nSAY well", permissions="ask", **AGENT)
    at.until_asked(codex, run)
    listed = codex.cli("permissions", cwd=repo)
    answered = codex.cli("answer", "t1", "always", cwd=repo)
    result = at.result(codex, run)

    assert "Run touch a?" in listed.stdout
    assert answered.returncode == 0, answered.stderr
    assert (result["outcome"], result["final_message"]) == ("succeeded", "well")
    assert result["permissions_decided"] == {"allowed": 1, "denied": 0}


@pytest.mark.parametrize("permissions", ["allow", "ask"])
def test_no_evidence_holds_the_key(codex: DaemonProcess, repo: Path, permissions: str) -> None:
    """The agent says its key aloud; journal, raw logs, result and daemon log hold none of it."""
    prompt = f"SAY {SECRET}" if permissions == "ask" else f"RUN env\nSAY {SECRET}"
    run = at.start(codex, repo, prompt, permissions=permissions, **AGENT)
    result = at.result(codex, run)
    evidence = Path(result["evidence_dir"])
    files = [path for path in evidence.rglob("*") if path.is_file()]

    assert result["outcome"] == "succeeded"
    # The prompt is the caller's own text, kept as it was given.
    holding = [p for p in files if SECRET.encode() in p.read_bytes() and p.parent.name != "prompts"]
    assert [str(path.relative_to(evidence)) for path in holding] == []
    assert SECRET not in codex.log


@pytest.mark.parametrize(
    ("prompt", "reason", "words"),
    [
        ("FAIL 400", "error", "scripted failure 400"),
        ("LIMIT", "limited", "429 Too Many Requests"),
        ("LIMIT 600", "limited", "try again at"),
        ("STOP max_output_tokens part", "max_tokens", ""),
    ],
)
def test_a_turn_that_went_wrong_is_no_success(
    codex: DaemonProcess, repo: Path, prompt: str, reason: str, words: str
) -> None:
    """The run ends as the model's answer did, in codex's own words."""
    result = at.result(codex, at.start(codex, repo, prompt, on_limit="fail", **AGENT))

    assert (result["outcome"] == "succeeded", result["stop_reason"]) == (False, reason)
    assert words in (result["error"] or {}).get("message", "")
