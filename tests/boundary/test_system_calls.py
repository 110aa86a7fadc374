"""System calls from inside: one attempt a test, made by number so that no library helps or hides.

The filters as programs, on both architectures, are in tests/sandbox/test_seccomp.py.
"""

import errno
import os
from pathlib import Path

import pytest

from coachman_sandbox.executables import agent_access, python_runtime
from sandbox_launch import Box

NUMBERS = {
    row[0]: row[1 if os.uname().machine == "x86_64" else 2]
    for row in map(
        str.split, (Path(__file__).parents[1] / "sandbox" / "syscalls.txt").read_text().splitlines()
    )
    if not row[0].startswith("#")
}
CALL = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
arguments = [ctypes.c_ulong(int(word, 0)) for word in sys.argv[1:]]
said = libc.syscall(*arguments)
print("made" if said >= 0 else errno.errorcode[ctypes.get_errno()])
"""
# The same by the 32-bit entry of the processor: `getpid` has the number 20 there.
INT_80 = bytes.fromhex("53 b8 14 00 00 00 cd 80 5b c3")
NATIVE_32 = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex(%r))
enter = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print(enter())
"""


def call(box: Box, name: str, *arguments: int) -> str:
    """What a system call answers inside: ``made``, or the name of its error."""
    words = [NUMBERS[name], *map(hex, arguments)]
    done = box.run("/usr/bin/python3", "-I", "-c", CALL, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("family", [1, 2, 10, 16])
def test_a_socket_of_an_allowed_family_can_be_made(box: Box, family: int) -> None:
    """Unix, IPv4, IPv6 and routing netlink: what programs need to talk and to find addresses."""
    assert call(box, "socket", family, 2, 0) == "made"


@pytest.mark.parametrize("family", [3, 17, 21, 29, 30, 31, 38, 40, 43, 44, 45])
def test_a_socket_of_another_family_cannot_be_made(box: Box, family: int) -> None:
    """vsock, packet, alg, tipc, xdp and the like are unknown: no namespace divides them all."""
    assert call(box, "socket", family, 2, 0) == "EAFNOSUPPORT"


def test_a_family_is_not_hidden_by_higher_bits(box: Box) -> None:
    """vsock with a bit set that the kernel drops is still vsock."""
    assert call(box, "socket", (1 << 32) | 40, 1, 0) == "EAFNOSUPPORT"


def test_netlink_talks_of_routes_alone(box: Box) -> None:
    """Netfilter's, the audit's and the others' netlink cannot be opened."""
    assert {call(box, "socket", 16, 3, protocol) for protocol in (4, 9, 12, 15, 16)} == {
        "EPROTONOSUPPORT"
    }


def test_a_pair_of_sockets_is_unix(box: Box) -> None:
    """TIPC can be made in pairs as well, and is not."""
    assert call(box, "socketpair", 30, 1, 0, 0) == "EAFNOSUPPORT"


@pytest.mark.parametrize("flag", [17, 25, 26, 27, 28, 29, 30, 7])
def test_no_namespace_can_be_left_for_a_new_one(box: Box, flag: int) -> None:
    """unshare is refused for every kind of namespace, by the filter and by its limit of zero."""
    assert call(box, "unshare", 1 << flag) == "EPERM"


@pytest.mark.parametrize("flag", [17, 25, 26, 27, 28, 29, 30])
def test_no_process_begins_in_a_new_namespace(box: Box, flag: int) -> None:
    """clone is refused likewise."""
    assert call(box, "clone", (1 << flag) | 17, 0, 0, 0, 0) == "EPERM"


@pytest.mark.parametrize(
    "name", ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"]
)
def test_what_no_filter_can_judge_is_unknown(box: Box, name: str) -> None:
    """ENOSYS, so that libraries take an older way."""
    assert call(box, name, 0, 0) == "ENOSYS"


@pytest.mark.parametrize(
    "name",
    [
        "add_key",
        "request_key",
        "keyctl",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "fanotify_init",
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "setns",
        "open_tree",
        "fsopen",
        "move_mount",
        "open_by_handle_at",
        "kexec_load",
        "init_module",
        "reboot",
        "syslog",
        "quotactl",
        "swapon",
    ],
)
def test_what_agents_do_not_need_is_refused(box: Box, name: str) -> None:
    """EPERM whatever the arguments: keys, mounts, the kernel's larger interfaces, the machine."""
    assert call(box, name, 0, 0, 0) == "EPERM"


@pytest.mark.parametrize("command", [0x5412, 0x541C, 0x5423, (1 << 32) | 0x5412])
def test_nothing_can_be_typed_into_a_terminal(box: Box, command: int) -> None:
    """The filter answers before the kernel finds that descriptor 0 is no terminal."""
    assert call(box, "ioctl", 0, command, 0) == "EPERM"
    assert call(box, "ioctl", 0, 0x5413, 0) == "ENOTTY"


def test_an_unknown_number_is_unknown(box: Box) -> None:
    """A system call that a later kernel brings has to be judged first."""
    script = CALL.replace("int(word, 0)", "600")
    assert box.run("/usr/bin/python3", "-I", "-c", script, "0").stdout == "ENOSYS\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="this processor has no such entry")
def test_the_x32_abi_is_unknown(box: Box) -> None:
    """The bit that marks its numbers leads to no call."""
    script = CALL.replace("int(word, 0)", "0x40000000 | 39")
    assert box.run("/usr/bin/python3", "-I", "-c", script, "0").stdout == "ENOSYS\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="this processor has no such entry")
def test_the_32_bit_entry_is_unknown(box: Box) -> None:
    """`int 0x80` answers ENOSYS inside, where outside it is `getpid` (or also unknown)."""
    script = NATIVE_32 % INT_80.hex()
    assert box.run("/usr/bin/python3", "-I", "-c", script).stdout == f"{-errno.ENOSYS}\n"


def test_the_filter_holds_for_every_process_inside(box: Box) -> None:
    """The agent, its children and bubblewrap's init run under a filter."""
    said = box.sh("grep -h Seccomp: /proc/[0-9]*/status")
    assert said.split() == ["Seccomp:", "2"] * 2


def test_a_thread_can_still_be_made(own_box: Box) -> None:
    """What the C library does instead of clone3 works: threads, children, an event loop."""
    script = (
        "import asyncio, subprocess, threading\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())\n"
        "async def main():\n"
        "  server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)\n"
        "  reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())\n"
        "  print(await reader.read())\n"
        "asyncio.run(main())\n"
    )
    runtime = python_runtime()
    access = agent_access(env={}, credentials={}, python=runtime)
    done = own_box.run(runtime.path, "-I", "-c", script, access=access)
    assert done.stdout.split() == ["thread", "child", "b''"], done.stderr
