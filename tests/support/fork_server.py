"""The program of `forked_process`: loads the daemon's modules once, and forks daemons."""

import gc
import json
import os
import socket
import sys

from coachmand import failpoints, main

MESSAGE_BYTES = 256 * 1024


def serve(line: socket.socket) -> None:
    """Answer each message: with a new daemon's pid, or with the exit code of one that ended.

    ``{"env": {…}}`` comes with where the daemon tells and logs, ``{"ended": PID}`` alone.
    """
    while True:
        text, fds, _, _ = socket.recv_fds(line, MESSAGE_BYTES, 2)
        if not text:
            return
        asked = json.loads(text)
        answer = fork(line, asked["env"], fds) if fds else code_of(asked["ended"])
        line.send(str(answer).encode())


def fork(line: socket.socket, env: dict[str, str], fds: list[int]) -> int:
    """The pid of a new daemon."""
    pid = os.fork()
    if pid == 0:
        line.close()
        be_daemon(env, *fds)
    for fd in fds:
        os.close(fd)
    return pid


def code_of(pid: int) -> int:
    """How a daemon ended, as subprocess tells it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def be_daemon(env: dict[str, str], ready: int, log: int) -> None:
    """What `coachmand` does once it is loaded. Does not return."""
    code = 70
    try:
        os.setsid()
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        os.environ.clear()
        os.environ.update(env)
        failpoints.arm(env.get(failpoints.VARIABLE, ""))
        code = main.run_daemon(["--ready-fd", str(ready)])
    finally:
        os._exit(code)


if __name__ == "__main__":
    # What is never looked at by a collection is not copied by one.
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
