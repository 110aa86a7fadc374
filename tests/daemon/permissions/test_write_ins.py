"""Words with an answer: they reach the agent, or the answer is refused and nothing is lost."""

from pathlib import Path

from agent_inside import refusal
from daemon_process import DaemonProcess


def test_words_that_nobody_would_hear_are_refused_and_the_question_stays(
    daemon: DaemonProcess, repo: Path
) -> None:
    """By the wire and by the command line alike; without the words the answer is taken."""
    with daemon.client() as client:
        run = client.run.start("ask fine?", dir=str(repo), agent="demo", permissions="ask")["run"]
        client.run.wait([run], until="attention", timeout_s=30)
        given = {"request": "p1", "run": run, "kind": "deny", "message": "mind the gap"}
        refused = refusal(client, "permission.answer", given)
        typed = daemon.cli("answer", run[-5:], "deny", "-m", "mind the gap")
        [waiting] = client.permission.list(run)["permissions"]
        client.permission.answer("p1", run=run, kind="reject_once")
        client.run.wait([run])

    assert refused.name == "InvalidParams"
    assert "takes no message, so the agent would not hear it" in refused.message
    assert typed.returncode == 64
    assert "answer without one" in typed.stderr
    assert [option["takes_message"] for option in waiting["options"]] == [False] * 3
