"""The gate of runs that an ordinary user's daemon starts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gated import HostServer, host_server
from ordinary import UID, OrdinaryDaemon, ordinary_daemon

CURL = "curl -sS --max-time 20"


@pytest.fixture(scope="module")
def daemon() -> Iterator[OrdinaryDaemon]:
    """One daemon of a user without rights."""
    with ordinary_daemon('[storage]\nsealed = "{neutral}"\n') as process:
        yield process


@pytest.fixture(scope="module")
def server() -> Iterator[HostServer]:
    """A service of the host."""
    with host_server() as server:
        yield server


@pytest.mark.parametrize("profile", ["edit", "review", "sealed"])
def test_an_ordinary_users_run_reaches_what_it_was_given_alone(
    daemon: OrdinaryDaemon, server: HostServer, profile: str
) -> None:
    """One host answers, by the proxy; another and the server's own port are out of reach."""
    place, repo = f"model.test:{server.port}", daemon.root / "repo"
    script = (
        f"id -u; {CURL} http://{place}/; {CURL} -o /dev/null http://other.test/;"
        f" {CURL} --noproxy '*' http://127.0.0.1:{server.port}/ || echo refused"
    )
    words = (
        "--network",
        f"{place}=127.0.0.1",
        "--profile",
        profile,
        "-d",
        "--json",
        "-a",
        "command",
    )
    begun = daemon.cli("run", *words, "--", "/bin/sh", "-c", script, cwd=repo)
    assert begun.returncode == 0, begun.stdout + begun.stderr + daemon.log[-2000:]
    run = json.loads(begun.stdout)["run"]
    daemon.cli("wait", run, cwd=repo)
    result = json.loads(daemon.cli("result", run, "--json", cwd=repo).stdout)
    events = daemon.events(run)

    assert result["outcome"] == "succeeded", result["error"]
    said = (Path(result["evidence_dir"]) / "final.md").read_text()
    assert said.split() == [str(UID), "heard", "refused"]
    assert [
        (event["host"], event["port"], event.get("reason"))
        for event in events
        if event["type"] == "network.decided"
    ] == [("model.test", server.port, None), ("other.test", 80, "not_allowed")]
