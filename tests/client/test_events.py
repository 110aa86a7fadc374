"""An event stream hands out each event once, whatever happens to the daemon."""

import threading
from pathlib import Path

import pytest

import coachman
from client_daemon import RUN, FakeDaemon, FaultError, Peer, numbered, served, streaming

EVENTS = numbered(*({"type": "agent.message_chunk", "text": str(n)} for n in range(6)))


def test_a_stream_ends_with_its_run(state_dir: Path) -> None:
    """Iteration hands out every event in order and stops when the run ended."""
    with served(state_dir / "s", {"event.subscribe": streaming(EVENTS)}) as (daemon, client):
        stream = client.events(RUN)
        assert list(stream) == EVENTS

    assert stream.reason == "run_ended"
    assert daemon.params("event.subscribe") == [{"run": RUN}]


def test_a_stream_begins_behind_a_sequence_number(state_dir: Path) -> None:
    """`after_seq` leaves out what the caller has seen."""
    with (
        served(state_dir / "s", {"event.subscribe": streaming(EVENTS)}) as (_, client),
        client.events(RUN, 4) as stream,
    ):
        assert [event["seq"] for event in stream] == [5, 6]


def test_a_stream_goes_on_behind_the_last_event_of_a_lost_daemon(state_dir: Path) -> None:
    """When the connection breaks, the stream resumes by cursor: none twice, none lost."""
    cuts = iter([2, 4])
    lost: list[int] = []

    def subscribe(params: dict[str, object], peer: Peer) -> dict[str, object]:
        until = next(cuts, None)
        if until is None:
            return streaming(EVENTS)(params, peer)
        return streaming(EVENTS[:until], then=Peer.hang_up)(params, peer)

    with served(state_dir / "s", {"event.subscribe": subscribe}) as (daemon, client):
        assert list(client.events(RUN, on_lost=lambda: lost.append(1))) == EVENTS

    assert [p.get("cursor") for p in daemon.params("event.subscribe")] == [None, "2", "4"]
    assert len(lost) == 2


def test_a_stream_that_met_a_leaving_daemon_asks_its_successor(state_dir: Path) -> None:
    """Also the first request of a stream outlives the daemon that did not answer it."""
    leaves = iter([True, False])

    def subscribe(params: dict[str, object], peer: Peer) -> dict[str, object]:
        if next(leaves):
            peer.notify("daemon.leaving", reason="restart")
            peer.hang_up()
            return {}
        return streaming(EVENTS)(params, peer)

    with served(state_dir / "s", {"event.subscribe": subscribe}) as (_, client):
        assert list(client.events(RUN, after_seq=2)) == EVENTS[2:]


def test_a_stream_waits_for_a_daemon_that_is_restarted(state_dir: Path) -> None:
    """A daemon that is away for a moment is waited for."""
    path = state_dir / "s"
    first = FakeDaemon(path, {"event.subscribe": streaming(EVENTS[:3], then=lambda _peer: None)})
    with coachman.connect(str(path)) as client, client.events(RUN) as stream:
        assert [next(stream) for _ in range(3)] == EVENTS[:3]
        first.__exit__()
        second: list[FakeDaemon] = []
        timer = threading.Timer(
            0.1,
            lambda: second.append(FakeDaemon(path, {"event.subscribe": streaming(EVENTS)})),
        )
        timer.start()
        assert list(stream) == EVENTS[3:]
        timer.join()
        second[0].__exit__()


def test_a_daemon_that_stays_away_ends_the_stream(state_dir: Path) -> None:
    """After `reconnect_s` the missing daemon is reported."""
    path = state_dir / "s"
    daemon = FakeDaemon(path, {"event.subscribe": streaming(EVENTS[:1], then=lambda _peer: None)})
    with coachman.connect(str(path)) as client, client.events(RUN, reconnect_s=0.1) as stream:
        next(stream)
        daemon.__exit__()
        with pytest.raises(coachman.DaemonNotRunning):
            next(stream)


def test_a_refused_cursor_is_told(state_dir: Path) -> None:
    """A cursor beyond the journal is an error, not an endless wait."""

    def refuse(_params: object, _peer: Peer) -> dict[str, object]:
        raise FaultError("InvalidParams", "cannot subscribe: the cursor is beyond the journal")

    with (
        served(state_dir / "s", {"event.subscribe": refuse}) as (_, client),
        pytest.raises(coachman.CoachmanError, match="beyond the journal"),
    ):
        client.events(RUN, cursor="99")


def test_reading_with_a_timeout_does_not_end_a_stream(state_dir: Path) -> None:
    """None after a timeout leaves the stream usable."""
    handler = streaming(EVENTS[:1], then=lambda _peer: None)
    with (
        served(state_dir / "s", {"event.subscribe": handler}) as (_, client),
        client.events(RUN) as stream,
    ):
        assert stream.read(5.0) == EVENTS[0]
        assert stream.read(0.01) is None
        assert stream.reason is None
