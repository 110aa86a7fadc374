"""Agents of the crash model: one that speaks ACP, and a tiny conversation of our own."""

import json
from collections import deque
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from coachman_adapters.conversation import (
    Action,
    Answer,
    Ask,
    CloseStdin,
    Ending,
    Event,
    Intent,
    Option,
    Prompt,
    SessionKnown,
    SetTimer,
    TurnEnded,
    Usage,
    Withdraw,
    Write,
)
from coachman_adapters.lines import LineDecoder
from replay_world import Tape

Frame = dict[str, Any]
SESSION = "s-1"
OPTIONS = [
    {"optionId": "once", "kind": "allow_once", "name": "Once"},
    {"optionId": "no", "kind": "reject_once", "name": "No"},
]


class AcpAgent:
    """Answers what it is told, with whatever the tape makes of a turn.

    It notices everything that would be wrong with the client's side: a request told
    twice, an answer to what was never asked, a line that is not JSON.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._heard = LineDecoder()
        self._ready: deque[bytes] = deque()
        self._script: deque[Frame | bytes] = deque()
        self._last_request = 0
        self._asked: dict[int, bool] = {}
        self._prompt: int | None = None
        self._cancelled = False

    def hear(self, stdin: bytes) -> None:
        for line in self._heard.feed(stdin):
            assert line.data is not None
            self._take(json.loads(line.data))

    def say(self) -> bytes:
        """Some bytes, also a part of a line."""
        if not self._ready:
            self._go_on()
        if not self._ready:
            return b""
        data = self._ready.popleft()
        cut = len(data) if self._tape.pick(3) == 0 else 1 + self._tape.pick(len(data))
        if cut < len(data):
            self._ready.appendleft(data[cut:])
        return data[:cut]

    def _take(self, frame: Frame) -> None:
        method = frame.get("method")
        if method == "session/cancel":
            assert not self._cancelled, "cancelled twice"
            self._cancelled = self._prompt is not None
        elif method is None:
            assert self._asked[frame["id"]] is False, f"{frame['id']} was answered twice"
            self._asked[frame["id"]] = True
        else:
            self._requested(method, frame["id"])

    def _requested(self, method: str, number: int) -> None:
        assert number == self._last_request + 1, f"request {number} after {self._last_request}"
        self._last_request = number
        results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": SESSION}}
        if method in results:
            self._put({"id": number, "result": results[method]})
        else:
            self._prompt, self._cancelled = number, False
            self._script = deque(self._step(n) for n in range(4 + self._tape.pick(12)))

    def _step(self, n: int) -> Frame | bytes:
        message = {"messageId": f"m{n // 4}", "content": {"type": "text", "text": f"é{n}𝄞"}}
        tool = {"toolCallId": f"t{n}", "title": "Write", "kind": "edit", "status": "pending"}
        match self._tape.pick(8):
            case 0 | 1:
                return _update(sessionUpdate="agent_message_chunk", **message)
            case 2:
                return _update(sessionUpdate="agent_thought_chunk", **message)
            case 3:
                return _update(sessionUpdate="tool_call", **tool)
            case 4:
                return b"this is no JSON-RPC\r\n"
            case 5:
                return {"method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}
            case _:
                params = {"sessionId": SESSION, "toolCall": tool, "options": OPTIONS}
                return {"method": "session/request_permission", "params": params}

    def _go_on(self) -> None:
        """The turn's next step; its end comes once every question is answered."""
        if self._prompt is None:
            return
        if self._script and not self._cancelled:
            step = self._script.popleft()
            if isinstance(step, dict) and step["method"] != "session/update":
                number = len(self._asked)
                self._asked[number] = False
                step = {"id": number, **step}
            self._put(step)
        elif all(self._asked.values()):
            reason = "cancelled" if self._cancelled else "end_turn"
            usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
            result = {"stopReason": reason, "usage": usage}
            self._put({"id": self._prompt, "result": result})
            self._prompt = None

    def _put(self, frame: Frame | bytes) -> None:
        if isinstance(frame, dict):
            text = json.dumps({"jsonrpc": "2.0", **frame}, ensure_ascii=False)
            frame = text.encode() + b"\n"
        self._ready.append(frame)


def _update(**update: Any) -> Frame:
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": update}}


class Babbler:
    """Says lines of random length, whatever it hears."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._left = 20

    def hear(self, stdin: bytes) -> None:
        pass

    def say(self) -> bytes:
        if not self._left:
            return b""
        self._left -= 1
        return b"abcdefgh\n"[self._tape.pick(9) :]


class Digest:
    """A conversation whose every word depends on all that it was told before, in order."""

    def __init__(self) -> None:
        self._decoder = LineDecoder()
        self._told = ""
        self._asked = 0

    def _hash(self, *told: object) -> str:
        self._told = sha256(f"{self._told} {told}".encode()).hexdigest()[:12]
        return self._told

    def _speak(self, *told: object) -> list[Action]:
        word = self._hash(*told)
        actions: list[Action] = [Event("agent.notice", {"text": word})]
        match int(word[0], 16):
            case 0 | 1 | 2:
                actions.append(Write(f"{word}\n".encode()))
            case 3 | 4:
                self._asked += 1
                options = (Option("yes", "allow_once", "Yes"),)
                actions.append(Ask(f"p{self._asked}", {}, word, options))
            case 5:
                actions += [SetTimer("tick", 1.0), Write(word.encode() * 20)]
            case 6:
                actions += [SetTimer("tick", None), Withdraw(f"p{self._asked}")]
            case 7:
                actions += [Usage({"total": int(word, 16)}), SessionKnown(word)]
            case 8:
                actions += [TurnEnded("end_turn"), Event("agent.notice", {"text": word[::-1]})]
            case 9:
                actions.append(CloseStdin())
        return actions

    def start(self) -> list[Action]:
        return self._speak("start")

    def receive(self, data: bytes) -> list[Action]:
        lines = self._decoder.feed(data)
        return [action for line in lines for action in self._speak(line.data, line.span.offset)]

    def intend(self, intent: Intent) -> list[Action]:
        match intent:
            case Prompt(turn=turn, text=text):
                return [*self._speak("prompt", turn, text), Write(text.encode())]
            case Answer(request=request, option=option):
                return self._speak("answer", request, option)
        return self._speak("cancel")

    def expire(self, timer: str) -> list[Action]:
        return self._speak("timer", timer)

    def finish(self, ending: Ending) -> list[Action]:
        return self._speak("finish", ending.exit_code, ending.stderr_tail)

    def snapshot(self) -> dict[str, Any]:
        return {"decoder": self._decoder.snapshot(), "told": self._told, "asked": self._asked}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        self._decoder.restore(snapshot["decoder"])
        self._told, self._asked = snapshot["told"], snapshot["asked"]


class Repeater(Digest):
    """Ends each turn twice, and the one before once more when it can tell them apart."""

    def intend(self, intent: Intent) -> list[Action]:
        assert isinstance(intent, Prompt)
        before = [TurnEnded("end_turn", turn=intent.turn - 1)] if intent.turn > 1 else []
        return [*before, TurnEnded("end_turn", turn=intent.turn), TurnEnded("end_turn")]
