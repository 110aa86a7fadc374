"""A run's network, chosen and enforced: through the daemon, and without it."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from daemon_process import DaemonProcess
from gated import HostServer, host_server

CURL = "curl -sS --max-time 20"


@pytest.fixture(scope="module")
def server() -> Iterator[HostServer]:
    """A service of the host."""
    with host_server() as server:
        yield server


@pytest.fixture
def daemon(state_dir: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(
        state_dir,
        {"HTTPS_PROXY": "http://user:secret@proxy.invalid:1", "NO_PROXY": "nosuch.invalid"},
    )
    process.start()
    yield process
    process.tidy()


def start(daemon: DaemonProcess, repo: Path, network: str, script: str) -> dict[str, Any]:
    """Start a shell script behind a network; the answer to that."""
    words = ("-a", "command", "--network", network, "--json", "-d", "--", "/bin/sh", "-c", script)
    ran = daemon.cli("run", *words, cwd=repo)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return dict(json.loads(ran.stdout))


def end(daemon: DaemonProcess, repo: Path, run: str) -> str:
    """What it said, once it has ended."""
    daemon.cli("wait", run, cwd=repo)
    result = json.loads(daemon.cli("result", run, "--json", cwd=repo).stdout)
    return (Path(result["evidence_dir"]) / "final.md").read_text()


def eventually(condition: Callable[[], Any]) -> None:
    """Wait until it is true."""
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def network_events(daemon: DaemonProcess, run: str) -> list[tuple[Any, ...]]:
    """What its journal has of the gate's decisions."""
    return [
        (event["host"], event["port"], event.get("reason"))
        for event in daemon.events(run)
        if event["type"] == "network.decided"
    ]


def test_a_run_reaches_what_it_was_given_and_its_journal_tells(
    daemon: DaemonProcess, repo: Path, server: HostServer
) -> None:
    """The named host answers; another is denied, told once, counted; no other proxy is there."""
    place = f"model.test:{server.port}"
    script = (
        f"{CURL} http://{place}/; for n in 1 2 3; do {CURL} -o /dev/null http://other.test/; done;"
        " env | grep -i proxy | sort"
    )
    begun = start(daemon, repo, f"{place}=127.0.0.1", script)
    said = end(daemon, repo, begun["run"])

    assert begun["effective"]["network"] == f"{place}=127.0.0.1"
    assert said.startswith("heard ")
    assert "secret" not in said
    assert "https_proxy=http://127.0.0.1:3128" in said
    assert network_events(daemon, begun["run"]) == [
        ("model.test", server.port, None),
        ("other.test", 80, "not_allowed"),
    ]
    [counted] = [e for e in daemon.events(begun["run"]) if e["type"] == "network.counted"]
    told = daemon.cli("result", begun["run"], cwd=repo).stdout
    assert "network: 1 denied" in told
    denied = {"host": "other.test", "port": 80, "reason": "not_allowed", "count": 3}
    assert counted["denied"] == [denied]
    shown = daemon.cli("log", begun["run"], cwd=repo).stdout
    assert shown.count("network: other.test:80 denied, not_allowed") == 1


def test_what_runs_beside_the_agent_is_told_with_it(
    daemon: DaemonProcess, repo: Path, server: HostServer
) -> None:
    """A check has a gate of its own: a denial is told once, and counted with the agent's."""
    place = f"model.test:{server.port}"
    denied = f"{CURL} -o /dev/null http://other.test/"
    with daemon.client() as client:
        run = client.run.start(
            f"run {denied}",
            dir=str(repo),
            agent="demo",
            network=[f"{place}=127.0.0.1"],
            check=f"{denied}; {CURL} http://{place}/; {CURL} -o /dev/null http://third.test/; true",
        )["run"]
    result = at.result(daemon, run)
    [counted] = [e["denied"] for e in daemon.events(run) if e["type"] == "network.counted"]

    assert result["check"]["output"].endswith("heard ")
    assert network_events(daemon, run) == [
        ("other.test", 80, "not_allowed"),
        ("model.test", server.port, None),
        ("third.test", 80, "not_allowed"),
    ]
    assert [(each["host"], each["count"]) for each in counted] == [
        ("other.test", 2),
        ("third.test", 1),
    ]


