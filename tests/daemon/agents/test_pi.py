"""A real pi, in its worktree and sandbox, against the scripted model server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents_model import ModelServer
from agents_parts import PARTS
from daemon_process import DaemonProcess

pytestmark = pytest.mark.real_agent

SECRET = "sk-canary-0123456789abcdef"
SHOUT = """export default function (pi) {
	pi.on("session_start", async (_event, ctx) => ctx.ui.notify("an extension of the user's own"));
}
"""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model on loopback."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def pi(state_dir: Path, agents_dir: Path, model: ModelServer) -> Iterator[DaemonProcess]:
    """A daemon whose user has pi with an extension, and a key that a variable holds."""
    process = DaemonProcess(state_dir, {"OPENAI_API_KEY": SECRET})
    process.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{process.env['PATH']}"
    files = PARTS["pi"].files(model)
    models = json.loads(files[".pi/agent/models.json"])
    models["providers"]["fake"]["apiKey"] = "$OPENAI_API_KEY"
    files[".pi/agent/models.json"] = json.dumps(models)
    files[".pi/agent/extensions/shout.js"] = SHOUT
    for name, text in files.items():
        path = process.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    process.start()
    yield process
    process.tidy()


def run(pi: DaemonProcess, repo: Path, prompt: str, *options: str) -> dict[str, Any]:
    """The result of a run of pi in the task t1."""
    pi.cli("run", "-a", "pi", "-t", "t1", *options, prompt, cwd=repo)
    return json.loads(pi.cli("result", "t1", "--json", cwd=repo).stdout)


def test_no_evidence_holds_the_key(pi: DaemonProcess, repo: Path) -> None:
    """pi says its key aloud; journal, raw logs, result and daemon log hold none of it."""
    result = run(pi, repo, f"SAY {SECRET}\nRUN env")
    files = [path for path in Path(result["evidence_dir"]).rglob("*") if path.is_file()]
    # The prompt is the caller's own text, kept as it was given.
    holding = [p for p in files if SECRET.encode() in p.read_bytes() and p.parent.name != "prompts"]

    assert result["outcome"] == "succeeded"
    assert [path.name for path in holding] == []
    assert SECRET not in pi.log


def test_the_users_own_extensions_are_there(pi: DaemonProcess, repo: Path) -> None:
    """A copy of what the user has set up is loaded beside ours, and what it shows is told."""
    result = run(pi, repo, "SAY hello")
    notices = [e["text"] for e in pi.events(result["run"]) if e["type"] == "agent.notice"]

    assert result["outcome"] == "succeeded"
    assert "an extension of the user's own" in notices


def test_an_effort_that_the_model_lacks_ends_the_run(pi: DaemonProcess, repo: Path) -> None:
    """pi would go on with another one; the run says which there are, and asks nothing."""
    result = run(pi, repo, "SAY never", "-e", "high")

    assert result["outcome"] == "failed"
    assert "cannot set effort to 'high': fake-model takes none" in result["error"]["message"]


def test_an_unanswered_question_of_pi_is_denied_at_its_deadline(
    pi: DaemonProcess, repo: Path
) -> None:
    """Nobody answers: the deadline denies, nothing is written, and pi is told why."""
    options = ("--permissions", "ask", "--permission-timeout", "1s")
    result = run(pi, repo, "WRITE made.txt text\nSAY went on", *options)

    assert result["changed_files"] == []
    assert result["permissions_decided"]["denied"] == 1
    assert result["final_message"] == "went on"
