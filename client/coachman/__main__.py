"""``python -m coachman``: the command line without the launcher."""

from .cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
