"""Writes the system call filters of the sandbox, classic BPF for the kernel's seccomp.

seccomp.py [--check]: with --check nothing is written; exit 1 names what is out of date. What is
filtered, and why, is in docs/sandbox.md. The programs are small enough to need no library: a
syscall's block is a comparison with its number, some comparisons of one argument, and returns.
"""

import errno
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILTERS = ROOT / "sandbox/coachman_sandbox/filters"

# linux/audit.h, of the 64-bit ABI alone.
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# The first number that nobody has judged yet; common to all architectures from 424 on.
FIRST_UNKNOWN = 470

# linux/bpf_common.h and linux/seccomp.h
LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K
RET_ALLOW = 0x7FFF0000
RET_ERRNO = 0x00050000
NUMBER_AT, ARCH_AT, ARGUMENTS_AT = 0, 4, 16

Instruction = tuple[int, int, int, int]
Block = list[Instruction]

# The same on all architectures, as are all numbers from 424 on.
COMMON = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "open_tree_attr": 467,
    "quotactl_fd": 443,
}
# Refused with EPERM whatever the arguments. A syscall that an architecture lacks has no number.
REFUSED: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        **COMMON,
        # File systems and roots
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "chroot": 161,
        "setns": 308,
        "open_by_handle_at": 304,
        # Keyrings, which no namespace divides
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        # Large interfaces of the kernel that agents' tools do not need
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "fanotify_init": 300,
        # The machine
        "kexec_load": 246,
        "kexec_file_load": 320,
        "reboot": 169,
        "syslog": 103,
        "acct": 163,
        "init_module": 175,
        "finit_module": 313,
        "delete_module": 176,
        "swapon": 167,
        "swapoff": 168,
        "quotactl": 179,
        "vhangup": 153,
        "nfsservctl": 180,
        "lookup_dcookie": 212,
        "iopl": 172,
        "ioperm": 173,
        "modify_ldt": 154,
        "uselib": 134,
    },
    "aarch64": {
        **COMMON,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "chroot": 51,
        "setns": 268,
        "open_by_handle_at": 265,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "fanotify_init": 262,
        "kexec_load": 104,
        "kexec_file_load": 294,
        "reboot": 142,
        "syslog": 116,
        "acct": 89,
        "init_module": 105,
        "finit_module": 273,
        "delete_module": 106,
        "swapon": 224,
        "swapoff": 225,
        "quotactl": 60,
        "vhangup": 58,
        "nfsservctl": 42,
        "lookup_dcookie": 18,
    },
}
# Said to be unknown: programs then take an older way. The flags of clone3 are in memory, where
# no filter can look.
UNKNOWN = {"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
# Judged by an argument.
JUDGED: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "socket": 41,
        "socketpair": 53,
        "ioctl": 16,
        "clone": 56,
        "unshare": 272,
        "personality": 135,
    },
    "aarch64": {
        "socket": 198,
        "socketpair": 199,
        "ioctl": 29,
        "clone": 220,
        "unshare": 97,
        "personality": 92,
    },
}

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
# Any, ICMP, TCP, UDP, ICMPv6, MPTCP: the others would have the kernel load their modules.
IP_PROTOCOLS = (0, 1, 6, 17, 58, 262)
# CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}; NEWTIME lies among the bits of clone's exit signal.
NEW_NAMESPACES = 0x7E020000
NEW_TIME_NAMESPACE = 0x80
# TIOCSTI and TIOCLINUX type into a terminal, TIOCSETD has the kernel load line disciplines.
TERMINAL_COMMANDS = (0x5412, 0x541C, 0x5423)
# Of personality: asking for it, and UNAME26 (0x20000), ADDR_NO_RANDOMIZE (0x40000), PER_LINUX32
# (0x8), which `setarch`, debuggers and sanitizers set.
ASKED_PERSONALITY = 0xFFFFFFFF
OTHER_PERSONALITIES = 0xFFFFFFFF & ~0x00060008


