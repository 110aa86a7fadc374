"""Many runs as one stream: by filter, from any cursor, across daemons, none missing or twice."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

import coachman
import recovery_state as at
from coachman.connection import Connection
from coachmand.journal.lines import Line
from coachmand.journal.order import RECENT_BYTES, Order, Place, Placed, Source
from coachmand.methods.shared import SHARED_BATCHES, Shared
from coachmand.runs.following.merged import Chosen, Merged
from daemon_process import DaemonProcess
from merged_followers import check_followers_through_kills

Told = dict[str, Any]
LIMIT_S = 30.0


class Follower:
    """A subscription on a connection of its own, and all that it was told."""

    def __init__(self, daemon: DaemonProcess, **params: object) -> None:
        self._connection = Connection(daemon.socket, LIMIT_S)
        self.subscribed = self._connection.call("event.subscribe", params, LIMIT_S)
        self.cursor: str = self.subscribed["cursor"]
        self.events: list[Told] = []
        self.reason: str | None = None

    def take(self, timeout_s: float = LIMIT_S) -> Told | None:
        """One more event, or None at the end."""
        while self.reason is None:
            message = self._connection.receive(timeout_s)
            assert message is not None, "nothing came in time"
            told = message["params"]
            self.cursor = told["cursor"]
            if message["method"] == "event.end":
                self.reason = told["reason"]
            elif message["method"] == "event.event":
                self.events.append(told["event"])
                return self.events[-1]
        return None

    def take_until(self, holds: Callable[[Told], bool]) -> "Follower":
        while not holds(self.take() or {"type": "end"}):
            assert self.reason is None
        return self

    def take_all(self) -> list[Told]:
        """What comes until the end."""
        while self.take() is not None:
            pass
        return self.events

    def close(self) -> None:
        self._connection.close()


@contextmanager
def following(daemon: DaemonProcess, **params: object) -> Iterator[Follower]:
    follower = Follower(daemon, **params)
    try:
        yield follower
    finally:
        follower.close()


def by_run(events: list[Told]) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {}
    for event in events:
        found.setdefault(event["run"], []).append(event)
    return found


def check_whole(daemon: DaemonProcess, events: list[Told], runs: list[str]) -> None:
    """Each run's events are those of its journal, and all together are in one order."""
    found = by_run(events)
    assert set(found) == set(runs)
    for run in runs:
        assert found[run] == daemon.events(run)
    places = [event["g"] for event in events]
    assert places == sorted(set(places))


def start(daemon: DaemonProcess, repo: Path, prompt: str, **more: Any) -> str:
    return at.start(daemon, repo, prompt, **more)


def ended(count: int) -> Callable[[Told], bool]:
    """Whether so many runs have ended by now."""
    seen: set[str] = set()

    def holds(event: Told) -> bool:
        if event["type"] == "run.ended":
            seen.add(event["run"])
        return len(seen) >= count

    return holds


