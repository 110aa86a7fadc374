"""Many followers of one filter in a process of their own; some of them read nothing for long.

stream_readers.py SOCKET LABEL COUNT STOPPED RUNS: all follow the runs of a label from their first
events; the last STOPPED of them stand still until the others have seen RUNS ends. It prints
"ready", then one document: the events of one stream, and whether all streams were that one.
"""

import json
import select
import socket
import sys
import zlib

from attrs import define, field

RECEIVE_BYTES = 256 * 1024
EVENT, ENDED = b'"method":"event.event"', b'"event":{"type":"run.ended"'


@define
class Stream:
    """What one follower was sent so far."""

    channel: socket.socket
    kept: list[bytes] | None
    events: int = 0
    ends: int = 0
    checksum: int = 0
    rest: bytes = field(default=b"", repr=False)

    def take(self) -> None:
        data = self.channel.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the daemon hung up")
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if EVENT in line:
                self.events += 1
                self.checksum = zlib.crc32(line, self.checksum)
                self.ends += ENDED in line
                if self.kept is not None:
                    self.kept.append(line)


def read(streams: list[Stream], runs: int) -> None:
    """Read until each has seen so many runs end."""
    with select.epoll() as poll:
        waited = {stream.channel.fileno(): stream for stream in streams}
        for number in waited:
            poll.register(number, select.EPOLLIN)
        while waited:
            for number, _ in poll.poll():
                waited[number].take()
                if waited[number].ends == runs:
                    poll.unregister(number)
                    del waited[number]


def check(kept: list[bytes]) -> None:
    """Raises RuntimeError unless every run is whole and all are in one order."""
    seqs: dict[str, int] = {}
    place = 0
    for line in kept:
        event = json.loads(line)["params"]["event"]
        if event["seq"] != seqs.get(event["run"], 0) + 1 or event["g"] <= place:
            raise RuntimeError(f"event {event['seq']} of {event['run']} is out of order")
        seqs[event["run"]], place = event["seq"], event["g"]


def follow(path: str, label: str) -> socket.socket:
    """A connection that follows the runs of a label; its events are still to be read."""
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(path)
    params = {"filter": {"labels": {"of": label}}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "event.subscribe", "params": params}
    channel.sendall(json.dumps(request).encode() + b"\n")
    # Nothing of that label was said yet: the answer is all that comes.
    answer = json.loads(channel.recv(RECEIVE_BYTES))
    if "result" not in answer:
        raise RuntimeError(f"event.subscribe: {answer}")
    return channel


def main(path: str, label: str, *numbers: str) -> None:
    count, stopped, runs = map(int, numbers)
    streams = [Stream(follow(path, label), None if number else []) for number in range(count)]
    print("ready", flush=True)
    live = streams[: count - stopped]
    read(live, runs)
    print(json.dumps({"live": True}), flush=True)
    read(streams[count - stopped :], runs)
    check(streams[0].kept or [])
    told = {(stream.events, stream.checksum) for stream in streams}
    print(json.dumps({"events": streams[0].events, "same": len(told) == 1}), flush=True)


main(*sys.argv[1:])
