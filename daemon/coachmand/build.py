"""Which build of the daemon this is: its version, and a digest over its own source."""

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DIGEST_CHARACTERS = 12


def installed_version() -> str:
    """The distribution's version."""
    try:
        return version("coachman")
    except PackageNotFoundError:
        return "0+unknown"


def build_digest() -> str:
    """A digest over the daemon's modules: those of one digest run the same code. Blocks."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGEST_CHARACTERS]
