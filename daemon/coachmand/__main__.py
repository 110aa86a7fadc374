"""The daemon's program: ``coachmand``, or ``python -I -m coachmand``."""

import sys

from coachmand.main import run_daemon


def main() -> None:
    """Run the daemon until it is told to detach; exits with the codes of the command line."""
    sys.exit(run_daemon(sys.argv[1:]))


if __name__ == "__main__":
    main()
