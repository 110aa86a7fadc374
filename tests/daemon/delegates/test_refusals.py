"""What a run may not do over its own socket: each attempt is refused, and says what it is about."""

import json
import socket
from pathlib import Path
from typing import Any

from agent_inside import ask, delegate_socket, inside, parent, raw, refusal
from coachman import wire
from daemon_process import DaemonProcess, git

# Over the socket of a run with permissions ask, one level and two children below it, an hour,
# 1,000 tokens and 1 MiB of output. What is named is the parameter or the fact that is refused.
FACTS: list[tuple[dict[str, Any], str]] = [
    ({"dir": "/"}, "dir"),
    ({"argv": ["/bin/sh"]}, "argv"),
    ({"check": "true"}, "check"),
    ({"on_event": "/bin/cat"}, "on_event"),
    ({"env": {"PATH": "/tmp"}}, "env"),
    ({"env": {"SSL_CERT_FILE": "/etc/shadow"}}, "env"),
    ({"session": "somebody's"}, "session"),
    ({"permissions": "allow"}, "permissions"),
    ({"network": ["full"]}, "network: full"),
    ({"profile": "host"}, "profile: host"),
    ({"profile": "sealed"}, "profile: no run that another one starts is sealed"),
    ({"agent": "claude"}, "agent"),
    ({"agent": "command"}, "agent"),
    ({"timeouts": {"wall_s": 7200}}, "timeouts.wall_s"),
    ({"timeouts": {"turn_s": 601}}, "timeouts.turn_s"),
    ({"limits": {"tokens": 1001}}, "limits.tokens"),
    ({"output_limit": 1 << 21}, "output_limit"),
    ({"priority": 1}, "priority"),
    ({"delegate": {"depth": 1, "children": 1}}, "delegate.depth"),
    ({"delegate": {"depth": 0, "children": 3}}, "delegate.children"),
    ({"delegate": {"depth": 0, "children": 1, "tokens": 2000}}, "delegate.tokens"),
    ({"delegate": {"depth": 0, "children": 1, "agents": ["claude"]}}, "delegate.agents"),
    ({"task": "secret"}, "task"),
    ({"base": "main"}, "base"),
    ({"base": "refs/coachman/run/anybody"}, "base"),
]
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("permission.answer", {"request": "p1", "kind": "allow"}, "permission.answer"),
    ("lease.claim", {"run": "@", "ttl_s": 60}, "lease.claim"),
    ("daemon.shutdown", {}, "daemon.shutdown"),
    ("daemon.status", {}, "daemon.status"),
    ("daemon.cleanup", {"all": True}, "daemon.cleanup"),
    ("agent.list", {}, "agent.list"),
    ("task.list", {}, "task.list"),
    ("profile.explain", {"profile": "edit"}, "profile.explain"),
    ("run.list", {"here": "/"}, "here"),
    ("run.get", {"run": "@", "dir": "/"}, "dir"),
    ("event.subscribe", {"filter": {"here": "/"}}, "filter.here"),
]


def bounded_parent(daemon: DaemonProcess, repo: Path) -> str:
    return parent(
        daemon,
        repo,
        permissions="ask",
        timeouts={"wall_s": 3600, "turn_s": 600},
        output_limit=1 << 20,
        delegate={"depth": 1, "children": 2, "tokens": 1000},
    )


def test_whatever_exceeds_the_parent_is_refused_by_name(daemon: DaemonProcess, repo: Path) -> None:
    """More time, more freedom, other agents, commits and tasks: each refusal names the fact."""
    with daemon.client() as client:
        other = client.run.start("say hi", dir=str(repo), agent="demo", task="secret")["run"]
        client.run.wait([other])
    git(repo, "checkout", "-q", "-b", "later")
    git(repo, "commit", "-q", "--allow-empty", "-m", "not of the parent's")
    foreign = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "-q", "main")
    run = bounded_parent(daemon, repo)
    attempts = [*FACTS, ({"base": foreign}, "base"), ({"base": foreign[:10]}, "base")]
    with inside(daemon, run) as client:
        told = [
            (refusal(client, "run.start", {"prompt": "say hi", "agent": "demo", **given}), fact)
            for given, fact in attempts
        ]
        rows = client.run.list(all=True)["runs"]

    wrong = [(str(error), fact) for error, fact in told if error.name != "Denied"]
    unnamed = [(str(error), fact) for error, fact in told if fact not in error.message]
    assert (wrong, unnamed) == ([], [])
    assert [row["run"] for row in rows] == [run]
    hints = {fact: str(error.hint) for error, fact in told}
    assert hints["network: full"] == "leave --network out to have what it has"
    assert hints["profile: host"] == "leave --profile out to have what it has"
    assert not [error for error, _ in told if "--delegate" in f"{error.message} {error.hint}"]


