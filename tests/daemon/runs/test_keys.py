"""Who uses a request key uses it alone."""

import trio
import trio.testing

from coachmand.runs.locks import Locks


async def _use(
    locks: Locks, key: str | None, leave: trio.Event, inside: list[str], name: str
) -> None:
    async with locks.held(key):
        inside.append(name)
        await leave.wait()
        inside.remove(name)


def test_a_key_has_one_user_at_a_time() -> None:
    """Also when one comes just after a second has taken over from the first."""
    inside: list[str] = []
    seen: list[list[str]] = []

    async def main() -> None:
        locks, leave = Locks(), [trio.Event() for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for number, name in enumerate("ab"):
                nursery.start_soon(_use, locks, "k", leave[number], inside, name)
                await trio.testing.wait_all_tasks_blocked()
            leave[0].set()
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(_use, locks, "k", leave[2], inside, "c")
            for number in (1, 2):
                await trio.testing.wait_all_tasks_blocked()
                seen.append([*inside])
                leave[number].set()
        assert repr(locks) == "<Locks of 0 keys>"

    trio.run(main)

    assert [len(users) for users in seen] == [1, 1]


def test_other_keys_and_none_are_in_nobodys_way() -> None:
    """Only the same key waits."""
    inside: list[str] = []

    async def main() -> None:
        locks, leave = Locks(), trio.Event()
        async with trio.open_nursery() as nursery:
            for name, key in (("a", "k"), ("b", "l"), ("c", None), ("d", None)):
                nursery.start_soon(_use, locks, key, leave, inside, name)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(inside) == ["a", "b", "c", "d"]
            leave.set()

    trio.run(main)
