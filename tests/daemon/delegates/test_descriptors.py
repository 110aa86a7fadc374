"""What is sent along over a run's own socket, beside the bytes."""

import array
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import coachman
import recovery_state as at
from agent_inside import delegate_socket, inside, outputs, parent, raw, starts
from coachman import wire
from daemon_process import DaemonProcess

LARGE_BYTES = 3_000_000
LINGER_S = 120
ANSWERED_WITHIN_S = 30
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon.ping"}).encode() + b"\n"


@contextmanager
def lingering() -> Iterator[socket.socket]:
    """A socket that whoever closes it last waits for: it has more to say than is listened to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = socket.create_connection(server.getsockname())
        silent, _ = server.accept()
    with silent:
        talking.setblocking(False)
        try:
            while True:
                talking.send(b"x" * 65536)
        except BlockingIOError:
            pass
        talking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
        yield talking


def send_along(
    daemon: DaemonProcess, connected: Callable[[], socket.socket], data: bytes, sent: socket.socket
) -> None:
    """Send bytes and, with them, a socket that nobody else has any more when they are read."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    numbers = array.array("i", [sent.fileno()])
    connected().sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    sent.close()
    daemon.process.send_signal(signal.SIGCONT)


def answer_s(daemon: DaemonProcess) -> float:
    """How long the daemon takes to answer the user."""
    begun = time.monotonic()
    with daemon.client() as client:
        client.daemon.ping()
    return time.monotonic() - begun


def test_a_socket_that_lingers_stalls_nobody(daemon: DaemonProcess, repo: Path) -> None:
    """Sent along with a request, to a crowded socket or behind too long a line, it holds up no one.

    Closing it takes minutes, and it is the daemon that would have to.
    """
    run = parent(daemon, repo)
    path = delegate_socket(daemon, run)
    took = {}
    with ExitStack() as held:

        def connected() -> socket.socket:
            return held.enter_context(raw(path))

        def sent(connection: Callable[[], socket.socket], data: bytes) -> float:
            send_along(daemon, connection, data, held.enter_context(lingering()))
            return answer_s(daemon)

        took["a request"] = sent(connected, PING)
        long = connected()
        long.sendall(b" " * (wire.DELEGATE_REQUEST_LINE_BYTES + 1))
        assert b"1 MiB" in long.recv(65536)
        took["a long line"] = sent(lambda: long, b" ")
        for _ in range(wire.DELEGATE_CONNECTIONS):
            connected()
        took["a crowded socket"] = sent(connected, PING)

        with daemon.client() as client:
            client.run.cancel([run])
            client.run.wait([run], timeout_s=60)
        took["the run's end"] = answer_s(daemon)

    assert {what: s for what, s in took.items() if s > ANSWERED_WITHIN_S} == {}


def ask_with(
    connection: socket.socket, names: list[str], *sent: int, method: str = "run.start"
) -> dict[str, Any]:
    """What is answered to a start whose inputs are named so and come along."""
    params = {"prompt": "say hi", "agent": "demo", "input_descriptors": names, "title": "given"}
    if method != "run.start":
        params = {}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", sent))] if sent else []
    connection.sendmsg([json.dumps(request).encode() + b"\n"], rights)
    answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
    return answer


def held(daemon: DaemonProcess, *sent: int) -> set[str]:
    """What of these the daemon has open."""
    assert daemon.process is not None
    found = set()
    for path in Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(path))
    return found & {os.readlink(f"/proc/self/fd/{number}") for number in sent}


def test_an_agent_hands_a_large_file_to_a_child(daemon: DaemonProcess, repo: Path) -> None:
    """`--input` from inside a sandbox takes files that no line could carry, under their names."""
    child = starts(
        "run cksum /inputs/*; cat /inputs/small",
        "--input",
        "/scratch/large=big",
        "--input",
        "/scratch/small",
    )
    prompt = "\n".join(
        [
            f"run head -c {LARGE_BYTES} /dev/urandom > /scratch/large",
            "run echo of mine > /scratch/small",
            child,
            "run cksum /scratch/large",
        ]
    )
    run = parent(daemon, repo, prompt)
    with daemon.client() as client:
        client.run.wait([run])
        below = client.run.list(ancestor=run)["runs"][0]["run"]
        inputs = {each["name"]: each for each in client.run.result(below)["inputs"]}
    sums, own = outputs(daemon, below)[0], outputs(daemon, run)[3].split()

    assert (inputs["big"]["size"], inputs["big"]["path"]) == (LARGE_BYTES, None)
    assert f"{own[0]} {LARGE_BYTES} /inputs/big\n" in sums
    assert "of mine\n" in sums


