"""Scopes of keepers are a service that is never needed."""

import os
from pathlib import Path

import pytest
import trio

from coachman_sandbox.policy import Caps
from coachmand.runs.keepers.scopes import LIMIT_S, Scopes
from coachmand.runs.keepers.starting import Starting

CAPS = Caps(memory_bytes=3 << 30)


@pytest.fixture(autouse=True)
def _tools(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coachmand.runs.keepers.scopes.TOOLS_PATH", str(state_dir))


def busctl(directory: Path, script: str) -> dict[str, str]:
    """An environment whose busctl is ``script``."""
    program = directory / "busctl"
    program.write_text(f"#!/bin/sh\necho called >>{directory}/calls\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": "/nowhere"}


async def begun(directory: Path, name: str) -> Starting:
    return await Starting.begin(directory / name)


@pytest.mark.parametrize("script", ["echo no bus >&2; exit 1", f"exec sleep {10 * LIMIT_S:.0f}"])
async def test_a_keeper_begins_where_no_scope_can_be_had(state_dir: Path, script: str) -> None:
    """A manager that refuses or is silent is left alone from then on."""
    scopes = Scopes.of(busctl(state_dir, script), is_service=True)
    async with trio.open_nursery() as nursery:
        for name in ("first", "second"):
            starting = await begun(state_dir, name)
            scopes.enclose(starting, name, CAPS, nursery.start_soon)
            await starting.settled.wait()
            await starting.abandon()

    assert (state_dir / "calls").read_text() == "called\n"


@pytest.mark.parametrize(
    ("environment", "is_service"), [({"XDG_RUNTIME_DIR": "/run"}, False), ({}, True)]
)
async def test_a_daemon_that_no_user_manager_started_asks_none(
    state_dir: Path, environment: dict[str, str], is_service: bool
) -> None:
    """Started by hand, or by the system's manager, it has keepers where it is itself."""
    env = {**busctl(state_dir, "exit 0"), "XDG_RUNTIME_DIR": "", **environment}
    starting = await begun(state_dir, "lock")
    scopes = Scopes.of(env, is_service=is_service)
    scopes.enclose(starting, "x", CAPS, lambda *_: pytest.fail("asked"))
    await starting.abandon()

    assert starting.settled.is_set()


async def test_a_scope_is_asked_for_with_the_runs_caps(state_dir: Path) -> None:
    """Where the manager has the controllers, memory and tasks are held by the kernel."""
    scopes = Scopes.of(busctl(state_dir, f'echo "$@" >{state_dir}/asked; exit 1'), is_service=True)
    async with trio.open_nursery() as nursery:
        starting = await begun(state_dir, "lock")
        scopes.enclose(starting, "x", CAPS, nursery.start_soon)
        await starting.settled.wait()
        await starting.abandon()

    asked = (state_dir / "asked").read_text()
    assert f"a(sa(sv)) coachman-x.scope fail 4 PIDs au 1 {starting.pid} " in asked
    assert " MemoryMax t 3221225472 TasksMax t 1027 0" in asked
