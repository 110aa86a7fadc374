"""What a test must know of an agent beyond its adapter."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model_server import ModelServer

from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import Adapter

Setting = Callable[[ModelServer], dict[str, str]]


@dataclass(frozen=True)
class Part:
    """One agent, set up for the scripted model.

    ``name`` names recordings and rows of tables; ``adapter`` is the one it is driven by.
    ``executable`` lies below ``node_modules``. ``env`` is what its user's shell has, ``files``
    what lies in the user's home, by relative path. ``wrong_session`` is an id of the right form
    that no session has. ``bounded``: a part for runs of one prompt that ask for nothing.
    ``asked_commands``: where it is to ask first, commands run at all. ``prices``: dollars for a
    million tokens of each counter, None where nobody knows. ``titles_cost``: its cost may have
    requests for a session's title, which its tokens never have.
    ``ids`` are patterns of the random ids it makes, each with the prefix that stays as its first
    group; UUIDs need none. ``scenarios`` add to those that all play, or replace them; None takes
    one out. ``shorten`` leaves out of one message of stdout what is long
    and says nothing about a run. ``own`` is the adapter of an agent that a configuration names;
    ``absolute``: its tool that writes takes no path that is relative. ``question``: the tool by
    which its model asks something in words, and what of a call is asked.
    """

    name: str
    adapter: str
    executable: str
    wrong_session: str
    env: Setting = lambda _model: {}
    files: Setting = lambda _model: {}
    model: str | None = None
    permissions: str = "allow"
    bounded: bool = False
    asked_commands: bool = True
    titles_cost: bool = False
    prices: Mapping[str, float] | None = None
    own: Adapter | None = None
    absolute: bool = False
    question: str | None = None
    ids: tuple[str, ...] = ()
    scenarios: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    shorten: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    @property
    def agent(self) -> Adapter:
        """What it is driven by."""
        return self.own or ADAPTERS[self.adapter]

    def prompt(self, text: str, cwd: str) -> str:
        """``text`` with paths as its tools take them, in the directory ``cwd``."""
        return re.sub(r"(?m)^WRITE (?!/)", f"WRITE {cwd}/", text) if self.absolute else text
