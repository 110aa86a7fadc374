"""Starts a gate: `python -I -S <this file>`, its orders on stdin; the keeper is its parent.

A script has no cached byte code, so that all the rest is in modules, which have.
"""

import os
import sys

if __name__ == "__main__":
    # Behind the standard library, so that nothing beside coachmand can replace a part of it.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

    from coachmand.gate.main import main

    sys.exit(main())
