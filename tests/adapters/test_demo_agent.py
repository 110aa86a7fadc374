"""The demo agent as a real process, driven by the conversation."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agents_driver import Decide, Drive, Trigger, choose, is_ask, is_event, never
from agents_replay import ended, events_of, stdin_of, text_of
from agents_schema import Judge
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import (
    AgentRequest,
    Ask,
    CloseStdin,
    SessionKnown,
    TurnEnded,
    Usage,
)

DEMO = ADAPTERS["demo"]
GUEST = Path(sys.modules["coachman_adapters"].__file__ or "").parent / "guest"
ALLOW, ALWAYS, DENY = choose("allow_once"), choose("allow_always"), choose("reject_once")
END_LIMIT_S = 60.0


class Demo:
    """Runs of the demo agent in one workspace and home."""

    def __init__(self, tmp_path: Path) -> None:
        self.work, self.home = tmp_path / "work", tmp_path / "home"
        self.work.mkdir()
        self.home.mkdir()

    def drive(
        self,
        *prompts: str,
        decide: Decide | None = None,
        cancel_when: Trigger = never,
        **members: Any,
    ) -> Drive:
        request = AgentRequest(cwd=str(self.work), home=str(self.home), **members)
        argv = [
            part.replace("{python}", sys.executable).replace("/run/coachman", str(GUEST))
            for part in DEMO.plan(request).argv
        ]
        drive = Drive(
            DEMO.converse(request),
            argv,
            cwd=self.work,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
            decide=decide,
            cancel_when=cancel_when,
        )
        drive.run(prompts)
        return drive


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def session_of(drive: Drive) -> str:
    return next(a.session for a in drive.actions if isinstance(a, SessionKnown))


def statuses(drive: Drive) -> list[str]:
    events = events_of(drive.actions)
    return [e.members["status"] for e in events if e.type.startswith("tool.")]


def test_it_says_thinks_and_says_back(demo: Demo) -> None:
    """Text directives become messages and thoughts, each with an id of its own."""
    ran = demo.drive("say hello world\nthink hm\n\nwhat is this?\nsay")

    told = [(event.type, event.members) for event in events_of(ran.actions)]
    assert told == [
        ("agent.message_chunk", {"message_id": "m1-1", "text": "hello world"}),
        ("agent.thought_chunk", {"message_id": "m1-2", "text": "hm"}),
        ("agent.message_chunk", {"message_id": "m1-4", "text": "what is this?"}),
    ]
    assert ended(ran.actions) == [TurnEnded("end_turn")]


@pytest.mark.parametrize("count", [1, 5, 500])
def test_chunks_all_arrive_in_order(demo: Demo, count: int) -> None:
    """No chunk is missing, whatever their number."""
    ran = demo.drive(f"chunks {count}")

    expected = "".join(f"chunk {n} of {count}\n" for n in range(1, count + 1))
    assert text_of(ran.actions) == expected
    assert len(events_of(ran.actions)) == count


@pytest.mark.parametrize(
    ("decide", "wrote", "last"), [(ALLOW, True, "completed"), (DENY, False, "failed")]
)
def test_a_write_is_asked_first(demo: Demo, decide: Decide, wrote: bool, last: str) -> None:
    """The question carries the diff; a denied write leaves nothing and the turn goes on."""
    ran = demo.drive("write sub/notes.md one\\ntwo\nsay after", decide=decide)

    [ask] = [action for action in ran.actions if isinstance(action, Ask)]
    target = demo.work / "sub" / "notes.md"
    assert ask.tool["kind"] == "edit"
    assert ask.question == "Edit sub/notes.md?"
    diff = {"type": "diff", "path": str(target), "newText": "one\ntwo\n"}
    assert ask.tool["content"][0].items() >= diff.items()
    assert target.exists() is wrote
    assert not wrote or target.read_text() == "one\ntwo\n"
    assert statuses(ran) == ["pending", last]
    assert text_of(ran.actions) == "after"


def test_a_write_that_cannot_be_done_fails(demo: Demo) -> None:
    """An error of the file system is the tool's, not the agent's."""
    (demo.work / "file").write_text("x")

    ran = demo.drive("write file/below text", decide=ALLOW)

    assert statuses(ran)[-1] == "failed"
    assert ended(ran.actions) == [TurnEnded("end_turn")]


def test_always_is_asked_once_per_kind(demo: Demo) -> None:
    """After "always" the same kind of tool is not asked again in the session."""
    ran = demo.drive("write a 1\nwrite b 2\nrun true", decide=ALWAYS)

    assert len([action for action in ran.actions if isinstance(action, Ask)]) == 2
    assert (demo.work / "b").read_text() == "2\n"


@pytest.mark.parametrize(
    ("decide", "said"), [(ALLOW, "sure?: allow_once"), (DENY, "sure?: reject_once")]
)
def test_ask_says_what_was_decided(demo: Demo, decide: Decide, said: str) -> None:
    """A harmless question reports its answer."""
    assert text_of(demo.drive("ask sure?", decide=decide).actions) == said


def test_run_reports_output_and_exit_code(demo: Demo) -> None:
    """A command runs in the workspace; its exit code decides the tool's status."""
    ran = demo.drive("run pwd; echo oops >&2; exit 3", decide=ALLOW)

    last = events_of(ran.actions, "tool.call_update")[-1].members
    assert last["status"] == "failed"
    assert last["output"] == {"output": f"{demo.work}\noops\n", "exit_code": 3}
    assert statuses(ran) == ["pending", "in_progress", "failed"]


