"""Entry of the git worker, run by path under ``python -I`` with the working directory ``/``."""

import sys
from pathlib import Path

# Under -I neither the script's directory nor PYTHONPATH is searched.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from coachmand.repos.serving import main

if __name__ == "__main__":
    main()
