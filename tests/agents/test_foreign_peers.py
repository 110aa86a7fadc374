"""The ACP conversation and an agent of the official SDK, which checks every message it gets."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sourcetree
from agents_driver import Drive, choose, is_ask, is_event
from agents_replay import ended, events_of, text_of
from coachman_adapters import events
from coachman_adapters.acp.conversation import AcpConversation
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import AgentRequest, Ask, SessionKnown, TurnEnded
from daemon_process import DaemonProcess

AGENT = sourcetree.ROOT / "tests/support/sdk_agent.mjs"
# What the agent imports, and what that does.
NEEDED = ("@agentclientprotocol/sdk", "zod")
LIMIT_S = 180
Obey = Callable[..., Drive]


@pytest.fixture
def package(node_tools: Path, tmp_path: Path, tool: Callable[[str], str]) -> Path:
    """The agent as npm installs a package: its program."""
    assert tool("node")
    root = tmp_path / "lib/node_modules/sdk-agent"
    for name in NEEDED:
        shutil.copytree(node_tools / name, root / "node_modules" / name)
    program = root / "sdk_agent.mjs"
    shutil.copy(AGENT, program)
    program.chmod(0o755)
    (root / "package.json").write_text('{"name": "sdk-agent", "version": "1.0.0"}')
    return program


@pytest.fixture
def obey(package: Path, tmp_path: Path) -> Obey:
    """Drives the agent through one prompt a turn: ``obey(PROMPT…, decide=…)``."""
    work = tmp_path / "work"
    work.mkdir()

    def drive(*prompts: str, **options: Any) -> Drive:
        request = AgentRequest(cwd=str(work), home=str(tmp_path), keep=len(prompts) > 1)
        made = Drive(
            AcpConversation(request, Quirks()),
            [str(package)],
            cwd=work,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            **options,
        )
        made.run(prompts)
        return made

    return drive


def test_an_allowed_write_is_told_asked_and_done(obey: Obey, tmp_path: Path) -> None:
    """Thought, plan, tool call with its diff, question, answer, message and end all arrive."""
    ran = obey("write", decide=choose("allow_once"))
    [asked] = [action for action in ran.actions if isinstance(action, Ask)]
    [known] = [action for action in ran.actions if isinstance(action, SessionKnown)]
    [call] = events_of(ran.actions, events.TOOL_CALL)

    assert (tmp_path / "work/notes.md").read_text() == "hello\n"
    assert ended(ran.actions) == [TurnEnded("end_turn")]
    assert text_of(ran.actions) == "written"
    assert [option.kind for option in asked.options] == ["allow_once", "reject_once"]
    assert asked.tool["title"] == "notes.md"
    assert known.agent_version == "1.0.0"
    assert call.members["content"][0]["newText"] == "hello\n"
    assert events_of(ran.actions, events.PLAN)
    assert events_of(ran.actions, events.THOUGHT_CHUNK)
    assert events_of(ran.actions, events.UNKNOWN) == []
    assert events_of(ran.actions, events.NOISE) == []


def test_a_denied_write_is_left_alone(obey: Obey, tmp_path: Path) -> None:
    """The refusal is the option that the agent offered for it."""
    ran = obey("write", decide=choose("reject_once"))

    assert text_of(ran.actions) == "left alone"
    assert not (tmp_path / "work/notes.md").exists()


def test_a_cancel_reaches_the_agent(obey: Obey) -> None:
    """session/cancel ends a turn that would go on for ever, as cancelled."""
    ran = obey("stall", cancel_when=is_event(events.MESSAGE_CHUNK, text="waiting"))

    assert ended(ran.actions) == [TurnEnded("cancelled")]


def test_a_cancel_withdraws_an_open_question(obey: Obey, tmp_path: Path) -> None:
    """The question is answered as cancelled, and the agent says so of its turn."""
    ran = obey("write", cancel_when=is_ask)

    assert ended(ran.actions) == [TurnEnded("cancelled")]
    assert not (tmp_path / "work/notes.md").exists()


def test_what_is_not_offered_is_refused_as_the_sdk_expects(obey: Obey) -> None:
    """A request for files gets "method not found", which the agent survives."""
    ran = obey("files")

    assert text_of(ran.actions) == "refused -32601"
    assert ended(ran.actions) == [TurnEnded("end_turn")]


def test_an_error_of_the_agent_is_passed_on(obey: Obey) -> None:
    """The turn ends as an error with the agent's code, message and data."""
    [end] = ended(obey("fail").actions)

    assert end.stop_reason == "error"
    assert end.error == {"code": -32603, "message": "the model is gone", "data": {"status": 503}}


def test_two_prompts_are_two_turns_of_one_session(obey: Obey, tmp_path: Path) -> None:
    """A kept conversation prompts again once the turn is over."""
    ran = obey("files", "write", decide=choose("allow_once"))

    assert ended(ran.actions) == [TurnEnded("end_turn"), TurnEnded("end_turn")]
    assert (tmp_path / "work/notes.md").exists()


@pytest.fixture
def configured(state_dir: Path, package: Path) -> Iterator[DaemonProcess]:
    """A daemon whose configuration names the agent, which no module knows."""
    (package.parents[3] / "bin").mkdir()
    (package.parents[3] / "bin/sdk-agent").symlink_to(package)
    path = f"{package.parents[3] / 'bin'}:{os.environ['PATH']}"
    daemon = DaemonProcess(state_dir, {"PATH": path})
    config = daemon.home / ".config/coachman/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[agents.sdk]\nadapter = "acp"\ncommand = ["sdk-agent"]\n')
    yield daemon.start()
    daemon.tidy()


def test_a_run_of_the_agent_asks_and_ends_well(configured: DaemonProcess, repo: Path) -> None:
    """Three lines of configuration: sandboxed, asked by a client, its change in the diff."""
    with configured.client() as client:
        run = client.run.start("write", agent="sdk", dir=str(repo), permissions="ask")["run"]
        waited = client.run.wait([run], until="attention", timeout_s=LIMIT_S)
        [asked] = client.permission.list(run)["permissions"]
        client.permission.answer(asked["request"], run=run, kind="allow_once")
        client.run.wait([run], timeout_s=LIMIT_S)
        result = client.run.result(run)

    assert waited["met"] == "attention", waited
    assert asked["question"] == "Edit notes.md?"
    assert (result["outcome"], result["final_message"]) == ("succeeded", "written")
    assert [change["path"] for change in result["changed_files"]] == ["notes.md"]


def test_a_run_of_the_agent_outlives_the_daemon(configured: DaemonProcess, repo: Path) -> None:
    """SIGKILL with its question open: the next daemon has it answered, and the agent goes on."""
    with configured.client() as client:
        run = client.run.start("write", agent="sdk", dir=str(repo), permissions="ask")["run"]
        client.run.wait([run], until="attention", timeout_s=LIMIT_S)
    configured.restart()
    with configured.client() as client:
        [asked] = client.permission.list(run)["permissions"]
        client.permission.answer(asked["request"], run=run, kind="reject_once")
        client.run.wait([run], timeout_s=LIMIT_S)
        result = client.run.result(run)

    assert result["final_message"] == "left alone"
    assert result["changed_files"] == []
