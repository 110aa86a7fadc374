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


def installed_mark() -> tuple[str, int, int] | None:
    """What changes whenever the distribution is installed anew. Blocks briefly.

    None while that is under way, for installers write RECORD last, and where the package was
    not copied: an editable installation follows its sources only when it is asked to restart.
    """
    site = Path(__file__).parent.parent
    for record in site.glob("coachman-*.dist-info/RECORD"):
        facts = record.stat()
        return record.parent.name, facts.st_ino, facts.st_mtime_ns
    return None
