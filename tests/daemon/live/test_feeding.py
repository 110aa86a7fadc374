"""A program that is fed lines: what it read of them, and that it cannot hold anybody up."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from coachmand.journal.lines import Line
from coachmand.permissions.feeding import Fed, Patience
from coachmand.permissions.programs import Programs
from permission_desk import program

LIMIT_S = 60.0
SOON = Patience(told_s=0.2, ended_s=0.6, look_s=0.05)


class Feeder:
    """Runs one program with numbered lines, and notes whether it was called slow."""

    def __init__(self, path: Path, text: str, patience: Patience = SOON) -> None:
        self.program = program(path / "reader", text)
        self.slow: list[bool] = []
        self.patience = patience

    async def feed(
        self, lines: int, size: int = 10, until: Callable[[], bool] = lambda: True
    ) -> tuple[Fed, str | None]:
        async def all_lines(fed: Fed) -> None:
            for number in range(1, lines + 1):
                line = Line(number, b"%d " % number + b"x" * size)
                await fed.give(line.seq, line.data)
            while not until():  # noqa: ASYNC110 - the watch looks now and then
                await trio.sleep(0.02)

        pinned = Programs().pin(str(self.program), ())
        with trio.fail_after(LIMIT_S):
            fed = await Fed.start(
                pinned, {"PATH": "/usr/bin:/bin"}, 0, self.patience, self.slow.append
            )
            return fed, await fed.serve(all_lines)


async def test_what_it_read_is_what_counts(tmp_path: Path) -> None:
    """Of lines in its pipe when it died, those whose end it had not read are to come again."""
    feeder = Feeder(tmp_path, "read -r line; read -r line; dd bs=1 count=3 status=none; exit 4")
    fed, why = await feeder.feed(1000, 200)

    assert why == "it ended with status 4"
    assert (fed.taken, fed.has_all) == (2, False)
    assert fed.given >= fed.taken


async def test_one_that_read_all_is_asked_no_more(tmp_path: Path) -> None:
    """Its status still counts; what it missed is nothing."""
    good, why = await Feeder(tmp_path, "cat >/dev/null").feed(2000, 200)
    assert (good.taken, good.has_all, why) == (2000, True, None)
    bad, why = await Feeder(tmp_path, "cat >/dev/null; exit 1").feed(3)
    assert (bad.taken, bad.has_all, why) == (3, True, "it ended with status 1")


@pytest.mark.parametrize(
    ("text", "lines", "why"),
    [
        # With one line in its pipe, with a full pipe, with its input closed, after its end.
        ("sleep 600", 1, "it read nothing for 0.6 s, and was ended"),
        ("sleep 600", 5000, "it read nothing for 0.6 s, and was ended"),
        ("exec <&-; sleep 600", 5000, "it read nothing for 0.6 s, and was ended"),
        ("cat >/dev/null; sleep 600", 5, "it did not end for 0.6 s, and was ended"),
    ],
)
async def test_one_that_hangs_is_told_of_and_ended(
    tmp_path: Path, text: str, lines: int, why: str
) -> None:
    """In whichever way it takes nothing, it is slow first, and then it is over."""
    feeder = Feeder(tmp_path, text)
    fed, reason = await feeder.feed(lines, 200)

    assert reason == why
    assert feeder.slow[:1] == [True]
    assert fed.has_all == ("did not end" in why)


async def test_one_that_goes_on_is_slow_no_more(tmp_path: Path) -> None:
    """Slowness is taken back once something is read."""
    feeder = Feeder(tmp_path, "sleep 1; cat >/dev/null", Patience(0.2, LIMIT_S, 0.05))
    fed, reason = await feeder.feed(5000, 200, lambda: len(feeder.slow) == 2)

    assert (fed.taken, reason) == (5000, None)
    assert feeder.slow == [True, False]


async def test_a_daemon_that_leaves_leaves_it_what_it_was_given(tmp_path: Path) -> None:
    """Cancelled, it gets the end of its input and is not killed."""
    path = program(
        tmp_path / "reader",
        f"sleep 0.3; cat >{tmp_path}/beside; mv {tmp_path}/beside {tmp_path}/got",
    )
    given = trio.Event()

    async def some(fed: Fed) -> None:
        await fed.give(1, b"first")
        given.set()
        await trio.sleep_forever()

    fed = await Fed.start(
        Programs().pin(str(path), ()), {"PATH": "/usr/bin:/bin"}, 0, Patience(), lambda _: None
    )
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fed.serve, some)
            await given.wait()
            nursery.cancel_scope.cancel()
        while not (tmp_path / "got").exists():  # noqa: ASYNC110 - another process makes it
            await trio.sleep(0.02)

    assert (tmp_path / "got").read_text() == "first\n"