def test_a_filter_takes_the_runs_that_have_its_facts_and_no_others(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Runs begun later are in it, whole and in one order; others' are not."""
    with following(daemon, filter={"labels": {"team": "a"}}) as follower:
        ours = [start(daemon, repo, f"chunks {n}", labels={"team": "a"}) for n in (3, 50)]
        other = start(daemon, repo, "chunks 3", labels={"team": "b"})
        follower.take_until(ended(2))
        at.result(daemon, other)

        check_whole(daemon, follower.events, ours)


def test_named_runs_come_from_their_first_events_and_end_together(
    daemon: DaemonProcess, repo: Path
) -> None:
    """`filter.runs` replays what has ended, follows what lives, and ends with the last of them."""
    runs = [start(daemon, repo, "chunks 20") for _ in range(2)]
    at.result(daemon, runs[0])
    with following(daemon, filter={"runs": runs}) as follower:
        events = follower.take_all()

    assert follower.reason == "run_ended"
    check_whole(daemon, events, runs)


def test_without_follow_a_stream_ends_at_what_is_there(daemon: DaemonProcess, repo: Path) -> None:
    """`since` goes back in time; `follow: false` ends with `caught_up`, runs that live included."""
    old = start(daemon, repo, "chunks 5")
    at.result(daemon, old)
    asking = start(daemon, repo, "ask ready", permissions="ask")
    at.until_asked(daemon, asking)
    with following(daemon, filter={}, since=0, follow=False) as follower:
        events = follower.take_all()

    assert follower.reason == "caught_up"
    assert set(by_run(events)) == {old, asking}
    assert by_run(events)[old] == daemon.events(old)


@pytest.mark.parametrize("how", ["killed", "in place"])
def test_a_cursor_resumes_all_runs_across_daemons(
    daemon: DaemonProcess, repo: Path, how: str
) -> None:
    """Runs that went on, ended or began while nobody followed: none is missing, nothing twice."""
    with following(daemon, filter={"labels": {"team": "a"}}) as before:
        asking = start(daemon, repo, "ask one\nchunks 40", labels={"team": "a"}, permissions="ask")
        request = at.until_asked(daemon, asking)
        gone = start(daemon, repo, "chunks 200", labels={"team": "a"})
        before.take_until(lambda event: event["type"] == "agent.message_chunk")
    at.result(daemon, gone)
    began = start(daemon, repo, "chunks 30", labels={"team": "a"})
    other = start(daemon, repo, "chunks 30")
    at.result(daemon, began)
    if how == "killed":
        daemon.restart()
    else:
        daemon.restart_in_place()
    with following(daemon, filter={"labels": {"team": "a"}}, cursor=before.cursor) as after:
        last = start(daemon, repo, "chunks 10", labels={"team": "a"})
        with daemon.client() as client:
            client.permission.answer(request, run=asking, kind="allow")
        after.take_until(ended(4))

    at.result(daemon, other)
    check_whole(daemon, before.events + after.events, [asking, gone, began, last])


def test_every_cursor_on_the_way_resumes_exactly_there(daemon: DaemonProcess, repo: Path) -> None:
    """From each event's own cursor what comes is all that is behind it, in the same order."""
    runs = [start(daemon, repo, "chunks 4") for _ in range(3)]
    with following(daemon, filter={"runs": runs}) as follower:
        cursors = []
        while follower.take() is not None:
            cursors.append(follower.cursor)
    for count, cursor in enumerate(cursors, 1):
        with following(daemon, filter={"runs": runs}, cursor=cursor) as again:
            assert again.take_all() == follower.events[count:]


def test_types_leave_out_others_and_move_the_cursor_on(daemon: DaemonProcess, repo: Path) -> None:
    """Only the types asked for come; the end's cursor is behind all that was passed over."""
    run = start(daemon, repo, "chunks 300")
    at.result(daemon, run)
    with following(daemon, filter={"runs": [run]}, types=["run.queued", "run.ended"]) as follower:
        assert [event["type"] for event in follower.take_all()] == ["run.queued", "run.ended"]
    with following(daemon, filter={"runs": [run]}, cursor=follower.cursor) as again:
        assert again.take_all() == []


def test_a_place_that_does_not_exist_is_refused_with_the_head(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A cursor beyond all events, of one run or of nothing is an error that says so."""
    run = start(daemon, repo, "say hi")
    at.result(daemon, run)
    with daemon.client() as client:
        head = client.call("run.get", {"run": run})["last_g"]
        with pytest.raises(coachman.CoachmanError, match="the events end at") as refused:
            client.call("event.subscribe", {"filter": {}, "cursor": f"2.{head + 10**9}"})
        assert refused.value.detail == {"head": f"2.{head}"}
        for wrong in (f"1.{run}.1", "2.x", "2.-1", "nothing", "2.0..3"):
            with pytest.raises(coachman.CoachmanError, match="is not a cursor of many runs"):
                client.call("event.subscribe", {"filter": {}, "cursor": wrong})
        for wrong_one in ({"run": run, "filter": {}}, {"filter": {}, "after_seq": 1}, {}):
            with pytest.raises(coachman.CoachmanError, match="cannot subscribe"):
                client.call("event.subscribe", wrong_one)


def strip_places(path: Path) -> None:
    """The journal as a daemon wrote it that knew no places."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line.pop("g")
    path.write_bytes(
        b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    )


def test_what_was_written_before_there_were_places_comes_first(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Journals of an earlier version are read run by run, each line's cursor exact, then others."""
    old = sorted(start(daemon, repo, "chunks 3") for _ in range(2))
    living = start(daemon, repo, "ask one", permissions="ask")
    request = at.until_asked(daemon, living)
    for run in old:
        at.result(daemon, run)
    daemon.kill()
    for run in (*old, living):
        strip_places(at.directory(daemon, run) / "events.ndjson")
        result = at.directory(daemon, run) / "result.json"
        if result.exists():
            told = json.loads(result.read_bytes())
            del told["summary"]["first_g"], told["summary"]["last_g"]
            result.write_text(json.dumps(told))
    (daemon.state / "index.db").unlink()
    daemon.start()
    new = start(daemon, repo, "chunks 3")
    at.result(daemon, new)
    with daemon.client() as client:
        client.permission.answer(request, run=living, kind="allow")
    at.result(daemon, living)
    with following(daemon, filter={}, since=0, follow=False) as follower:
        cursors = []
        while follower.take() is not None:
            cursors.append(follower.cursor)
    found = by_run(follower.events)
    for run in (*old, living, new):
        assert found[run] == daemon.events(run)
    unplaced = [event["run"] for event in follower.events if "g" not in event]
    assert unplaced == sorted(unplaced)
    assert [event for event in follower.events[: len(unplaced)] if "g" in event] == []
    for count in range(0, len(cursors), 7):
        with following(daemon, filter={}, follow=False, cursor=cursors[count]) as again:
            assert again.take_all() == follower.events[count + 1 :]


def test_one_that_stands_still_delays_nobody_and_misses_nothing(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A follower whose socket is full for long reads on from the files, and then what is new."""
    with (
        following(daemon, filter={"labels": {"k": "v"}}) as frozen,
        following(daemon, filter={"labels": {"k": "v"}}) as lively,
    ):
        runs = [start(daemon, repo, "chunks 8000", labels={"k": "v"}) for _ in range(3)]
        lively.take_until(ended(3))
        check_whole(daemon, lively.events, runs)
        frozen.take_until(ended(3))
        assert frozen.events == lively.events


def test_the_python_client_follows_many_runs_across_a_daemon(
    daemon: DaemonProcess, repo: Path
) -> None:
    """`client.follow` connects again behind the last event it handed out."""
    runs = [start(daemon, repo, "chunks 3\nsleep 1\nchunks 3") for _ in range(2)]
    with daemon.client() as client, client.follow(runs) as stream:
        events = [next(stream) for _ in range(5)]
        daemon.restart()
        events += list(stream)

    assert stream.reason == "run_ended"
    check_whole(daemon, events, runs)


def test_followers_miss_nothing_while_daemons_are_killed_under_their_runs(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The storm of `scripts/soak streams`, small: three followers, two kills."""
    check_followers_through_kills(daemon, repo, followers=3, kills=2, chance=random.Random(1))


def test_no_index_is_searched_where_all_clients_are_served() -> None:
    """However many runs a filter passes over, threads look for them; the living are looked at here.

    A label that no run of a hundred thousand has is looked for in all of them.
    """
    served, searched, looked = threading.get_ident(), list[int](), list[int]()

    class Living(dict[str, Any]):
        def values(self) -> Any:
            looked.append(threading.get_ident())
            return super().values()

    def in_order(*_: object) -> list[Any]:
        searched.append(threading.get_ident())
        return []

    services = SimpleNamespace(order=Order(1000), index=SimpleNamespace(in_order=in_order))
    supervisor: Any = SimpleNamespace(services=services, runs=Living())
    merged = Merged(supervisor, Chosen(labels={"no": "run"}), Place())

    async def read() -> None:
        while not merged.is_live:
            await merged.next()
        assert await merged.next() == []

    trio.run(read)

    assert (len(searched), set(looked)) == (2, {served})
    assert served not in searched
    assert merged.place == Place(1000)


async def test_a_reader_of_an_order_without_events_sleeps_until_the_first() -> None:
    """On a machine where nothing has run yet, whoever waits leaves the daemon to the others."""
    order, woken = Order(), trio.Event()

    async def read() -> None:
        await order.changed(Place(1).g)
        woken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert not woken.is_set()
        first = order.reserve(1)
        order.publish(Source("run"), first, [Line(1, b"{}")])
        await woken.wait()


def test_what_waits_behind_one_write_does_not_grow_without_end() -> None:
    """Behind a line that the disk does not take the others' are let go of: the files have them."""
    order, source = Order(), Source("r")
    stuck = order.reserve(1)
    firsts = []
    for number in range(300):
        firsts.append(order.reserve(2))
        order.publish(source, firsts[-1], [Line(2 * number + n, b"x" * 50_000) for n in (1, 2)])
    held = order.head, len(order._batches), order._held_bytes
    order.publish(source, stuck, [Line(0, b"first")])
    last = order.reserve(1)
    order.publish(source, last, [Line(601, b"last")])

    assert held[0] == 0
    assert held[1] < 50
    assert held[2] <= RECENT_BYTES
    assert order.head == last
    assert order._batches == {}
    # Who stood before them reads the files; who comes behind finds what is newer.
    assert order.recent(firsts[0], 10) is None
    assert [placed.line.seq for placed in order.recent(last - 1, 10) or ()] == [601]


def placed(*places: int) -> list[Placed]:
    return [Placed(Source("r"), Line(g, b'{"g":%d}' % g), g) for g in places]


def test_what_is_put_together_once_is_for_those_who_follow_the_same() -> None:
    """By name of the subscription, choice and places; a few are kept, and none that is long."""
    shared = Shared()
    first = shared.lines(("a",), b"s1 ", placed(5, 7))

    assert shared.lines(("a",), b"s1 ", placed(5, 7)) is first
    assert shared.lines(("a",), b"s2 ", placed(5, 7)) == first.replace(b"s1 ", b"s2 ")
    assert shared.lines(("b",), b"s1 ", placed(5, 6, 7)).count(b"s1 ") == 3
    assert shared.lines(("a",), b"s1 ", placed(5, 6, 7)).count(b"s1 ") == 3
    assert shared.lines(("a",), b"s1 ", placed(8)).count(b"s1 ") == 1
    assert shared.lines(("a",), b"s1 ", placed(5, 7)) is not first
    unplaced = shared.lines(("a",), b"s1 ", placed(0))
    assert shared.lines(("a",), b"s1 ", placed(0)) is not unplaced
    assert len(shared._batches) == SHARED_BATCHES


async def test_all_who_gather_look_at_the_same_moments(autojump_clock: object) -> None:
    """Whenever each began to wait; many look less often, and none waits long."""
    looked: list[float] = []

    async def look(after_s: float) -> None:
        await trio.sleep(after_s)
        await shared.gather()
        looked.append(trio.current_time())

    for followers, every_s in ((1, 0.01), (30, 0.03), (500, 0.05)):
        shared = Shared(followers)
        looked.clear()
        await shared.gather()
        async with trio.open_nursery() as nursery:
            for part in (0.1, 0.5, 0.9):
                nursery.start_soon(look, part * every_s)
        assert len(set(looked)) == 1
        assert looked[0] % every_s == pytest.approx(0) or looked[0] % every_s == pytest.approx(
            every_s
        )
