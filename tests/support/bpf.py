"""A small interpreter of classic BPF, as the kernel's seccomp runs it, for either architecture."""

import errno
import struct
from collections.abc import Sequence

ALLOW = "allow"
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}
LONGEST = 4096

_INSTRUCTION = struct.Struct("<HBBI")
_RET_ALLOW, _RET_ERRNO, _ACTION = 0x7FFF0000, 0x00050000, 0xFFFF0000


class BadProgramError(Exception):
    """What the kernel would refuse to load."""


def decode(data: bytes) -> list[tuple[int, int, int, int]]:
    """The instructions of a program, checked as the kernel checks them. Raises BadProgramError."""
    program = list(_INSTRUCTION.iter_unpack(data))
    if not 0 < len(program) <= LONGEST:
        raise BadProgramError("its length")
    for place, (code, yes, no, value) in enumerate(program):
        if code == 0x20 and (value % 4 or value >= 64):
            raise BadProgramError(f"{place}: loads {value}")
        if code in (0x15, 0x35, 0x45) and place + 1 + max(yes, no) >= len(program):
            raise BadProgramError(f"{place}: jumps out of the program")
        if code not in (0x20, 0x15, 0x35, 0x45, 0x06):
            raise BadProgramError(f"{place}: code {code:#x}")
    if program[-1][0] != 0x06:
        raise BadProgramError("its end is no return")
    return program


def verdict(data: bytes, machine: str, number: int, arguments: Sequence[int] = ()) -> str:
    """``allow`` or the name of the error that a system call gets."""
    program = decode(data)
    values = [*arguments, *[0] * (6 - len(arguments))]
    call = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, AUDIT_ARCH[machine], 0, *values)
    accumulator, place = 0, 0
    while True:
        code, yes, no, value = program[place]
        place += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", call, value)
            case 0x15:
                place += yes if accumulator == value else no
            case 0x35:
                place += yes if accumulator >= value else no
            case 0x45:
                place += yes if accumulator & value else no
            case _:
                return _named(value)


def _named(value: int) -> str:
    if value == _RET_ALLOW:
        return ALLOW
    assert value & _ACTION == _RET_ERRNO, hex(value)
    return errno.errorcode[value & 0xFFFF]
