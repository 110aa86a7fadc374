"""What is read of an agent after its end: found however briefly it runs, and missed aloud."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

import hostile_stage
from coachmand.runs.control import inbox
from coachmand.runs.ending import epilogue
from coachmand.runs.keepers.link import KeeperLink

EXITS = [
    ({"exit_code": 0}, None),
    ({"exit_code": 3}, "what reads it ended with status 3"),
    ({"exit_code": None, "signal": 9}, "what reads it was ended by signal 9"),
    ({"exit_code": None, "signal": 9, "ended_by": "deadline"}, "that took longer than 20 s"),
    (None, "what reads it was killed"),
]


def keeper_that_leaves(path: Path, exit: dict[str, Any] | None) -> Callable[[], None]:
    """A keeper that listens no more, as its lock tells; calling what is returned lets it leave."""
    lock = os.open(path / "keeper.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def leave() -> None:
        if exit is not None:
            (path / "exit.json").write_text(json.dumps(exit))
        os.close(lock)

    return leave


@pytest.mark.parametrize(("exit", "error"), EXITS)
async def test_one_that_leaves_while_it_is_looked_for_is_read_all_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exit: dict[str, Any] | None,
    error: str | None,
) -> None:
    """It lives when it is asked for and listens no more when it is reached: its exit decides."""
    leave = keeper_that_leaves(tmp_path, exit)
    attach, posted, refused = KeeperLink.attach, [], []

    async def attach_then_leave(*arguments: Any) -> KeeperLink:
        try:
            return await attach(*arguments)
        except Exception as failure:
            refused.append(failure)
            leave()
            raise

    monkeypatch.setattr(KeeperLink, "attach", attach_then_leave)
    async with trio.open_nursery() as nursery:
        run = SimpleNamespace(
            attempt=SimpleNamespace(number=1),
            directory=SimpleNamespace(epilogue=lambda number: tmp_path),
            services=SimpleNamespace(generation=1),
            fixed=SimpleNamespace(run="r"),
            nursery=nursery,
            post=posted.append,
        )
        planned = SimpleNamespace(epilogue_limit_s=20.0)
        await epilogue.run_epilogue(cast("Any", run), cast("Any", planned), "s")

    assert len(refused) == 1
    assert posted == [inbox.EpilogueDone(error)]


def test_an_account_that_could_not_be_read_is_warned_of(state_dir: Path) -> None:
    """The run is what it was, its tokens are unknown, and its result says why."""
    with hostile_stage.staged(state_dir) as stage:
        # Asked to export a session, it fails: the word is none of its modes.
        shutil.copy(hostile_stage.PROGRAM, stage.bin / "opencode")
        run = stage.start("acp", "bytes_of_all_kinds", agent="opencode", env={})
        result = stage.result(run)

    assert (result["outcome"], result["usage"]) == ("succeeded", None)
    why = "the agent's own account could not be read: what reads it ended with status 1"
    assert result["warnings"] == [why]
