"""The Python document's examples do what it says of them, exactly as they stand there."""

import re
from pathlib import Path
from typing import Any

import pytest

import sourcetree
from daemon_process import DaemonProcess

TEXT = (sourcetree.ROOT / "docs/python-client.md").read_text()
LIMIT_S = 180


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    """The functions of all examples."""
    found: dict[str, Any] = {"__name__": "examples"}
    for source in re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S):
        exec(source, found)
    return found


def test_a_run_is_started_and_followed_by_a_program(
    daemon: DaemonProcess, repo: Path, examples: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first example starts a run, prints its events and has its message in the result."""
    monkeypatch.setenv("COACHMAN_SOCKET", daemon.socket)
    result = examples["fix"](str(repo), "say done", "demo")

    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")
    assert Path(result["final_path"]).read_text() == "done"


def test_prompts_follow_each_other_and_the_last_one_counts(
    daemon: DaemonProcess, repo: Path, examples: dict[str, Any]
) -> None:
    """Each prompt of the conversation has its turn, then the run is closed."""
    with daemon.client() as client:
        prompts = ["say one", "say two", "say three"]
        result = examples["converse"](client, str(repo), "demo", prompts)

    assert (result["outcome"], result["turns"], result["final_message"]) == (
        ("succeeded", len(prompts), "three")
    )


def test_a_turn_is_ended_and_its_run_gone_on_with(
    daemon: DaemonProcess, repo: Path, examples: dict[str, Any]
) -> None:
    """What an interrupt is given is the last turn; the resumed run has a message of its own."""
    with daemon.client() as client:
        run = client.run.start("sleep 60", dir=str(repo), agent="demo", keep=True)["run"]
        said = examples["change_of_mind"](client, run, "say instead", "say later")

    assert said == ("instead", "later")


def test_waiting_for_any_tells_which_it_was(
    daemon: DaemonProcess, repo: Path, examples: dict[str, Any]
) -> None:
    """Of a run that asks and one that goes on, the one that asks is told, and answered."""
    with daemon.client() as client:
        handles = [
            client.run.start(prompt, dir=str(repo), agent="demo", permissions="ask")["handle"]
            for prompt in ("sleep 60", "ask may I\nsay done")
        ]
        needs = examples["first"](client, handles, LIMIT_S)
        examples["answer_all"](client, handles[1])
        ended = examples["first"](client, handles, LIMIT_S)

    assert needs == [f"{handles[1]} attention"]
    assert ended == [f"{handles[1]} ended"]