def test_a_setup_that_could_not_reach_its_host_says_so(state_dir: Path, repo: Path) -> None:
    """No agent was started, and the journal has what the gate denied."""
    config = state_dir / "config.toml"
    config.write_text(f'[repo."{repo}"]\nsetup = "{CURL} -f http://packages.test/"\n')
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)}).start()
    try:
        options = {"agent": "demo", "network": ["model.test:80=127.0.0.1"]}
        run = at.start(daemon, repo, "say hi", **options)
        result = at.result(daemon, run)
        told = network_events(daemon, run)
    finally:
        daemon.tidy()

    assert (result["outcome"], result["attempts"]) == ("failed", 0)
    assert told == [("packages.test", 80, "not_allowed")]


def test_what_is_allowed_and_not_reached_is_told_once(daemon: DaemonProcess, repo: Path) -> None:
    """A name that does not resolve, and a port where nobody listens: in the journal and the log."""
    with socket.socket() as closed:
        # Bound and never listening: nobody else takes the port meanwhile.
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        places = f"nosuch.invalid:443,127.0.0.1:{port}"
        tries = f"{CURL} https://nosuch.invalid/; {CURL} http://127.0.0.1:{port}/"
        begun = start(daemon, repo, places, f"{tries}; {tries}; echo through")
        assert end(daemon, repo, begun["run"]) == "through\n"

    assert network_events(daemon, begun["run"]) == [
        ("nosuch.invalid", 443, "unreachable"),
        ("127.0.0.1", port, None),
        ("127.0.0.1", port, "unreachable"),
    ]
    events = daemon.events(begun["run"])
    decided = [event for event in events if event["type"] == "network.decided"]
    assert all(event["allowed"] for event in decided)
    assert "network: 2 not reached" in daemon.cli("result", begun["run"], cwd=repo).stdout
    # What was not denied is not counted as denied.
    assert "network.counted" not in {event["type"] for event in events}
    for shown in (
        daemon.cli("log", begun["run"], cwd=repo).stdout,
        daemon.cli("tail", begun["run"], cwd=repo).stdout,
    ):
        assert shown.count("network: nosuch.invalid:443 not reached, cannot resolve") == 1
        assert shown.count(f"network: 127.0.0.1:{port} not reached, cannot connect to") == 1


def test_a_run_whose_gate_cannot_be_kept_open_ends_for_that(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Killed again and again the gate is given up, and the result names it."""
    script = f"while sleep 0.05; do {CURL} -o /dev/null http://other.test/; done"
    run = start(daemon, repo, "model.test:80=127.0.0.1", script)["run"]
    with daemon.client() as client:

        def ended() -> bool:
            for keeper in daemon.keepers():
                kill_gates(keeper)
            return bool(client.run.get(run)["state"] == "ended")

        eventually(ended)
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "gate")


def kill_gates(keeper: int) -> None:
    """Kill what of a keeper's children is a gate."""
    with suppress(OSError):
        children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        for child in children:
            if b"/gate/" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)


def test_decisions_without_a_daemon_are_in_the_journal_once_one_is_back(
    daemon: DaemonProcess, repo: Path, server: HostServer
) -> None:
    """SIGKILL of the daemon cuts no stream, and what was denied meanwhile is told."""
    place = f"model.test:{server.port}"
    script = (
        f"{CURL} http://{place}/one; : >begun; until [ -e go ]; do sleep 0.05; done;"
        f" {CURL} http://{place}/two; {CURL} -o /dev/null http://other.test/; : >through;"
        " until [ -e leave ]; do sleep 0.05; done"
    )
    begun = start(daemon, repo, f"{place}=127.0.0.1", script)
    tree = Path(begun["worktree"])
    eventually((tree / "begun").exists)
    daemon.kill()
    (tree / "go").touch()
    eventually((tree / "through").exists)
    daemon.start()
    eventually(lambda: len(network_events(daemon, begun["run"])) == 2)
    (tree / "leave").touch()

    assert end(daemon, repo, begun["run"]).count("heard ") == 2
    assert network_events(daemon, begun["run"])[1] == ("other.test", 80, "not_allowed")


