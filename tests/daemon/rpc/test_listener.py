"""The socket itself: who may connect, what is replaced, what is left behind."""

import json
import os
import resource
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from coachmand.rpc.listener import Listener, ListenError
from rpc_server import Server

Eventually = Callable[..., object]

NOBODY = 65534


def test_the_socket_and_its_directory_are_private(state_dir: Path) -> None:
    """The directory is made 0700 and the socket 0600, whatever the umask."""
    previous = os.umask(0)
    try:
        with Listener(str(state_dir / "a" / "s.sock")):
            modes = [stat.S_IMODE((state_dir / name).stat().st_mode) for name in ("a", "a/s.sock")]
    finally:
        os.umask(previous)

    assert modes == [0o700, 0o600]


def test_the_socket_is_gone_afterwards(state_dir: Path) -> None:
    """A listener that ends removes its socket."""
    with Server(state_dir / "s.sock") as server, server.client() as client:
        client.call("daemon.ping")

    assert not (state_dir / "s.sock").exists()


def test_a_stale_socket_is_replaced(state_dir: Path) -> None:
    """A socket on which nobody listens is replaced."""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(state_dir / "s.sock"))
    dead.close()

    with Server(state_dir / "s.sock") as server, server.client() as client:
        assert client.call("daemon.ping")["result"] == {}


def test_a_socket_in_use_is_left_alone(state_dir: Path) -> None:
    """A second listener is refused by name, and the first keeps serving."""
    path = state_dir / "s.sock"
    with Server(path) as server:
        with pytest.raises(ListenError, match=r"cannot listen on .*: another daemon answers there"):
            Listener(str(path))
        with server.client() as client:
            assert client.call("daemon.ping")["result"] == {}


def test_a_full_backlog_is_no_stale_socket(state_dir: Path) -> None:
    """A listener too busy to accept counts as one that listens."""
    path = str(state_dir / "s.sock")
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(path)
        busy.listen(0)
        waiting.connect(path)
        with pytest.raises(ListenError, match="another daemon answers there"):
            Listener(path)


def test_a_file_in_the_way_is_left_alone(state_dir: Path) -> None:
    """A file that is no socket is never removed."""
    (state_dir / "s.sock").write_text("mine")
    with pytest.raises(ListenError, match="a file that is no socket is there"):
        Listener(str(state_dir / "s.sock"))

    assert (state_dir / "s.sock").read_text() == "mine"


def test_a_link_in_the_way_is_not_followed(state_dir: Path) -> None:
    """A symbolic link where the socket should be is refused, wherever it leads."""
    (state_dir / "s.sock").symlink_to(state_dir / "elsewhere.sock")
    with pytest.raises(ListenError, match="no socket"):
        Listener(str(state_dir / "s.sock"))


def test_anothers_socket_is_not_unlinked(state_dir: Path) -> None:
    """A listener whose socket was replaced leaves the new one in place."""
    path = state_dir / "s.sock"
    with Listener(str(path)):
        path.unlink()
        replacement = socket.socket(socket.AF_UNIX)
        replacement.bind(str(path))

    assert path.exists()
    replacement.close()


def test_a_directory_open_to_others_is_refused(state_dir: Path) -> None:
    """A directory that others may enter is refused with the remedy, never changed."""
    state_dir.chmod(0o755)
    with pytest.raises(ListenError, match=f"is open to other users; .*chmod 700 {state_dir}"):
        Listener(str(state_dir / "s.sock"))

    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o755


def test_a_directory_that_cannot_be_made_is_named(state_dir: Path) -> None:
    """A directory that cannot be made is named with its cause."""
    (state_dir / "file").write_text("")
    with pytest.raises(ListenError, match=r"cannot listen on .*: (Not a directory|File exists)"):
        Listener(str(state_dir / "file" / "s.sock"))


def test_a_path_longer_than_a_socket_address_works(state_dir: Path) -> None:
    """A socket may lie deeper than the 108 bytes of an address."""
    path = state_dir / ("d" * 120) / "s.sock"
    with Listener(str(path)):
        directory = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{directory}/s.sock")
        os.close(directory)
        assert stat.S_ISSOCK(path.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_turned_away(state_dir: Path, eventually: Eventually) -> None:
    """A peer of another uid is told Denied and disconnected, even if it reaches the socket."""
    with Server(state_dir / "s.sock") as server:
        (state_dir / "s.sock").chmod(0o666)
        state_dir.chmod(0o755)
        receiving, sending = os.pipe()
        pid = os.fork()
        if pid == 0:
            connect_as(NOBODY, state_dir / "s.sock", sending)
        os.close(sending)
        with open(receiving, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(pid, 0)
        with server.client() as client:
            assert client.call("daemon.ping")["result"] == {}

    error = json.loads(answer)["error"]
    assert (error["code"], error["data"]["name"]) == (-32003, "Denied")
    assert error["message"] == f"cannot connect: uid {NOBODY} does not own this daemon"


def connect_as(uid: int, path: Path, out: int) -> None:
    """In a forked child: connect under ``uid`` and copy everything that comes to ``out``."""
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(path))
            while data := client.recv(4096):
                os.write(out, data)
    finally:
        os._exit(0)


def test_running_out_of_descriptors_is_survived(state_dir: Path, eventually: Eventually) -> None:
    """While no descriptor is left, connections wait; they are served once there is one."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Server(state_dir / "s.sock"):
        client = socket.socket(socket.AF_UNIX)
        highest = max(map(int, os.listdir("/proc/self/fd")))
        held = [os.dup(0) for _ in range(highest)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, limits[1]))
        try:
            client.connect(str(state_dir / "s.sock"))
            client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping"}\n')
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.recv(100)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for descriptor in held:
                os.close(descriptor)
        client.settimeout(10)
        assert client.recv(100).startswith(b'{"jsonrpc"')
        client.close()
