"""The program of `forked_daemon`: loads the daemon's modules once, and forks daemons."""

import contextlib
import json
import os
import socket
import sys

from coachmand import failpoints, main

MESSAGE_BYTES = 256 * 1024


def serve(line: socket.socket) -> None:
    """Fork a daemon for each message: its environment, and where it tells and logs."""
    while True:
        asked, fds, _, _ = socket.recv_fds(line, MESSAGE_BYTES, 2)
        # Those whose numbers are known to whoever wanted them, and not before.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not asked:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            be_daemon(json.loads(asked), *fds)
        for fd in fds:
            os.close(fd)
        line.send(str(pid).encode())


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
    serve(socket.socket(fileno=int(sys.argv[1])))
