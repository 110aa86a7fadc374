"""One journal, many readers."""

import time
from collections.abc import Iterator
from statistics import median

from figures import Figure, row
from readers import Delivered, Subscriber, drain, subscribe
from world import Bench, Connection, World, request

TARGETS = {1: 200_000, 10: 500_000, 100: 500_000}
RUN = "261129-220417-k7q3x"
BATCH_LINES = 256
COUNTS = {1: (60_000, 30_000), 10: (30_000, 15_000), 100: (6_000, 3_000)}


@row("fanout")
def measure(bench: Bench) -> Iterator[Figure]:
    """Delivered events per second to 1, 10 and 100 subscribers, against bare sockets."""
    for subscribers, target in TARGETS.items():
        lines = bench.scale(*COUNTS[subscribers])
        rounds = range(bench.scale(2, 1))
        live = [_live(bench, subscribers, lines) for _ in rounds]
        bare = [_bare(bench, subscribers, lines)]
        yield _figure(f"journal written live, {subscribers} subscribers", live, bare, target)
    with bench.world() as world:
        world.start()
        run = world.run(f"chunks {bench.scale(20_000, 5_000)}")
        world.wait(run)
        for subscribers in TARGETS:
            old = [_history(world, run, subscribers) for _ in rounds]
            yield _figure(f"journal of an ended run, {subscribers} subscribers", old, bare, None)


def _figure(what: str, found: list[Delivered], bare: list[Delivered], target: int | None) -> Figure:
    rate = median(one.per_s for one in found)
    return Figure(
        what,
        rate,
        "events/s",
        "bare sockets",
        median(one.per_s for one in bare),
        f"≥ {target:,}/s" if target else "",
        rate >= target if target else None,
        {"reading took": f"{median(one.reader_share for one in found):.2f} of a core"},
    )


def _live(bench: Bench, subscribers: int, lines: int) -> Delivered:
    with bench.directory_of_its_own() as directory:
        socket = directory / "s" / "control.sock"
        with bench.helper("fanout_server.py", str(socket), str(directory / "events.ndjson")):
            found = subscribe(str(socket), RUN, subscribers)
            with Connection(str(socket)) as writer:
                begun, spent = time.perf_counter(), time.process_time()
                writer.socket.sendall(request("bench.write", count=lines, batch=BATCH_LINES))
                return _drained(found, begun, spent)


def _history(world: World, run: str, subscribers: int) -> Delivered:
    begun, spent = time.perf_counter(), time.process_time()
    return _drained(subscribe(world.daemon.socket, run, subscribers), begun, spent)


def _bare(bench: Bench, subscribers: int, lines: int) -> Delivered:
    """The same bytes from a thread-less sender that does nothing but send them."""
    with bench.directory_of_its_own() as directory:
        socket = directory / "bare.sock"
        with bench.helper("bare_sender.py", str(socket), str(subscribers), str(lines)):
            begun, spent = time.perf_counter(), time.process_time()
            found = [Subscriber(Connection(str(socket)), kept=[]) for _ in range(subscribers)]
            return _drained(found, begun, spent)


def _drained(found: list[Subscriber], begun: float, spent: float) -> Delivered:
    try:
        return drain(found, begun, spent)
    finally:
        for subscriber in found:
            subscriber.connection.socket.close()
