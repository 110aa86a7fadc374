"""The questions that codex waits for: asked once, answered once, or taken back."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from coachman_adapters.acp.frames import Request
from coachman_adapters.acp.permissions import QUESTION_CHARS, question
from coachman_adapters.asks import OpenAsks
from coachman_adapters.codex import frames
from coachman_adapters.codex.questions import PATCH, READERS, WORDS, written
from coachman_adapters.codex.state import State
from coachman_adapters.conversation import Action, Answer, Ask, Span, Write
from coachman_adapters.in_words import WRITE_IN


class Asks(OpenAsks[State]):
    """The unanswered questions in ``state``."""

    def request(self, request: Request, span: Span, *, words: bool) -> list[Action]:
        """Ask, after telling the tool call if it is new; or refuse what nobody is to be asked.

        With ``words`` somebody is there for what is asked in words.
        """
        read = READERS.get(request.method) if words or request.method != WORDS else None
        params = {
            **request.params,
            PATCH: self._state.patches.get(str(request.params.get("itemId"))),
        }
        asked = read(params, self._tools, span) if read else None
        if asked is None:
            text = f"nobody answers {request.method[:100]}"
            return [Write(frames.error(request.id, frames.METHOD_NOT_FOUND, text))]
        known: dict[str, Any] = {"id": request.id, "cancel": asked.cancel}
        if self._is_refused():
            return [*asked.told, *self._turn_away(known)]
        known |= {
            "results": {option.id: result for option, result in asked.choices},
            "allow": [option.id for option, _ in asked.choices if option.kind[:5] == "allow"],
            "call": asked.tool.get("tool_call_id"),
            # Of such a call codex tells no end.
            "ends": request.method == WORDS,
        }
        options = tuple(option for option, _ in asked.choices)
        text = asked.text or question(asked.tool)
        return [*asked.told, Ask(self._open(known), asked.tool, text[:QUESTION_CHARS], options)]

    def _refusal(self, asked: Mapping[str, Any]) -> Action:
        return Write(frames.result(asked["id"], asked["cancel"]))

    def _answered(self, asked: Mapping[str, Any], answer: Answer) -> list[Action]:
        result = asked["results"].get(answer.option, asked["cancel"])
        if answer.option == WRITE_IN and answer.message:
            result = written(result, answer.message)
        write: list[Action] = [Write(frames.result(asked["id"], result))]
        if answer.option not in asked["allow"] or asked["call"] is None:
            return write
        if asked.get("ends"):
            return [*write, *self._tools.end(asked["call"], "completed")]
        runs = {"toolCallId": asked["call"], "status": "in_progress"}
        told = self._tools.upsert(runs, Span(0, 0))
        return [*write, *(evolve(event, span=None) for event in told)]
