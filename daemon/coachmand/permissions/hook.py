"""Runs a program of the user's on a document: its answer, within limits of time and bytes."""

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from typing import Any

import trio

from .programs import Program, UntrustedError

LIMIT_S = 60.0
MAX_ANSWER_BYTES = 64 * 1024
MAX_COMPLAINT_BYTES = 2048
REAP_LIMIT_S = 5.0
# What it left running may hold its stderr for ever.
COMPLAINT_LIMIT_S = 0.5
# What a program of the user's is lent of the daemon's environment.
LENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR")


class HookError(Exception):
    """It gave no answer; the text says why."""


async def ask(
    program: Program,
    document: bytes,
    environment: Mapping[str, str],
    arguments: tuple[str, ...] = (),
    limit_s: float = LIMIT_S,
) -> bytes:
    """What the program writes to its stdout, with ``document`` on its stdin. Raises HookError.

    It is run by its descriptor, in a session of its own, and nothing of it is left where it fails.
    """
    try:
        await trio.to_thread.run_sync(program.check)
        process = await spawn(program, environment, arguments)
    except (OSError, UntrustedError) as error:
        raise HookError(str(error)) from error
    answer, complaint = bytearray(), bytearray()
    try:
        with trio.fail_after(limit_s):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_write, process, document)
                complained = await nursery.start(listen, process.stderr, complaint)
                await _read(process.stdout, answer, MAX_ANSWER_BYTES + 1, False)
                if len(answer) <= MAX_ANSWER_BYTES:
                    await process.wait()
                    with trio.move_on_after(COMPLAINT_LIMIT_S):
                        await complained.wait()
                nursery.cancel_scope.cancel()
    except trio.TooSlowError:
        raise HookError(f"it took longer than {limit_s:g} s") from None
    finally:
        await end(process)
    if len(answer) > MAX_ANSWER_BYTES:
        raise HookError(f"it answered more than {MAX_ANSWER_BYTES >> 10} KiB")
    if process.returncode != 0:
        raise HookError(ended_with(process, complaint))
    return bytes(answer)


def ended_with(process: trio.Process, complaint: bytearray) -> str:
    """How a program ended, in words, and what it said of that."""
    said = complaint.decode("utf-8", "replace").strip()
    return f"it ended with status {process.returncode}{f': {said}' if said else ''}"


def lent(environment: Mapping[str, str]) -> dict[str, str]:
    """What a program of the user's gets of ``environment``."""
    return {name: environment[name] for name in LENT if name in environment}


def document(members: Mapping[str, Any]) -> bytes:
    """A document as such a program reads it: one line of JSON."""
    return json.dumps(members, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


async def spawn(
    program: Program,
    environment: Mapping[str, str],
    arguments: tuple[str, ...] = (),
    *,
    answers: bool = True,
) -> trio.Process:
    """Run a program by its descriptor, in a session of its own. Raises OSError.

    What one prints that ``answers`` nothing is dropped.
    """
    return await trio.lowlevel.open_process(
        [program.path, *arguments],
        # A script's interpreter opens it again by this name, and so needs the descriptor.
        executable=f"/proc/self/fd/{program.fd}",
        pass_fds=(program.fd,),
        stdin=PIPE,
        stdout=PIPE if answers else DEVNULL,
        stderr=PIPE,
        cwd="/",
        env=dict(environment),
        start_new_session=True,
    )


async def _write(process: trio.Process, document: bytes) -> None:
    assert process.stdin is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async with process.stdin:
            await process.stdin.send_all(document)


async def listen(
    stream: trio.abc.ReceiveStream | None,
    into: bytearray,
    task_status: trio.TaskStatus[trio.Event] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take in what it complains of; the event that is told at once says that this is all."""
    over = trio.Event()
    task_status.started(over)
    await _read(stream, into, MAX_COMPLAINT_BYTES, True)
    over.set()


async def _read(
    stream: trio.abc.ReceiveStream | None, into: bytearray, most: int, goes_on: bool
) -> None:
    """Take in ``most`` bytes; the rest is read as well, and dropped, where it ``goes_on``."""
    assert stream is not None
    async for data in stream:
        into += data[: most - len(into)]
        if len(into) >= most and not goes_on:
            return


async def end(process: trio.Process) -> None:
    """Leave nothing behind of one that still runs; close our ends."""
    with trio.CancelScope(shield=True):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with trio.move_on_after(REAP_LIMIT_S):
                await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                await stream.aclose()