def allow() -> Instruction:
    return (RETURN, 0, 0, RET_ALLOW)


def refuse(number: int) -> Instruction:
    return (RETURN, 0, 0, RET_ERRNO | number)


def argument(index: int) -> Instruction:
    """Loads the low half of an argument: the kernel's own types here are 32 bits wide.

    Compared whole, an argument with a bit set above these would pass for another value.
    """
    return (LOAD, 0, 0, ARGUMENTS_AT + 8 * index)


def on_number(number: int, block: Block) -> Block:
    """A block of one syscall; each of its ways ends in a return."""
    return [(EQUAL, 0, len(block), number), *block]


def only(index: int, values: tuple[int, ...], error: int) -> Block:
    """Allows the values, and fails with the error otherwise."""
    checks = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [argument(index), *checks, refuse(error), allow()]


def none_of(index: int, values: tuple[int, ...]) -> Block:
    """EPERM for the values, everything else is allowed."""
    checks = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [argument(index), *checks, allow(), refuse(errno.EPERM)]


def without(index: int, bits: int) -> Block:
    """EPERM where any of the bits is set."""
    return [argument(index), (ANY_BIT, 0, 1, bits), refuse(errno.EPERM), allow()]


def socket() -> Block:
    """Families are an allow-list: no network namespace divides some of the others (vsock)."""
    internet = only(2, IP_PROTOCOLS, errno.EPROTONOSUPPORT)
    netlink = only(2, (NETLINK_ROUTE,), errno.EPROTONOSUPPORT)
    return [
        argument(0),
        (EQUAL, 0, 1, AF_UNIX),
        allow(),
        (EQUAL, 1, 0, AF_INET),
        (EQUAL, 0, len(internet), AF_INET6),
        *internet,
        (EQUAL, 0, len(netlink), AF_NETLINK),
        *netlink,
        refuse(errno.EAFNOSUPPORT),
    ]


def personality() -> Block:
    return [
        argument(0),
        (EQUAL, 2, 0, ASKED_PERSONALITY),
        (ANY_BIT, 0, 1, OTHER_PERSONALITIES),
        refuse(errno.EPERM),
        allow(),
    ]


BLOCKS: Mapping[str, Block] = {
    "socket": socket(),
    "socketpair": only(0, (AF_UNIX,), errno.EAFNOSUPPORT),
    "ioctl": none_of(1, TERMINAL_COMMANDS),
    "clone": without(0, NEW_NAMESPACES),
    "unshare": without(0, NEW_NAMESPACES | NEW_TIME_NAMESPACE),
    "personality": personality(),
}


def program(machine: str) -> Block:
    """The whole filter of one architecture."""
    made: Block = [
        # `int 0x80` brings other numbers and another meaning of the arguments.
        (LOAD, 0, 0, ARCH_AT),
        (EQUAL, 1, 0, AUDIT_ARCH[machine]),
        refuse(errno.ENOSYS),
        (LOAD, 0, 0, NUMBER_AT),
        # Also the numbers of x32, which have bit 30 set or lie from 512 on.
        (AT_LEAST, 0, 1, FIRST_UNKNOWN),
        refuse(errno.ENOSYS),
    ]
    for name, number in JUDGED[machine].items():
        made += on_number(number, BLOCKS[name])
    for number in UNKNOWN.values():
        made += on_number(number, [refuse(errno.ENOSYS)])
    for number in REFUSED[machine].values():
        made += on_number(number, [refuse(errno.EPERM)])
    return [*made, allow()]


def encode(instructions: Block) -> bytes:
    """As the kernel's struct sock_filter; both architectures are little-endian."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def main(argv: list[str]) -> int:
    """Write the filters, or tell which of them differ."""
    made = {FILTERS / f"strict.{name}.bpf": encode(program(name)) for name in AUDIT_ARCH}
    stale = [path for path, data in made.items() if not path.exists() or path.read_bytes() != data]
    if "--check" not in argv:
        for path in stale:
            path.write_bytes(made[path])
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run scripts/seccomp", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