def test_usage_is_reported_for_the_turn(demo: Demo) -> None:
    """Token counts add up within a turn and over turns; the cost is the session's."""
    ran = demo.drive("usage 100 20\nusage 1 2", "usage 10 0", keep=True)

    usages = [action for action in ran.actions if isinstance(action, Usage)]
    assert [usage.counters["total"] for usage in usages if usage.counters][-1] == 133
    assert usages[-1].counters["input"] == 111
    assert usages[-1].cost_usd == pytest.approx(0.000133)


@pytest.mark.parametrize(
    ("prompt", "over"),
    [
        ("refuse", TurnEnded("refusal")),
        ("fail overloaded", TurnEnded("error", {"code": -32603, "message": "overloaded"})),
        (
            "sleep soon",
            TurnEnded("error", {"code": -32602, "message": "not a number: 'soon'"}),
        ),
    ],
)
def test_turns_end_as_told(demo: Demo, prompt: str, over: TurnEnded) -> None:
    """Refusals and failures end the turn before the next line."""
    ran = demo.drive(f"{prompt}\nsay never")

    assert ended(ran.actions) == [over]
    assert text_of(ran.actions) == ""


@pytest.mark.parametrize(
    ("prompt", "trigger"),
    [
        ("say a\nsleep 50", is_event("agent.message_chunk")),
        ("chunks 1000000", is_event("agent.message_chunk", text="chunk 3 of 1000000\n")),
        ("ask something", is_ask),
        ("run echo $$ > pid; exec sleep 50", is_event("tool.call_update", status="in_progress")),
    ],
    ids=["sleep", "chunks", "question", "command"],
)
def test_a_cancel_is_heard_at_any_time(demo: Demo, prompt: str, trigger: Trigger) -> None:
    """A sleep, a stream, a question and a command all stop at once, confirmed as cancelled."""
    began = time.monotonic()

    decide = None if trigger is is_ask else ALLOW
    ran = demo.drive(f"{prompt}\nsay never", decide=decide, cancel_when=trigger)

    assert ended(ran.actions) == [TurnEnded("cancelled")]
    assert "never" not in text_of(ran.actions)
    assert time.monotonic() - began < 55
    if (demo.work / "pid").exists() and (pid := (demo.work / "pid").read_text().strip()):
        assert not Path("/proc", pid).exists()


def test_closing_stdin_ends_it_with_its_command(demo: Demo) -> None:
    """Without a client the agent leaves, and takes what it started along."""
    request = AgentRequest(cwd=str(demo.work), home=str(demo.home))
    conversation = DEMO.converse(request)
    drive = Drive(
        conversation,
        [sys.executable, "-I", "-S", str(GUEST / "demo_agent.py")],
        cwd=demo.work,
        env={"HOME": str(demo.home), "PATH": os.environ["PATH"]},
        decide=ALLOW,
    )
    started = is_event("tool.call_update", status="in_progress")
    told = conversation.receive

    def receive(data: bytes) -> list[Any]:
        actions = told(data)
        return actions + [CloseStdin() for action in actions if started(action)]

    conversation.receive = receive  # type: ignore[method-assign]
    drive.run(["run sleep 50"])

    [over] = ended(drive.actions)
    assert over.error["message"] == "the agent exited with status 0 before its turn was over"


def test_a_session_is_resumed_from_its_home(demo: Demo) -> None:
    """Another process takes the session up: turns go on counting, under the same id."""
    first = demo.drive("say one")
    second = demo.drive("say two", session=session_of(first))

    assert session_of(second) == session_of(first)
    assert events_of(second.actions)[0].members == {"message_id": "m2-1", "text": "two"}


def test_it_recalls_what_it_was_asked_before(demo: Demo) -> None:
    """In the same process and in the next one: that is how a resumed session is told apart."""
    first = demo.drive("say one", "recall", keep=True)
    second = demo.drive("recall", session=session_of(first))

    assert text_of(first.actions) == "onesay one"
    assert text_of(second.actions) == "say one\nrecall"


