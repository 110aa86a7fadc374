"""Starts the keeper: `python -I -S <this file> [lock descriptor]`, the record on stdin.

A script has no cached byte code, so that all the rest is in modules, which have.
"""

import os
import sys

if __name__ == "__main__":
    # Behind the standard library, so that nothing beside coachmand can replace a part of it.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

    from coachmand.keeper.main import main

    sys.exit(main())
