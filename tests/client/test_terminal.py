"""`coachman run` on a terminal: the inline question, and Ctrl-C."""

import os
import pty
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client_daemon import RUN, FakeDaemon, FaultError, Peer, command, environment, numbered
from client_samples import AGENTS, permission, result, started

PATIENCE_S = 60.0
QUESTION = {k: permission()[k] for k in ("request", "question", "tool", "options")}
ASKED = numbered({"type": "permission.requested", **QUESTION})[0]


IN_WORDS = {
    **numbered({"type": "question.asked", "request": "q1", "question": "which?"})[0],
    "options": ["the left", "the right"],
    "deadline": 0,
}


class Terminal:
    """A client on a pseudo-terminal, read as a person would."""

    def __init__(self, state_dir: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        # The first terminal that a session's leader opens becomes its own.
        attach = ["/bin/sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(slave)]
        self.process = subprocess.Popen(
            [*attach, *command(*words)],
            cwd=state_dir,
            env=environment(state_dir, NO_COLOR="1"),
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def expect(self, text: str) -> None:
        ends = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], max(0, ends - time.monotonic()))
            assert ready, f"{text!r} did not appear in {self.seen!r}"
            try:
                data = os.read(self._master, 65536)
            except OSError:
                data = b""
            assert data, f"{text!r} did not appear in {self.seen!r}"
            self.seen += data.decode()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def leave(self) -> int:
        code = self.process.wait(PATIENCE_S)
        os.close(self._master)
        return code


class Watched:
    """The daemon of one run whose events a test sends as it goes."""

    def __init__(self, state_dir: Path) -> None:
        self.subscribed = threading.Event()
        self.answers: list[dict[str, Any]] = []
        self.answered = threading.Event()
        self.cancelled = threading.Event()
        self.refuse_answers = False
        self._peer: Peer | None = None
        self.daemon = FakeDaemon(
            state_dir / "control.sock",
            {
                "daemon.hello": {},
                "agent.list": AGENTS,
                "run.start": started("ask"),
                "event.subscribe": self._subscribe,
                "permission.answer": self._answer,
                "run.answer": self._answer,
                "run.cancel": self._cancel,
                "run.result": lambda _params, _peer: result(
                    outcome="cancelled" if self.cancelled.is_set() else "succeeded"
                ),
            },
        )

    def _subscribe(self, _params: object, peer: Peer) -> dict[str, Any]:
        self._peer = peer
        peer.after_reply.append(self.subscribed.set)
        return {"subscription": "s1", "cursor": "0"}

    def _answer(self, params: dict[str, Any], _peer: Peer) -> dict[str, Any]:
        self.answers.append(params)
        self.answered.set()
        if self.refuse_answers:
            raise FaultError("Conflict", "cannot answer p1: ann was quicker")
        return {"request": "p1", "run": RUN, "option": "once", "kind": "allow_once"}

    def _cancel(self, _params: object, _peer: Peer) -> dict[str, Any]:
        self.cancelled.set()
        return {"runs": []}

    def send(self, event: dict[str, Any]) -> None:
        assert self.subscribed.wait(PATIENCE_S)
        assert self._peer is not None
        cursor = str(event["seq"])
        self._peer.notify("event.event", subscription="s1", cursor=cursor, event=event)

    def resolve(self, seq: int, **by: Any) -> None:
        event = {"type": "permission.resolved", "request": "p1", "kind": "allow_once", "by": by}
        self.send({**ASKED, **event, "seq": seq})

    def end(self) -> None:
        assert self._peer is not None
        self._peer.notify("event.end", subscription="s1", reason="run_ended")


@pytest.fixture
def watched(state_dir: Path) -> Iterator[Watched]:
    """A scripted run."""
    run = Watched(state_dir)
    with run.daemon:
        yield run


def test_a_question_is_asked_and_answered_inline(state_dir: Path, watched: Watched) -> None:
    """The person at the terminal is asked; a wrong word lists the choices and asks again."""
    terminal = Terminal(state_dir, "run", "fix it")
    watched.send(ASKED)
    terminal.expect("? Bash: npm i left-pad")
    terminal.expect("allow, always, deny or a number [p1] ")
    terminal.type("perhaps\n")
    terminal.expect("'perhaps' is not one of its choices")
    terminal.type("1\n")
    assert watched.answered.wait(PATIENCE_S)
    watched.resolve(2, resolver="client", user="me")
    terminal.expect("= allow once, by me")
    watched.end()
    terminal.expect("k7q3x succeeded")

    assert terminal.leave() == 0
    assert watched.answers == [{"request": "p1", "run": RUN, "option": "once"}]


def test_what_would_be_done_is_shown_with_the_question(state_dir: Path, watched: Watched) -> None:
    """Who is asked on the terminal sees the change that they would allow."""
    diff = {"type": "diff", "path": "README", "oldText": "hello\n", "newText": "hello you\n"}
    terminal = Terminal(state_dir, "run", "--permissions", "ask", "go")
    watched.send({**ASKED, "tool": {"name": "write", "content": [diff]}})
    terminal.expect("+hello you")
    terminal.expect("[p1]")
    watched.resolve(2, user="ann")
    terminal.expect("by ann")
    watched.end()
    terminal.leave()

    assert "      -hello\r\n      +hello you\r\n" in terminal.seen


def test_a_question_goes_away_with_the_name_of_who_answered(
    state_dir: Path, watched: Watched
) -> None:
    """When someone else answers, the prompt is left and their name is shown."""
    terminal = Terminal(state_dir, "run", "fix it")
    watched.send(ASKED)
    terminal.expect("[p1] ")
    watched.resolve(2, resolver="client", client="coachman", pid=312)
    terminal.expect("= allow once, by coachman, pid 312")
    watched.end()
    terminal.expect("k7q3x succeeded")

    assert terminal.leave() == 0
    assert watched.answers == []


def test_an_answer_that_came_too_late_is_no_failure(state_dir: Path, watched: Watched) -> None:
    """A Conflict is shown and the watching goes on."""
    watched.refuse_answers = True
    terminal = Terminal(state_dir, "run", "fix it")
    watched.send(ASKED)
    terminal.expect("[p1] ")
    terminal.type("allow\n")
    terminal.expect("ann was quicker")
    watched.resolve(2, resolver="client", user="ann")
    terminal.expect("by ann")
    watched.end()

    assert terminal.leave() == 0


@pytest.mark.parametrize(
    ("typed", "said", "code"), [("d\n", "detached: k7q3x goes on", 11), ("\x03", "detached", 11)]
)
def test_ctrl_c_asks_and_may_detach(
    state_dir: Path, watched: Watched, typed: str, said: str, code: int
) -> None:
    """Ctrl-C on a terminal asks; leaving detaches and the run is not touched."""
    terminal = Terminal(state_dir, "run", "fix it")
    watched.send({**ASKED, "type": "agent.message_chunk", "text": "hello"})
    terminal.expect("hello")
    terminal.type("\x03")
    terminal.expect("[c]ancel the run, [d]etach")
    terminal.type(typed)
    terminal.expect(said)

    assert terminal.leave() == code
    assert not watched.cancelled.is_set()


def test_ctrl_c_may_stay_and_then_cancel(state_dir: Path, watched: Watched) -> None:
    """Enter stays with the run; c cancels it, and the exit code tells."""
    terminal = Terminal(state_dir, "run", "fix it")
    watched.send({**ASKED, "type": "agent.message_chunk", "text": "hello"})
    terminal.expect("hello")
    terminal.type("\x03")
    terminal.expect("or Enter to stay: ")
    terminal.type("\n")
    watched.send({**ASKED, "seq": 2, "type": "agent.message_chunk", "text": "again"})
    terminal.expect("again")
    terminal.seen = ""
    terminal.type("\x03")
    terminal.expect("or Enter to stay: ")
    terminal.type("c\n")
    assert watched.cancelled.wait(PATIENCE_S)
    watched.end()
    terminal.expect("k7q3x cancelled")

    assert terminal.leave() == 130


def test_what_a_run_asks_in_words_is_answered_there(state_dir: Path, watched: Watched) -> None:
    """A line is the answer, a number one that was offered; who else answers is told."""
    terminal = Terminal(state_dir, "run", "-a", "demo", "go")
    watched.send(IN_WORDS)
    terminal.expect("1 the left, 2 the right")
    terminal.expect("your answer [q1]")
    terminal.type("2\n")
    assert watched.answered.wait(PATIENCE_S)
    answered = {"type": "question.answered", "outcome": "answered", "answer": "the right"}
    watched.send({**IN_WORDS, **answered, "seq": 2, "by": {"user": "you", "pid": 7}})
    terminal.expect("= answered, by you, pid 7: the right")
    watched.end()

    assert terminal.leave() == 0
    assert watched.answers == [{"question": "q1", "answer": "the right", "run": IN_WORDS["run"]}]
