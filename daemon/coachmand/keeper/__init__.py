"""The keeper: owns one sandboxed agent process and outlives the daemon that started it.

A program of its own: it is run by path and imports nothing but the standard library. The daemon
imports the names below, which both sides share, and `system`. docs/keeper-protocol.md describes
the launch record, the files and the messages.

One thread and few imports on purpose: every parked run costs one of these processes.
"""

import os

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")

PROTOCOL_VERSION = 1
SOCKET_NAME = "keeper.sock"
LOCK_NAME = "keeper.lock"
STATE_NAME = "keeper.json"
EXIT_NAME = "exit.json"
LOG_NAME = "keeper.log"
STDIN_LOG_NAME = "stdin.log"
# Bubblewrap's own environment has it; the agent's, which is made anew, has not.
ATTEMPT_VARIABLE = "COACHMAN_ATTEMPT"

MAX_BODY_BYTES = 256 * 1024
