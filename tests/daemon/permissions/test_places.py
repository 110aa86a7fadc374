"""Many questions and few programs: who asks without an end keeps nobody else waiting."""

from collections.abc import Callable
from pathlib import Path

import trio
import trio.testing

from agent_inside import inside, parent, wait_until_active
from coachmand.permissions.places import AT_ONCE, OF_ONE, Places
from daemon_process import DaemonProcess
from permission_desk import WRITE, ended, program, resolved, start

Eventually = Callable[..., object]


def test_one_family_has_two_places_and_others_are_served_between() -> None:
    """However many questions one has, another's next one waits for none of those in its queue."""
    served: list[str] = []

    async def use(places: Places, whose: str, until: trio.Event) -> None:
        async with places.taken(whose):
            served.append(whose)
            await until.wait()

    async def main() -> None:
        places, never, soon = Places(), trio.Event(), trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(use, places, "greedy", never)
            await trio.testing.wait_all_tasks_blocked()
            assert served == ["greedy"] * OF_ONE
            for _ in range(AT_ONCE):
                nursery.start_soon(use, places, "other", soon)
            await trio.testing.wait_all_tasks_blocked()
            assert served.count("other") == min(OF_ONE, AT_ONCE - OF_ONE)
            soon.set()
            await trio.testing.wait_all_tasks_blocked()
            assert served.count("other") == AT_ONCE
            nursery.cancel_scope.cancel()
        assert repr(places) == f"<Places, 0 of {AT_ONCE} taken>"

    trio.run(main)


def test_a_family_whose_hooks_hang_keeps_nobody_elses_question_waiting(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Four children hold what one family may; another run's question is answered meanwhile."""
    told = daemon.root / "told"
    hook = program(
        daemon.root / "hook",
        f"echo $COACHMAN_RUN >>{told}; grep -q held.txt && exec sleep 600\n"
        'echo \'{"kind": "allow"}\'',
    )
    handler = f"command:{hook}"
    top = parent(daemon, repo, permissions="ask", permission_handler=handler)
    with inside(daemon, top) as client:
        held = [
            client.run.start("write held.txt x", dir=None, agent="demo")["run"] for _ in range(4)
        ]
    for run in held:
        wait_until_active(daemon, run)
    eventually(lambda: told.exists() and len(told.read_text().split()) == OF_ONE)
    other = start(daemon, repo, WRITE, permission_handler=handler)
    result = ended(daemon, other)
    [settled] = resolved(daemon, other)
    with daemon.client() as client:
        asking = len(client.permission.list()["permissions"])
        hooked = told.read_text().split()
        client.run.cancel([top])
        client.run.wait([top])

    assert (result["outcome"], settled["by"]["resolver"]) == ("succeeded", "hook")
    assert asking == len(held)
    assert len(hooked) == OF_ONE + 1
