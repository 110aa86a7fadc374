"""Sizes as people type them."""

from ..errors import UsageError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_bytes(text: str, what: str) -> int:
    """``1000``, ``512MiB``, ``2GiB`` in bytes; UsageError otherwise."""
    digits = text.rstrip("BKMGTi")
    unit = text[len(digits) :] or "B"
    if not digits.isascii() or not digits.isdigit() or unit not in _UNITS:
        raise UsageError(f"cannot {what}: {text!r} is not a size", hint="write 1000, 512MiB, 2GiB")
    return int(digits) << 10 * _UNITS.index(unit)
