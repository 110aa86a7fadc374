"""Says which bwrap is used and why, and whether this host lets it build a sandbox.

Exits 0 where it does, 71 with cause and remedy where it does not. With ``--find`` it
only looks for a bwrap that is new enough.
"""

import os
import sys

from coachman_sandbox.causes import Probe, no_bwrap
from coachman_sandbox.finder import BwrapMissing, find_bwrap
from coachman_sandbox.machine import read_machine
from coachman_sandbox.probe import probe

EXIT_BOUNDARY = 71


def main(only_find: bool) -> int:
    try:
        bwrap = find_bwrap(os.environ)
    except BwrapMissing as missing:
        return refused(no_bwrap(missing, read_machine(os.environ)))
    print(f"bwrap {bwrap.version}: {bwrap.why}", flush=True)
    if only_find:
        return 0
    found = probe(bwrap)
    return 0 if found.ok else refused(found)


def refused(found: Probe) -> int:
    """Say why, and what to do about it."""
    print(f"cannot build a sandbox: {found.cause}\n  next: {found.remedy}", file=sys.stderr)
    return EXIT_BOUNDARY


sys.exit(main("--find" in sys.argv))