def test_methods_and_places_of_others_are_refused_by_name(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Permissions, leases, the daemon, tasks and paths of the host are out of a run's reach."""
    run = bounded_parent(daemon, repo)
    with inside(daemon, run) as client:
        told = [(refusal(client, method, given), name) for method, given, name in CALLS]
        itself = [
            refusal(client, "run.cancel", {"runs": [run]}),
            refusal(client, "run.prompt", {"run": run, "prompt": "more"}),
            refusal(client, "run.wait", {"runs": [run]}),
        ]
        unknown = refusal(client, "run.start", {"prompt": "x", "nonsense": 1})

    wrong = [(str(error), name) for error, name in told if error.name != "Denied"]
    assert wrong == []
    assert [str(error) for error, name in told if name not in error.message] == []
    assert {error.name for error in itself} == {"Denied"}
    assert unknown.name == "InvalidParams"


def test_what_is_left_out_comes_from_the_parent(daemon: DaemonProcess, repo: Path) -> None:
    """A child that asks for nothing has its parent's permissions, and no more time or tokens."""
    run = bounded_parent(daemon, repo)
    with inside(daemon, run) as client:
        child = client.run.start("sleep 600", dir=None)["run"]
    with daemon.client() as client:
        above, below = client.run.get(run)["request"], client.run.get(child)["request"]

    assert (below["agent"], below["permissions"]) == ("demo", "ask")
    assert below["wall_s"] <= 3600
    assert below["wall"]["epoch_ms"] <= above["wall"]["epoch_ms"]
    assert (below["turn_s"], below["limits"]["tokens"]) == (600, 1000)
    assert (below["delegate"]["depth"], below["ancestors"]) == (0, [run])


def test_a_key_is_the_callers_own(daemon: DaemonProcess, repo: Path) -> None:
    """The same request key means another run to the user than to a run, and the same twice."""
    run = parent(daemon, repo)
    with daemon.client() as client:
        users = client.run.start("say hi", dir=str(repo), agent="demo", request_key="k")
    with inside(daemon, run) as client:
        first = client.run.start("say hi", dir=None, agent="demo", request_key="k")
        again = client.run.start("say hi", dir=None, agent="demo", request_key="k")

    assert users["run"] != first["run"] == again["run"]
    assert (first["new"], again["new"]) == (True, False)


def accepted(path: str) -> socket.socket:
    """A connection that is one of those that are allowed: the last client's may just be going."""
    while True:
        connection = raw(path)
        ask(connection, "daemon.ping")
        if b"result" in connection.recv(65536):
            return connection
        connection.close()


def test_a_socket_takes_four_connections_and_eight_requests_of_a_mebibyte(
    daemon: DaemonProcess, repo: Path
) -> None:
    """What one run can take up of the daemon is bounded, and it is told which bound it met."""
    run = parent(daemon, repo)
    path = delegate_socket(daemon, run)
    with inside(daemon, run) as client:
        child = client.run.start("sleep 600", dir=None, agent="demo")["run"]
    held = [accepted(path) for _ in range(wire.DELEGATE_CONNECTIONS)]
    one_more = raw(path)
    for number in range(wire.DELEGATE_REQUESTS_IN_FLIGHT + 1):
        request = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "run.wait",
            "params": {"runs": [child]},
        }
        held[0].sendall(json.dumps(request).encode() + b"\n")
    crowded = json.loads(held[0].makefile("rb").readline())["error"]["data"]
    fifth = json.loads(one_more.makefile("rb").readline())["error"]["data"]
    held[1].sendall(b" " * (wire.DELEGATE_REQUEST_LINE_BYTES + 1))
    long_line = json.loads(held[1].makefile("rb").readline())["error"]
    ask(held[2], "daemon.hello")
    limits = json.loads(held[2].makefile("rb").readline())["result"]["limits"]
    for connection in (*held, one_more):
        connection.close()

    assert (crowded["name"], crowded["detail"]["limit"]) == ("Busy", 8)
    assert (fifth["name"], fifth["detail"]["limit"]) == ("Busy", 4)
    assert "1 MiB" in long_line["message"]
    assert (limits["requests_in_flight"], limits["request_line_bytes"]) == (8, 1 << 20)
