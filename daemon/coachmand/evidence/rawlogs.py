"""The raw wire log of an attempt: verbatim while replay needs it, masked once it does not."""

import os
from pathlib import Path

from .. import durable
from ..redaction import Redactor

BLOCK_BYTES = 1024 * 1024


def mask_file(path: Path, redactor: Redactor) -> None:
    """Star out every known secret in place, at equal length. Blocks."""
    if redactor.longest == 0:
        return
    overlap = redactor.longest - 1
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        offset = 0
        while len(block := os.pread(fd, BLOCK_BYTES + overlap, offset)) > 0:
            masked = redactor.mask(block)
            if masked != block:
                durable.overwrite(fd, masked, offset)
            offset += BLOCK_BYTES
        durable.sync(fd)
    finally:
        os.close(fd)


def mask_run(directory: Path, redactor: Redactor) -> None:
    """Mask every verbatim log of a run, and drop what only replay needed. Blocks.

    Only what keeper and daemon wrote: the agent's own files are walked by nobody here.
    """
    for path in [*(directory / "attempts").rglob("*"), *(directory / "prompts").iterdir()]:
        if path.name == "checkpoint.json":
            durable.remove(path)
        elif path.name.startswith(("stdout.", "stderr.", "stdin.log")) or path.suffix == ".md":
            mask_file(path, redactor)


def tail(paths: list[Path], size: int) -> bytes:
    """The last ``size`` bytes of a stream's segments. Blocks."""
    out = b""
    for path in reversed(paths):
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - (size - len(out))))
            out = file.read() + out
        if len(out) >= size:
            break
    return out[-size:]
