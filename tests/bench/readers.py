"""Many subscribers in one thread: they count and compare what comes, and parse it afterwards."""

import json
import select
import time
import zlib
from collections.abc import Sequence

from attrs import define, field, frozen
from world import Connection

RECEIVE_BYTES = 256 * 1024


@define
class Subscriber:
    """One connection's stream so far."""

    connection: Connection
    lines: int = 0
    checksum: int = 0
    kept: list[bytes] | None = field(default=None, repr=False)

    def take(self, content: bytes) -> None:
        self.lines += content.count(b"\n")
        self.checksum = zlib.crc32(content, self.checksum)
        if self.kept is not None:
            self.kept.append(content)


@frozen
class Delivered:
    """What ``subscribers`` received together."""

    events: int
    taken_s: float
    reader_s: float

    @property
    def per_s(self) -> float:
        return self.events / self.taken_s

    @property
    def reader_share(self) -> float:
        """The part of one core that reading itself took."""
        return self.reader_s / self.taken_s


def subscribe(path: str, run: str, count: int) -> list[Subscriber]:
    """``count`` connections, each following the run from its start."""
    found = []
    for number in range(count):
        connection = Connection(path)
        connection.call("event.subscribe", run=run)
        found.append(Subscriber(connection, kept=None if number else []))
    return found


def drain(subscribers: Sequence[Subscriber], begun: float, spent: float) -> Delivered:
    """Read every stream to its end; each must hold the same lines, without a hole.

    ``begun`` and ``spent`` are `time.perf_counter` and `time.process_time` of the start.
    """
    with select.epoll() as poll:
        open_ones = {}
        for subscriber in subscribers:
            rest = subscriber.connection.rest()
            if rest:
                subscriber.take(rest)
            if not rest.endswith(ENDING):
                number = subscriber.connection.socket.fileno()
                poll.register(number, select.EPOLLIN)
                open_ones[number] = subscriber
        while open_ones:
            for number, _ in poll.poll():
                content = open_ones[number].connection.socket.recv(RECEIVE_BYTES)
                open_ones[number].take(content)
                if not content or content.endswith(ENDING):
                    poll.unregister(number)
                    del open_ones[number]
    taken, used = time.perf_counter() - begun, time.process_time() - spent
    return Delivered(_checked(subscribers) * len(subscribers), taken, used)


ENDING = b'"reason":"run_ended"}}\n'


def _checked(subscribers: Sequence[Subscriber]) -> int:
    """The events of one stream. Raises RuntimeError where any differs or lacks one."""
    first = subscribers[0]
    if len({(one.lines, one.checksum) for one in subscribers}) != 1:
        raise RuntimeError("the subscribers were sent different streams")
    lines = b"".join(first.kept or ()).splitlines()
    numbers = [json.loads(line)["params"]["event"]["seq"] for line in lines[:-1]]
    if numbers != list(range(1, len(numbers) + 1)):
        raise RuntimeError("events are missing or out of order")
    return len(numbers)
