"""The gate: one process per run, the only way out of the run's network namespace.

A program of its own, run by path by the run's keeper, with which it lives and ends: the daemon's
death is none of its business. It imports nothing but the standard library. Its policy is frozen
when it starts. docs/network.md describes what it allows, and what it refuses by which word.
"""

import os

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")

# Where the proxy listens, inside of each run's own network namespace.
PROXY_ADDRESS = "127.0.0.1"
PROXY_PORT = 3128
# Decisions of an attempt's gate, in the attempt's directory.
LOG_NAME = "gate.ndjson"
