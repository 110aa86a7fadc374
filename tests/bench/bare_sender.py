"""bare_sender.py SOCKET PEERS LINES: the bytes that subscribers get, made once, sent to each."""

import json
import select
import socket
import sys

BATCH_LINES = 256


def line(number: int) -> bytes:
    """A notification as long as that of a chunk."""
    event = {
        "type": "agent.message_chunk",
        "seq": number,
        "ts": 1795990890460,
        "run": "261129-220417-k7q3x",
        "attempt": 1,
        "turn": 1,
        "session": "demo-0123456789abcdef",
        "n": number,
        "message_id": "m1-1",
        "text": f"chunk {number} of many\n",
    }
    params = {"subscription": "s1", "cursor": f"1.{event['run']}.{number}", "event": event}
    document = {"jsonrpc": "2.0", "method": "event.event", "params": params}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def main(path: str, peers: int, lines: int) -> None:
    ending = b'{"jsonrpc":"2.0","method":"event.end","params":{"reason":"run_ended"}}\n'
    content = b"".join(line(number) for number in range(1, lines + 1)) + ending
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(peers)
    print("ready", flush=True)
    left = {}
    with select.epoll() as poll:
        for _ in range(peers):
            peer = listener.accept()[0]
            peer.setblocking(False)
            poll.register(peer, select.EPOLLOUT)
            left[peer.fileno()] = (peer, memoryview(content))
        while left:
            for number, _ in poll.poll():
                peer, rest = left[number]
                rest = rest[peer.send(rest[: 64 * 1024]) :]
                left[number] = (peer, rest)
                if not rest:
                    poll.unregister(number)
                    del left[number]


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
