"""Real agents that speak ACP, in their worktree and sandbox, against the scripted model server.

What `tests/agents/live` plays with every agent is not repeated: resumed sessions, cut off tools.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents_model import ModelServer
from agents_parts import PARTS, Part
from daemon_process import DaemonProcess

pytestmark = [pytest.mark.real_agent, pytest.mark.long]

NAMES = ("claude-agent-acp", "codex-acp", "gemini", "qwen")
SECRET = "sk-canary-0123456789abcdef"
every_agent = pytest.mark.parametrize("name", NAMES)
User = Callable[[str], tuple[DaemonProcess, Part]]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model on loopback."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def user(state_dir: Path, agents_dir: Path, model: ModelServer) -> Iterator[User]:
    """``user(name)``: a daemon whose user has that agent, set up for the model, with a key."""
    started: list[DaemonProcess] = []

    def having(name: str) -> tuple[DaemonProcess, Part]:
        part = PARTS[name]
        env = {var: SECRET if value == "dummy" else value for var, value in part.env(model).items()}
        process = DaemonProcess(state_dir, env)
        process.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{process.env['PATH']}"
        for path, text in part.files(model).items():
            (process.home / path).parent.mkdir(parents=True, exist_ok=True)
            (process.home / path).write_text(text)
        process.start()
        started.append(process)
        return process, part

    yield having
    for process in started:
        process.tidy()


def run(
    daemon: DaemonProcess, part: Part, repo: Path, prompt: str, *options: str
) -> dict[str, Any]:
    """The result of a run in the task t1."""
    chosen = ("-m", part.model) if part.model else ()
    prompt = part.prompt(prompt, "/workspace")
    daemon.cli("run", "-a", part.adapter, "-t", "t1", *chosen, *options, prompt, cwd=repo)
    return result_of(daemon, repo)


def result_of(daemon: DaemonProcess, repo: Path) -> dict[str, Any]:
    return json.loads(daemon.cli("result", "t1", "--json", cwd=repo).stdout)


@every_agent
def test_a_run_writes_a_file_and_its_usage_is_the_models(
    user: User, repo: Path, model: ModelServer, name: str
) -> None:
    """The file is in the diff, tokens are the model's, and no evidence holds the key."""
    daemon, part = user(name)
    prompt = f"WRITE made.txt by the agent\nRUN env\nSAY finished {SECRET}"
    result = run(daemon, part, repo, prompt)
    files = [path for path in Path(result["evidence_dir"]).rglob("*") if path.is_file()]
    holding = [p for p in files if SECRET.encode() in p.read_bytes() and p.parent.name != "prompts"]

    assert result["outcome"] == "succeeded", result
    assert "+by the agent" in daemon.cli("diff", "t1", cwd=repo).stdout
    assert result["final_message"].startswith("finished ")
    assert result["session"]
    assert result["usage"].items() >= model.totals().items()
    assert holding == []
    assert SECRET not in daemon.log


@pytest.mark.parametrize(
    ("name", "outcome"),
    # Two let the model go on, which has the last word then; the others end the turn.
    [
        ("claude-agent-acp", "succeeded"),
        ("codex-acp", "blocked"),
        ("gemini", "succeeded"),
        ("qwen", "blocked"),
    ],
)
def test_a_denied_edit_is_not_made(user: User, repo: Path, name: str, outcome: str) -> None:
    """Where everything is denied, the agent asks, is told no, and nothing is written."""
    daemon, part = user(name)
    result = run(daemon, part, repo, "WRITE made.txt text", "--permissions", "deny")
    events = daemon.events(result["run"])
    decided = [event["kind"] for event in events if event["type"] == "permission.resolved"]

    assert decided == ["reject_once"]
    assert result["outcome"] == outcome, result
    assert result["changed_files"] == []


def test_the_users_settings_lie_over_coachmans(user: User, repo: Path, model: ModelServer) -> None:
    """The copy of a settings file has what an agent needs, and all that its user says."""
    daemon, part = user("gemini")
    own = {"privacy": {"usageStatisticsEnabled": True}, "ui": {"theme": "none"}}
    (daemon.home / ".gemini").mkdir()
    (daemon.home / ".gemini" / "settings.json").write_text(json.dumps(own))
    result = run(daemon, part, repo, "SAY hello")
    [copy] = daemon.state.glob("agents/*/t1/*/.gemini/settings.json")
    settings = json.loads(copy.read_text())

    assert result["outcome"] == "succeeded"
    assert settings["privacy"] == {"usageStatisticsEnabled": True}
    assert settings["ui"]["theme"] == "none"
    assert settings["telemetry"] == {"enabled": False}
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"


def test_an_agent_of_the_configuration_is_listed(user: User) -> None:
    """It is shown with what was found and what it may have, like those that coachman ships."""
    daemon, _ = user("qwen")
    shown = daemon.cli("agents", "qwen")

    assert shown.returncode == 0, shown.stderr
    assert "0.24.4" in shown.stdout
    assert "OPENAI_API_KEY" in shown.stdout