def test_a_mislaid_session_is_another_one(demo: Demo) -> None:
    """The wrong session is named, and the turn is an error that names both."""
    first = demo.drive("mislay")
    second = demo.drive("say two", session=session_of(first))
    [over] = ended(second.actions)

    assert session_of(second) != session_of(first)
    assert (over.stop_reason, over.error["code"]) == ("error", "other_session")
    assert text_of(second.actions) == ""


def test_a_deaf_turn_hears_no_cancel(demo: Demo) -> None:
    """It goes on to its end; the next turn hears again."""
    ran = demo.drive(
        "deaf\nsay in\nsleep 0.1\nsay through",
        cancel_when=is_event("agent.message_chunk", text="in"),
    )

    assert text_of(ran.actions) == "inthrough"


def test_it_ends_within_a_turn_or_after_it(demo: Demo) -> None:
    """Told to exit, its turn has no end of its own; told to leave, it has."""
    within = demo.drive("exit 3\nsay no")
    after = demo.drive("leave 0.1\nsay yes", keep=True)

    assert ended(within.actions)[0].error["data"]["exit_code"] == 3
    assert ended(after.actions) == [TurnEnded("end_turn")]
    assert text_of(after.actions) == "yes"


@pytest.mark.parametrize("session", ["demo-0000", "../../etc/passwd", ""])
def test_an_unknown_session_is_an_error(demo: Demo, session: str) -> None:
    """A session that is not there is never replaced by a fresh one."""
    [over] = ended(demo.drive("say one", session=session or "x").actions)

    assert over.stop_reason == "error"
    assert over.error["code"] == -32002


def test_model_and_effort_are_taken_or_refused(demo: Demo) -> None:
    """The options it offers can be set; others are refused by name."""
    good = demo.drive("say ok", model="echo-large", effort="high")
    bad = demo.drive("say no", model="gpt")

    assert text_of(good.actions) == "ok"
    assert ended(bad.actions)[0].error["message"] == "cannot set model to 'gpt': no such model: gpt"


def test_it_starts_with_little() -> None:
    """It loads none of the modules that would make its start slow."""
    code = f"import sys; sys.path.insert(0, {str(GUEST)!r}); import demo_agent; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )

    loaded = set(done.stdout.split())
    assert not loaded & {"typing", "subprocess", "threading", "asyncio", "argparse", "logging"}


def test_its_frames_keep_the_schema(demo: Demo) -> None:
    """Everything the demo agent writes validates, as does what it is sent."""
    ran = demo.drive(
        "say hi\nthink hm\nwrite a b\nask x\nrun echo hi\nusage 1 2",
        decide=ALLOW,
        effort="medium",
    )

    judge = Judge()
    ours = stdin_of(ran.actions).splitlines()
    for line in [line for line in ours if b'"method"' in line]:
        judge.check("client", line)
    for line in "".join(step.get("stdout", "") for step in ran.steps).splitlines():
        judge.check("agent", line)
    assert len(judge.judged) > 20
    assert "session/request_permission Request" in judge.judged


def test_it_answers_a_second_prompt_with_an_error_and_replays_its_past(demo: Demo) -> None:
    """Two prompts at once are refused; a loaded session repeats what was said."""
    session = session_of(demo.drive("say one"))
    lines = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {
            "id": 2,
            "method": "session/load",
            "params": {"sessionId": session, "cwd": str(demo.work), "mcpServers": []},
        },
        *(
            {
                "id": number,
                "method": "session/prompt",
                "params": {"sessionId": session, "prompt": [{"type": "text", "text": "sleep 0.2"}]},
            }
            for number in (3, 4)
        ),
    ]
    frames = raw(demo, lines, until=3)

    replayed = [f["params"]["update"] for f in frames if f.get("method") == "session/update"]
    assert [(u["sessionUpdate"], u["content"]["text"]) for u in replayed] == [
        ("user_message_chunk", "say one"),
        ("agent_message_chunk", "one"),
    ]
    assert {f["id"]: f.get("error", {}).get("code") for f in frames if "id" in f} == {
        1: None,
        2: None,
        3: None,
        4: -32600,
    }


def raw(demo: Demo, lines: list[dict[str, Any]], until: int) -> list[dict[str, Any]]:
    """The frames it writes to these requests, up to the answer to ``until``."""
    argv = [sys.executable, "-I", "-S", str(GUEST / "demo_agent.py")]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": str(demo.home)},
        cwd=demo.work,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        text = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
        process.stdin.write(text.encode())
        process.stdin.flush()
        frames = []
        while not frames or frames[-1].get("id") != until:
            frames.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(END_LIMIT_S) == 0
    return frames
