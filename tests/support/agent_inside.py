"""A family of runs for tests: a parent that stays, over whose socket the test speaks for it."""

import json
import shlex
import socket
import time
from pathlib import Path
from typing import Any

import coachman
from daemon_process import DaemonProcess

LIMIT_S = 30.0


def delegate_socket(daemon: DaemonProcess, run: str) -> str:
    """A run's own socket as the host names it: the same that its sandbox shows."""
    return str(daemon.state / "runs" / run / "delegate" / "control.sock")


def parent(daemon: DaemonProcess, repo: Path, prompt: str = "sleep 600", **options: Any) -> str:
    """A run that may start others, active by now; its id."""
    options = {"delegate": {"depth": 2, "children": 4}, "agent": "demo", **options}
    with daemon.client() as client:
        run = client.run.start(prompt, dir=str(repo), **options)["run"]
    wait_until_active(daemon, run)
    return run


def wait_until_active(daemon: DaemonProcess, run: str) -> None:
    """Until the run's agent has its prompt."""
    ends = time.monotonic() + LIMIT_S
    with daemon.client() as client:
        while client.run.get(run)["state"] in ("queued", "preparing"):
            assert time.monotonic() < ends, f"{run} did not begin"
            time.sleep(0.02)


def inside(daemon: DaemonProcess, run: str) -> coachman.Client:
    """A client on the run's own socket."""
    return coachman.connect(delegate_socket(daemon, run))


def refusal(client: coachman.Client, method: str, params: dict[str, Any]) -> coachman.CoachmanError:
    """What the daemon refuses the request with; it must."""
    try:
        answer = client.call(method, params)
    except coachman.CoachmanError as error:
        return error
    raise AssertionError(f"{method} {params} was answered: {answer}")


def raw(path: str) -> socket.socket:
    """A bare connection."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(LIMIT_S)
    connection.connect(path)
    return connection


def ask(connection: socket.socket, method: str, **params: Any) -> None:
    """Send one request."""
    request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    connection.sendall(json.dumps(request).encode() + b"\n")


def starts(prompt: str, *options: str) -> str:
    """A line of the demo agent's that starts a child whose prompt has several lines."""
    words = " ".join(map(shlex.quote, options))
    lines = shlex.quote(prompt.replace("\n", "\\n"))
    return f"run printf {lines} | coachman run -a demo {words} -"


def outputs(daemon: DaemonProcess, run: str) -> list[str]:
    """What the commands of a demo run printed, each in its order."""
    return [
        event["output"]["output"]
        for event in daemon.events(run)
        if event["type"] == "tool.call_update" and isinstance(event.get("output"), dict)
    ]
