"""The price of a call."""

from collections.abc import Iterator

from figures import Figure, row
from timing import percentile
from world import Bench, Connection, request

BLOCK = 250
TARGETS = {50: 2.5, 99: 4.0}


@row("ping")
def measure(bench: Bench) -> Iterator[Figure]:
    """`daemon.ping` round trips of a blocking client, against a bare trio echo of lines."""
    line = request("daemon.ping")
    with bench.world() as world, bench.echo() as echo:
        world.start()
        with world.connect() as connection:
            blocks = bench.scale(5000, 2000) // BLOCK
            called: list[float] = []
            echoed: list[float] = []
            for number in range(blocks + 1):
                pairs = ((called, connection), (echoed, echo))
                for values, server in pairs if number % 2 else reversed(pairs):
                    found = _block(server, line)
                    values.extend(found if number else ())
    for percent, target in TARGETS.items():
        value, beside = percentile(called, percent), percentile(echoed, percent)
        yield Figure(
            f"daemon.ping p{percent}",
            value * 1e6,
            "µs",
            "bare trio echo",
            beside * 1e6,
            f"≤ {target}×",
            value / beside <= target,
        )


def _block(server: Connection, line: bytes) -> list[float]:
    return [server.round_trip(line) for _ in range(BLOCK)]
