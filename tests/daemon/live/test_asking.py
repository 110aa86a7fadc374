"""What a run asks in words: its parent or a person answers, once, whatever happens meanwhile."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_inside import inside, outputs, parent, refusal, starts, wait_until_active
from coachman import ConnectionLostError, wire
from daemon_process import DaemonProcess

Eventually = Callable[..., object]
GRANT = {"depth": 2, "children": 4}


def asks(question: str, *options: str) -> str:
    """A line of the demo agent's that asks, and prints the exit code behind the answer."""
    return f"run coachman ask {shlex.join([question, *options])}; echo exit $?"


def asking(daemon: DaemonProcess, repo: Path, *lines: str, **options: Any) -> str:
    """A run of the user's whose agent asks, and waits by now; its id."""
    with daemon.client() as client:
        given = {"delegate": {"depth": 0, "children": 0}, "agent": "demo", **options}
        run = client.run.start("\n".join(lines), dir=str(repo), **given)["run"]
        waited = client.run.wait([run], until="attention", timeout_s=30)
    assert waited["met"] == "attention", outputs(daemon, run)
    return run


def of_type(daemon: DaemonProcess, run: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in daemon.events(run) if event["type"] == kind]


def test_a_child_asks_and_its_parent_answers_both_from_within(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Inside two sandboxes: `coachman ask` waits, the parent is told, and what it says arrives."""
    prompt = "\n".join(
        [
            starts(asks("red or blue?") + "\nsay done", "-d", "-t", "kid"),
            "run coachman wait kid --until attention; echo exit $?",
            "run coachman answer kid 'blue, of course'",
            "run coachman wait kid",
        ]
    )
    with daemon.client() as client:
        run = client.run.start(prompt, dir=str(repo), agent="demo", delegate=GRANT)["run"]
        client.run.wait([run])
        [kid] = client.run.list(parent=run)["runs"]

    met = outputs(daemon, run)[1]
    assert "red or blue?" in met
    assert met.endswith(f"exit {wire.EXIT_ATTENTION}\n")
    assert outputs(daemon, kid["run"]) == ["blue, of course\nexit 0\n"]
    [answered] = of_type(daemon, kid["run"], "question.answered")
    assert (answered["outcome"], answered["by"]["run"]) == ("answered", run)
    assert kid["outcome"] == "succeeded"


def test_a_root_run_asks_whoever_watches(daemon: DaemonProcess, repo: Path) -> None:
    """A person sees it in list, status, permissions and tail; a number is that option."""
    run = asking(daemon, repo, asks("which one?", "--option", "the left", "--option", "right"))
    handle = run[-5:]
    listed = daemon.cli("list", "--attention").stdout
    status = daemon.cli("status").stdout
    shown = daemon.cli("permissions").stdout
    with daemon.client() as client:
        attention = client.run.get(run)["attention"]
    allowed = daemon.cli("answer", handle, "allow")
    twice = daemon.cli("answer", handle, "left", "-m", "right")
    answered = daemon.cli("answer", handle, "2")
    daemon.cli("wait", handle)
    told, log = daemon.cli("tail", handle).stdout, daemon.cli("log", handle).stdout

    assert attention is not None
    assert (attention["kind"], attention["request"]) == ("question", "q1")
    assert [option["name"] for option in attention["options"]] == ["the left", "right"]
    assert handle in listed
    assert "which" in listed
    assert "1 question waits" in status
    assert "1 the left   2 right" in shown
    assert f"coachman answer {handle} TEXT" in shown
    assert (allowed.returncode, twice.returncode) == (64, 64)
    assert "there is nothing to allow or deny" in allowed.stderr
    assert "-m allow" in allowed.stderr
    assert "takes one answer" in twice.stderr
    assert (answered.returncode, answered.stdout) == (0, f"{handle}  answered\n")
    assert outputs(daemon, run) == ["right\nexit 0\n"]
    for text in (told, log):
        assert "which" in text
        assert "answered, by you (coachman)" in text
    [entry] = of_type(daemon, run, "question.answered")
    assert entry["answer"] == "right"
    assert entry["by"]["client"] == "coachman"


def test_a_word_that_allows_is_told_where_it_is_meant(daemon: DaemonProcess, repo: Path) -> None:
    """Behind -m it is the answer as it stands."""
    run = asking(daemon, repo, asks("allow or deny, which is shorter?"))
    answered = daemon.cli("answer", run[-5:], "-m", "deny")
    daemon.cli("wait", run)

    assert answered.returncode == 0, answered.stderr
    assert outputs(daemon, run) == ["deny\nexit 0\n"]


def test_a_question_that_nobody_answers_is_over_at_its_deadline(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The agent hears that nobody answered, by exit code 11 and in words; its turn goes on."""
    with daemon.client() as client:
        prompt = asks("anybody?", "--timeout", "1s") + "\nsay on my own"
        grant = {"depth": 0, "children": 0}
        run = client.run.start(prompt, dir=str(repo), agent="demo", delegate=grant)["run"]
        client.run.wait([run])
        result = client.run.result(run)

    [output] = outputs(daemon, run)
    assert "nobody answered in time" in output
    assert output.endswith(f"exit {wire.EXIT_STILL_RUNNING}\n")
    assert (result["outcome"], result["final_message"]) == ("succeeded", "on my own")
    [expired] = of_type(daemon, run, "deadline.expired")
    assert (expired["which"], expired["request"]) == ("question", "q1")
    [answered] = of_type(daemon, run, "question.answered")
    assert (answered["outcome"], answered["answer"]) == ("expired", None)


def test_a_question_outlives_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """After a SIGKILL the same question waits, the agent's command comes back to it by itself."""
    run = asking(daemon, repo, asks("still there?"))
    daemon.restart()
    with daemon.client() as client:
        waited = client.run.wait([run], until="attention", timeout_s=30)
        [asked] = client.permission.list(run)["questions"]
        client.run.answer(asked["request"], "yes", run=run)
        client.run.wait([run])

    assert waited["met"] == "attention"
    assert (asked["request"], asked["question"]) == ("q1", "still there?")
    assert outputs(daemon, run) == ["yes\nexit 0\n"]
    assert len(of_type(daemon, run, "question.asked")) == 1


def test_an_answer_that_came_while_the_asker_was_away_is_told_again(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Who asks with the same key hears the answer that was given meanwhile; nobody is asked."""
    run = parent(daemon, repo)
    key = {"question": "which?", "request_key": "k"}
    with inside(daemon, run) as away, daemon.client() as client:
        away.open().send("run.ask", key, None)
        client.run.wait([run], until="attention", timeout_s=30)
        away.close()
        client.run.answer("q1", "this")
        daemon.restart()
        wait_until_active(daemon, run)
    with inside(daemon, run) as back:
        again = back.run.ask("which?", request_key="k")
        other = refusal(back, "run.ask", {**key, "question": "what?"})

    assert (again["outcome"], again["answer"], again["request"]) == ("answered", "this", "q1")
    assert other.name == "Conflict"
    assert len(of_type(daemon, run, "question.asked")) == 1


def test_the_first_answer_wins_and_only_those_around_may_give_one(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Later ones learn who was first; a run answers neither itself nor its parent or sibling."""
    top = parent(daemon, repo)
    with inside(daemon, top) as client:
        ask = asks("mine?")
        kid = client.run.start(ask, dir=None, agent="demo", task="kid")["run"]
        other = client.run.start("sleep 600", dir=None, agent="demo", task="other")["run"]
        client.run.wait([kid], until="attention", timeout_s=30)
    wait_until_active(daemon, other)
    given = {"question": "q1", "answer": "no"}
    with inside(daemon, kid) as client:
        itself = refusal(client, "run.answer", {**given, "run": kid})
        unnamed = refusal(client, "run.answer", given)
    with inside(daemon, other) as client:
        sibling = refusal(client, "run.answer", {**given, "run": kid})
        hidden = client.permission.list()["questions"]
    with daemon.client() as client:
        nobody = refusal(client, "run.ask", {"question": "may I?"})
        nothing = refusal(client, "run.answer", {**given, "question": "q9", "run": kid})
        client.run.answer("q1", "by a person", run=kid)
    with inside(daemon, top) as client:
        late = refusal(client, "run.answer", {**given, "run": kid})

    assert (itself.name, unnamed.name) == ("Denied", "NotFound")
    assert (sibling.name, hidden) == ("NotFound", [])
    assert (nobody.name, nothing.name) == ("Denied", "NotFound")
    assert late.name == "Conflict"
    assert late.detail["answer"] == "by a person"
    assert "you settled it before you" in late.message
    assert late.hint == "the answer: by a person"


def test_a_question_is_withdrawn_with_its_turn(daemon: DaemonProcess, repo: Path) -> None:
    """An interrupt takes the question back, and attention with it; the run takes the next one."""
    run = asking(daemon, repo, asks("anything?"), keep=True)
    with daemon.client() as client:
        client.run.interrupt(run, "say instead")
        client.run.wait([run], until="turn", timeout_s=30)
        left = client.permission.list(run, pending=False)["questions"]
        attention = client.run.get(run)["attention"]
        client.run.cancel([run])

    assert [each["resolved"] and each["resolved"]["outcome"] for each in left] == ["withdrawn"]
    assert attention is None


def test_how_much_a_run_may_ask_is_bounded(daemon: DaemonProcess, repo: Path) -> None:
    """Eight questions at once, none longer than permissions wait, and none outside of a turn."""
    run = parent(daemon, repo, timeouts={"permission_s": 60})
    with inside(daemon, run) as client:
        long = refusal(client, "run.ask", {"question": "long?", "timeout_s": 61})
        connection = client.open()
        for number in range(8):
            connection.send("run.ask", {"question": f"number {number}?"}, None)
        with daemon.client() as user:
            while len(user.permission.list(run)["questions"]) < 8:
                user.run.wait([run], until="attention", timeout_s=30)
        with inside(daemon, run) as another:
            ninth = refusal(another, "run.ask", {"question": "one more?"})
            empty = refusal(another, "run.ask", {"question": " \n"})

    assert (ninth.name, ninth.detail["limit"]) == ("Busy", 8)
    assert empty.name == "InvalidParams"
    assert (long.name, long.detail["fact"]) == ("Denied", "timeout_s")


@pytest.mark.parametrize("step", ["question.asked", "question.answered"])
def test_a_crash_at_any_step_asks_once_and_loses_no_answer(
    state_dir: Path, repo: Path, step: str
) -> None:
    """The agent's command comes back to its own question, whatever was told of it before."""
    daemon = DaemonProcess(state_dir, {"COACHMAN_FAILPOINT": f"{step}:kill"}).start()
    try:
        with daemon.client() as client:
            given: dict[str, Any] = {"agent": "demo", "delegate": {"depth": 0, "children": 0}}
            run = client.run.start(asks("which?"), dir=str(repo), **given)["run"]
            if step == "question.answered":
                client.run.wait([run], until="attention", timeout_s=30)
                with pytest.raises(ConnectionLostError):
                    client.run.answer("q1", "this one", run=run)
        assert daemon.process is not None
        daemon.process.wait(30)
        del daemon.env["COACHMAN_FAILPOINT"]
        daemon.start()
        with daemon.client() as client:
            if step == "question.asked":
                client.run.wait([run], until="attention", timeout_s=30)
                client.run.answer("q1", "this one", run=run)
            client.run.wait([run], timeout_s=60)

        assert outputs(daemon, run) == ["this one\nexit 0\n"]
        assert len(of_type(daemon, run, "question.asked")) == 1
        assert len(of_type(daemon, run, "question.answered")) == 1
    finally:
        daemon.tidy()
