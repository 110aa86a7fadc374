"""Gives back the memory that the daemon has freed.

What agents say passes through in pieces of every size. The C library keeps what was freed
behind anything that still lives, and without being told would keep all that a flood ever took.
A run that ended is freed by the collector of cycles, which by itself may come to it hours later.
"""

import ctypes
import gc
import os

import trio

# From glibc's malloc.h.
M_ARENA_MAX = -8
ARENAS = 2
EVERY_S = 2.0
# Less than this is not worth looking for.
GROWN_BYTES = 4 * 1024 * 1024
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def share_arenas() -> None:
    """Let all threads take memory from the same few arenas, where the C library can be told.

    Each thread would get one of its own and keep what it once took, for nothing: they take turns
    at the interpreter anyway. To be called before there are threads.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)


def resident_bytes() -> int:
    """What of this process is in memory. From /proc, which does not block."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


async def give_back() -> None:
    """Look now and then, for ever, where the C library can be told."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return
    # What is there now stays, and need not be looked at each time.
    gc.freeze()
    floor = resident_bytes()
    while True:
        await trio.sleep(EVERY_S)
        floor = min(floor, resident_bytes())
        if resident_bytes() >= floor + GROWN_BYTES:
            gc.collect()
            await trio.to_thread.run_sync(trim, 0)
            # What is left is in use.
            floor = resident_bytes()