def test_what_is_no_plain_file_to_be_read_is_refused_and_closed(
    daemon: DaemonProcess, repo: Path, tmp_path: Path
) -> None:
    """Pipes, directories, others than for reading, the kernel's own, and counts that differ."""
    run = parent(daemon, repo)
    path = delegate_socket(daemon, run)
    plain = tmp_path / "plain"
    plain.write_text("as it is\n")
    opened = [os.open(plain, os.O_RDONLY) for _ in range(wire.DELEGATE_DESCRIPTORS + 1)]
    file, reading, writing = opened[0], *os.pipe()
    strange = {
        "no regular file": [reading, writing, os.open(tmp_path, os.O_RDONLY)],
        "only that": [
            os.open(plain, os.O_RDWR),
            os.open(plain, os.O_WRONLY),
            os.open(plain, os.O_PATH),
        ],
        "it changed": [os.open("/proc/sys/kernel/hostname", os.O_RDONLY)],
    }
    cases = [
        ([n], [fd], why) for why, fds in strange.items() for n, fd in [("a", fd) for fd in fds]
    ]
    cases += [
        (["a"], [], "0 descriptors came with the request, which names 1"),
        ([], [file], "1 descriptors came with the request, which names 0"),
        (["a", "b"], [file], "which names 2"),
        (["a", "a"], [file, file], "two inputs are named"),
        (["../a"], [file], "cannot name an input"),
        (["a"], opened, "more than 64 descriptors"),
    ]
    with raw(path) as connection:
        assert "result" in ask_with(connection, [], method="daemon.ping")
        told = [(ask_with(connection, names, *fds), why) for names, fds, why in cases]
        pinged = ask_with(connection, [], file, method="daemon.ping")
        connection.sendmsg(
            [b"\n \n{}\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
        )
        connection.makefile("rb").readline()
        everything = [*opened, *(fd for fds in strange.values() for fd in fds)]
        at.until(lambda: not held(daemon, *everything))
    with inside(daemon, run) as client:
        rows = client.run.list(all=True)["runs"]
    made = {path.name for path in (daemon.state / "runs").iterdir()}

    assert [(answer, why) for answer, why in told if why not in answer["error"]["message"]] == []
    assert "takes none" in pinged["error"]["message"]
    assert [row["run"] for row in rows] == [run]
    assert made == {run}


def test_a_descriptor_is_of_the_line_that_it_came_with(
    daemon: DaemonProcess, repo: Path, tmp_path: Path
) -> None:
    """Also where several lines come at once or one in pieces; what its place is does not matter."""
    run = parent(daemon, repo)
    (tmp_path / "given").write_text("what is given\n")
    file = os.open(tmp_path / "given", os.O_RDONLY)
    os.lseek(file, 5, os.SEEK_SET)
    params = {"prompt": "run cat /inputs/a", "agent": "demo", "input_descriptors": ["a"]}
    start = {"jsonrpc": "2.0", "id": 2, "method": "run.start", "params": params}
    line = json.dumps(start).encode() + b"\n"
    along = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
    with raw(delegate_socket(daemon, run)) as connection:
        answers = connection.makefile("rb")
        connection.sendmsg([PING + PING + line], along)
        several = [json.loads(answers.readline()) for _ in range(3)]
        connection.sendmsg([PING + line[:20]], along)
        time.sleep(0.2)
        connection.sendall(line[20:] + PING)
        pieces = [json.loads(answers.readline()) for _ in range(3)]
    children = [a["result"]["run"] for a in [*several, *pieces] if a["id"] == 2]
    with daemon.client() as client:
        client.run.wait(children)

    assert [outputs(daemon, child) for child in children] == [["what is given\n"]] * 2


def test_the_users_own_socket_takes_none(daemon: DaemonProcess, repo: Path, tmp_path: Path) -> None:
    """The user names paths; what comes along is dropped."""
    (tmp_path / "given").write_text("x")
    file = os.open(tmp_path / "given", os.O_RDONLY)
    with (
        daemon.client() as client,
        pytest.raises(coachman.CoachmanError, match="0 descriptors came"),
    ):
        client.run.start("say hi", dir=str(repo), agent="demo", input_descriptors={"a": file})
