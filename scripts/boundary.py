"""Says which bwrap is used and why, and whether this host lets it build a sandbox.

Exits 0 where it does, 71 with cause and remedy where it does not.
"""

import os
import sys

from coachman_sandbox.bubblewrap import find_bwrap
from coachman_sandbox.probe import probe

EXIT_BOUNDARY = 71
WHY = {
    "system": "the system's own",
    "wheel": "from the pinned wheel in .venv, since this machine has none of its own",
}


def main() -> int:
    bwrap = find_bwrap(os.environ)
    print(f"bwrap {bwrap.version} at {bwrap.path} ({WHY.get(bwrap.source, bwrap.source)})")
    found = probe(bwrap)
    if found.ok:
        return 0
    print(f"cannot build a sandbox: {found.cause}\n  next: {found.remedy}", file=sys.stderr)
    return EXIT_BOUNDARY


sys.exit(main())
