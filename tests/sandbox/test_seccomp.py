"""The system call filters as programs: what each call gets, on either architecture."""

import subprocess
import sys
from pathlib import Path

import pytest

import bpf
from coachman_sandbox import seccomp
from coachman_sandbox.bubblewrap import compile_policy, describe
from coachman_sandbox.policy import Policy
from coachman_sandbox.seccomp import FilterMissing
from sourcetree import ROOT

MACHINES = pytest.mark.parametrize("machine", seccomp.MACHINES)
HIGH = 1 << 32
X32 = 0x40000000


def table(machine: str) -> dict[str, tuple[int, str]]:
    """Number and expected verdict of every system call of a machine, by name."""
    column = 1 if machine == "x86_64" else 2
    lines = (Path(__file__).parent / "syscalls.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[0]: (int(row[column]), row[3]) for row in rows if row[column] != "-"}


def judge(machine: str, name: str, *arguments: int) -> str:
    number = table(machine)[name][0]
    return bpf.verdict(seccomp.program("strict", machine), machine, number, arguments)


def test_the_shipped_filters_are_what_the_script_makes() -> None:
    """`scripts/seccomp.py --check` finds nothing to write."""
    command = [sys.executable, "scripts/seccomp.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@MACHINES
def test_every_system_call_gets_its_verdict(machine: str) -> None:
    """Each known call is allowed, refused or unknown as the table says."""
    program = seccomp.program("strict", machine)
    expected = {name: row for name, row in table(machine).items() if row[1] != "argument"}
    found = {
        name: (number, bpf.verdict(program, machine, number))
        for name, (number, _) in expected.items()
    }
    assert len(found) > 300
    assert found == expected


@MACHINES
def test_what_nobody_has_judged_is_unknown(machine: str) -> None:
    """Numbers behind the last known one answer ENOSYS, x32's and negative ones among them."""
    program = seccomp.program("strict", machine)
    numbers = [470, 500, 512, 547, 1 << 20, X32, X32 | 1, X32 | 41, X32 | 547, -1]
    assert {bpf.verdict(program, machine, number) for number in numbers} == {"ENOSYS"}


@MACHINES
def test_a_foreign_architecture_is_unknown(machine: str) -> None:
    """No number means anything when it comes by another ABI, as `int 0x80` does."""
    program = seccomp.program("strict", machine)
    foreign = [name for name in bpf.AUDIT_ARCH if name != machine]
    found = {bpf.verdict(program, name, number) for name in foreign for number in range(470)}
    assert found == {"ENOSYS"}


@MACHINES
def test_socket_families_are_an_allow_list(machine: str) -> None:
    """Unix, IPv4, IPv6 and routing netlink can be made; every other family is unknown."""
    found = {family: judge(machine, "socket", family, 1, 0) for family in range(1, 64)}
    assert {family for family, what in found.items() if what == "allow"} == {1, 2, 10, 16}
    assert set(found.values()) == {"allow", "EAFNOSUPPORT"}
    # 32 bits are all that the kernel looks at.
    assert judge(machine, "socket", HIGH | 40, 1, 0) == "EAFNOSUPPORT"
    assert judge(machine, "socket", HIGH | 2, HIGH | 1, HIGH) == "allow"


@MACHINES
def test_protocols_are_an_allow_list_too(machine: str) -> None:
    """TCP, UDP, ICMP and MPTCP, and of netlink the routes; nothing that loads a module."""
    for family in (2, 10):
        found = {p: judge(machine, "socket", family, 1, p) for p in range(300)}
        assert {p for p, what in found.items() if what == "allow"} == {0, 1, 6, 17, 58, 262}
        assert judge(machine, "socket", family, 5, HIGH | 132) == "EPROTONOSUPPORT"
    netlink = {p: judge(machine, "socket", 16, 3, p) for p in range(32)}
    assert {p for p, what in netlink.items() if what == "allow"} == {0}


@MACHINES
def test_socket_pairs_are_unix(machine: str) -> None:
    """No other family can be made in pairs either."""
    assert judge(machine, "socketpair", 1, 1, 0) == "allow"
    assert judge(machine, "socketpair", 30, 1, 0) == "EAFNOSUPPORT"
    assert judge(machine, "socketpair", HIGH | 30, 1, 0) == "EAFNOSUPPORT"


@MACHINES
def test_nothing_can_be_typed_into_a_terminal(machine: str) -> None:
    """TIOCSTI, TIOCLINUX and TIOCSETD are refused, also behind a bit that the kernel drops."""
    for command in (0x5412, 0x541C, 0x5423):
        assert judge(machine, "ioctl", 0, command) == "EPERM"
        assert judge(machine, "ioctl", 0, HIGH | command) == "EPERM"
    for command in (0x5401, 0x5413, 0x5411, 0x541B, 0x5424):
        assert judge(machine, "ioctl", 0, command) == "allow"


@MACHINES
def test_no_namespace_can_be_made(machine: str) -> None:
    """Each namespace flag of clone and unshare is refused, alone and among others."""
    flags = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]
    for flag in flags:
        for call in ("clone", "unshare"):
            assert judge(machine, call, flag) == "EPERM"
            assert judge(machine, call, HIGH | flag | 0x100) == "EPERM"
    assert judge(machine, "unshare", 0x80) == "EPERM"
    # A thread, a fork, a vfork; a process that lets go of its descriptors' table.
    for plain in (0x3D0F00, 0x1200011, 0x4111, 17):
        assert judge(machine, "clone", plain) == "allow"
    assert judge(machine, "unshare", 0x400) == "allow"


@MACHINES
def test_personalities_that_tools_need_can_be_set(machine: str) -> None:
    """Asking, 32 bits, an old release and fixed addresses are allowed, and nothing else."""
    for value in (0xFFFFFFFF, 0, 0x8, 0x20000, 0x20008, 0x40000):
        assert judge(machine, "personality", value) == "allow"
    for value in (0x400000, 0x100000, 0x1, HIGH | 0x400000, 0xFFFFFFFE):
        assert judge(machine, "personality", value) == "EPERM"


def test_a_machine_without_a_filter_is_named() -> None:
    """Nothing compiles there: no run goes unfiltered."""
    with pytest.raises(FilterMissing, match="cannot filter system calls on vax"):
        compile_policy(Policy("edit", (), cwd="/"), "vax")


@MACHINES
def test_the_filter_travels_as_data_and_is_shown_by_its_digest(machine: str) -> None:
    """bubblewrap reads it from a descriptor of its own, the last one of the data."""
    compiled = compile_policy(Policy("edit", (), cwd="/"), machine)
    assert compiled.args[-2:] == ("--seccomp", "{fd:0}")
    assert compiled.data == (seccomp.program("strict", machine),)
    shown = describe(Policy("edit", (), cwd="/"))["system_calls"]
    assert shown == {"filter": "strict", "sha256": seccomp.digest("strict")}