# A daemon that knows an agent which heeds no proxy; whatever else is run is the interpreter.
HEEDLESS = """#!{python} -I
import os, sys
if sys.argv[1:4] != ["-I", "-m", "coachmand"]:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
from attrs import evolve
from coachman_adapters import ADAPTERS
from coachmand.main import run_daemon
demo = ADAPTERS["demo"]
ADAPTERS["demo"] = evolve(demo, spec=evolve(demo.spec, honours_proxies=False))
sys.exit(run_daemon(sys.argv[4:]))
"""


@pytest.fixture
def heedless(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon whose demo agent is said to go around proxies."""
    program = state_dir / "python"
    program.write_text(HEEDLESS.replace("{python}", sys.executable))
    program.chmod(0o755)
    process = DaemonProcess(state_dir, python=str(program))
    yield process.start()
    process.tidy()


def test_an_agent_that_heeds_no_proxy_gets_no_gate(heedless: DaemonProcess, repo: Path) -> None:
    """It is refused before anything is made, with the ways out, and each of these is one."""
    before = sorted(heedless.state.rglob("*"))
    refused = [
        heedless.cli("run", "-a", "demo", *words, "say hi", cwd=repo)
        for words in ([], ["--network", "full"], ["--network", "example.org"], ["--dry-run"])
    ]
    after = sorted(heedless.state.rglob("*"))
    outcomes = [
        at.result(heedless, at.start(heedless, repo, "say hi", network=[network]))["outcome"]
        for network in ("none", "host")
    ]

    assert [each.returncode for each in refused] == [64] * 4
    for each in refused:
        assert "agent demo goes around every proxy" in each.stderr
        assert "--network none or --network host" in each.stderr
    assert after == before
    assert outcomes == ["succeeded", "succeeded"]


@pytest.mark.parametrize("network", ["none", "full", "registries"])
def test_no_service_of_the_machine_answers(
    daemon: DaemonProcess, repo: Path, server: HostServer, network: str
) -> None:
    """Neither by itself nor through the gate, whatever else is in reach."""
    direct = f"{CURL} --noproxy '*' http://127.0.0.1:{server.port}/ || echo no"
    script = f"{direct}; {CURL} -f --noproxy '' http://localhost:{server.port}/ || echo no"
    begun = start(daemon, repo, network, script)

    assert end(daemon, repo, begun["run"]).split().count("no") == 2
    assert begun["effective"]["network"] == network


@pytest.mark.parametrize(
    ("network", "complaint"),
    [
        ("host,agent", "host says all by itself, without agent"),
        ("none,full", "none says all by itself, without full"),
        ("agnet", "there is no word agnet: agent is one"),
        ("nonsense", "as nonsense:443"),
        ("169.254.169.254:80", "link-local or metadata"),
        ("model.test:80=169.254.170.2", "link-local or metadata"),
        ("http://Example.com/v1", "is a URL: write example.com:80"),
        ("127.1:80", "is no host"),
        ("example.org:0", "no port"),
        ("*.10.0.0.1", "is no host"),
        ("10.0.0.1:80=10.0.0.2", "gives no name an address"),
    ],
)
def test_a_network_that_means_nothing_is_refused(
    daemon: DaemonProcess, repo: Path, network: str, complaint: str
) -> None:
    """Before anything is made, with what is wrong and the words that there are."""
    ran = daemon.cli("run", "-a", "command", "--network", network, "--", "true", cwd=repo)

    assert ran.returncode == 64
    assert complaint in ran.stderr
    assert "agent and registries" in ran.stderr


def test_an_empty_network_is_not_the_default(daemon: DaemonProcess, repo: Path) -> None:
    """Who passes an empty variable is told."""
    ran = daemon.cli("run", "-a", "command", "--network", "", "--", "true", cwd=repo)

    assert ran.returncode == 64
    assert "--network names nothing" in ran.stderr
