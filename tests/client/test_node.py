"""The Node client, with a real daemon: follow a run, answer it, outlive the daemon."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sourcetree
from coachman.paths import socket_path
from daemon_process import DaemonProcess

CLIENT = sourcetree.ROOT / "docs/clients/node"
LIMIT_S = 180
Tool = Callable[[str], str]

FOLLOW = """
for await (const event of events(process.argv[1])) {
  console.log(`${event.seq} ${event.type}`);
}
"""
CALLS = """
const client = await Client.connect();
const refused = await client.call("run.get", { run: "nothing" }).catch((error) => error);
console.log(refused instanceof CoachmanError, refused.name, refused.message);
const abort = new AbortController();
const waits = client.call("run.wait", { runs: [process.argv[1]] }, { signal: abort.signal });
const [pong, status] = await Promise.all([
  client.call("daemon.ping", {}), client.call("daemon.status", {})]);
console.log(JSON.stringify(pong), status.runs.waiting);
abort.abort();
console.log(await waits.catch((error) => error.name));
client.close();
console.log((await client.call("daemon.ping", {}).catch((error) => error)).constructor.name);
"""


def argv(tool: Tool, script: str, *arguments: str) -> list[str]:
    names = "Client, CoachmanError, events"
    source = f'import {{ {names} }} from "{CLIENT / "coachman.mjs"}";\n{script}'
    return [tool("node"), "--input-type=module", "-e", source, *arguments]


def node(daemon: DaemonProcess, command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env=daemon.env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def start(daemon: DaemonProcess, repo: Path, prompt: str) -> str:
    with daemon.client() as client:
        started: dict[str, Any] = client.run.start(
            prompt, dir=str(repo), agent="demo", permissions="ask"
        )
    return str(started["run"])


def test_the_example_starts_a_run_follows_it_and_answers_its_permission(
    daemon: DaemonProcess, repo: Path, tool: Tool
) -> None:
    """run.mjs allows what the demo agent asks, shows what it says, and exits as the run ended."""
    prompt = "say I will write.\nwrite hello.txt hello\nsay done"
    done = node(daemon, [tool("node"), str(CLIENT / "run.mjs"), str(repo), prompt])

    assert done.stderr == ""
    assert [line.partition(" ")[2] or line for line in done.stdout.splitlines()][1:] == [
        'will write."',
        'hello.txt?" allow_once',
        '"done"',
        "succeeded",
    ]
    assert done.returncode == 0


def test_the_example_refuses_in_one_line(
    daemon: DaemonProcess, state_dir: Path, tmp_path: Path, tool: Tool
) -> None:
    """Without words, without a repository and without a daemon it says so, and shows no stack."""
    command = [tool("node"), str(CLIENT / "run.mjs")]
    words = node(daemon, command)
    repository = node(daemon, [*command, str(tmp_path), "say done"])
    daemon.stop()
    absent = node(daemon, [*command, str(tmp_path), "say done"])

    assert [done.returncode for done in (words, repository, absent)] == [64, 1, 69]
    assert words.stderr == "usage: node run.mjs DIRECTORY PROMPT [AGENT]\n"
    assert repository.stderr.startswith("cannot start: ")
    assert absent.stderr.startswith(f"cannot connect: no daemon listens on {daemon.socket}; ")
    assert [done.stderr.count("\n") for done in (repository, absent)] == [1, 1]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_stream_survives_the_daemon(
    daemon: DaemonProcess,
    repo: Path,
    tool: Tool,
    in_place: bool,
    tmp_path: Path,
    eventually: Callable[..., object],
) -> None:
    """Its SIGKILL in the middle, or its leave, leaves no event out and shows none twice."""
    run = start(daemon, repo, "chunks 20\nask may I\nchunks 20")
    told = tmp_path / "told"
    with daemon.client() as client:
        client.run.wait([run], until="attention", timeout_s=LIMIT_S)
        with told.open("w") as output:
            follower = subprocess.Popen(argv(tool, FOLLOW, run), env=daemon.env, stdout=output)
        eventually(lambda: told.read_text().count("\n") >= 5)
        if in_place:
            client.call("daemon.restart", {})
    if not in_place:
        daemon.restart()
    with daemon.client() as client:
        asked = client.permission.list(run)["permissions"][0]["request"]
        client.permission.answer(asked, run=run, kind="allow_once")
    code = follower.wait(timeout=LIMIT_S)
    journal = [f"{event['seq']} {event['type']}" for event in daemon.events(run)]

    assert told.read_text().splitlines() == journal
    assert code == 0


def test_calls_are_concurrent_refused_by_name_and_cancelled(
    daemon: DaemonProcess, repo: Path, tool: Tool
) -> None:
    """A refusal has its name, a wait holds nothing up, an abort ends it but not the run."""
    run = start(daemon, repo, "ask may I")
    with daemon.client() as client:
        client.run.wait([run], until="attention", timeout_s=LIMIT_S)
        done = node(daemon, argv(tool, CALLS, run))
        state = client.run.get(run)["state"]

    assert done.stderr == ""
    refused, answers, cancelled, hung_up = done.stdout.splitlines()
    assert refused.startswith("true NotFound cannot find 'nothing'")
    assert answers == "{} 1"
    assert (cancelled, hung_up, state) == ("Cancelled", "ConnectionLostError", "waiting")


def test_a_daemon_that_is_not_there_is_an_error_at_once(state_dir: Path, tool: Tool) -> None:
    """Neither a call nor a stream waits for a daemon that was never there."""
    absent = DaemonProcess(state_dir)
    for script in ("await Client.connect();", "for await (const e of events('x')) {}"):
        done = node(absent, argv(tool, script))
        assert done.returncode == 1
        assert "ENOENT" in done.stderr


def test_sockets_are_found_where_the_command_line_finds_them(tool: Tool) -> None:
    """Each of the rules of coachman.paths gives the same path in Node."""
    rules = [
        {"COACHMAN_SOCKET": "/a/b.sock", "COACHMAN_STATE_DIR": "/s", "HOME": "/h"},
        {"COACHMAN_STATE_DIR": "/s", "XDG_RUNTIME_DIR": "/run/user/1", "HOME": "/h"},
        {"XDG_RUNTIME_DIR": "/run/user/1", "HOME": "/h"},
        {"XDG_STATE_HOME": "/x", "HOME": "/h"},
        {"HOME": "/h"},
    ]
    script = f'import {{ socketPath }} from "{CLIENT / "coachman.mjs"}"; console.log(socketPath());'
    for rule in rules:
        done = subprocess.run(
            [tool("node"), "--input-type=module", "-e", script],
            env=rule,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == socket_path(rule), json.dumps(rule)
