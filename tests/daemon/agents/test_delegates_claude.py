"""A real Claude Code whose shell starts runs of its own, against the scripted model server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents_model import ModelServer
from daemon_process import DaemonProcess

pytestmark = pytest.mark.real_agent


@pytest.fixture
def claude(state_dir: Path, agents_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon whose user has Claude Code installed and its API on loopback."""
    with ModelServer() as model:
        env = {
            "ANTHROPIC_API_KEY": "sk-canary-0123456789abcdef",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
            "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        }
        process = DaemonProcess(state_dir, env)
        process.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{process.env['PATH']}"
        process.start()
        yield process
        process.tidy()


def test_a_real_agent_starts_two_children_and_applies_their_work(
    claude: DaemonProcess, repo: Path
) -> None:
    """Its shell tool runs `coachman run` for one of its own kind and for the demo agent."""
    prompt = "\n".join(
        [
            "RUN coachman run -t same 'WRITE same.txt by a child'",
            "RUN coachman run -a demo -t other 'write other.txt by another'",
            "RUN for child in same other; do coachman diff $child | git apply; done",
            "RUN coachman permissions; coachman daemon stop",
            "SAY finished",
        ]
    )
    with claude.client() as client:
        grant = {"depth": 1, "children": 2}
        run = client.run.start(prompt, dir=str(repo), agent="claude", delegate=grant)["run"]
        client.run.wait([run], timeout_s=120)
        result = client.run.result(run)
        rows = client.run.list(ancestor=run)["runs"]
    shown = claude.cli("tree", run)

    assert result["outcome"] == "succeeded"
    assert {row["task"]: (row["agent"], row["outcome"]) for row in rows} == {
        "same": ("claude", "succeeded"),
        "other": ("demo", "succeeded"),
    }
    assert [change["path"] for change in result["changed_files"]] == ["other.txt", "same.txt"]
    assert "3 runs, 0 living" in shown.stdout
    assert [line[:3] for line in shown.stdout.splitlines()[1:3]] == ["├─ ", "└─ "]


def test_a_real_agent_asks_in_words_and_hears_the_answer(claude: DaemonProcess, repo: Path) -> None:
    """Its shell tool waits in `coachman ask`, and its model is told what somebody answered."""
    prompt = "RUN coachman ask 'which one?' --option left\nSAY finished"
    with claude.client() as client:
        grant = {"depth": 0, "children": 0}
        run = client.run.start(prompt, dir=str(repo), agent="claude", delegate=grant)["run"]
        waited = client.run.wait([run], until="attention", timeout_s=120)
        answered = claude.cli("answer", run[-5:], "the third")
        client.run.wait([run], timeout_s=120)
        result = client.run.result(run)
    told = [event for event in claude.events(run) if event["type"] == "tool.call_update"]

    assert waited["met"] == "attention"
    assert answered.returncode == 0
    assert result["outcome"] == "succeeded"
    assert "the third" in json.dumps(told[-1])
