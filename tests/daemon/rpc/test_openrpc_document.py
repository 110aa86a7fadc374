"""The committed OpenRPC document is what the daemon serves, and what it serves is the truth."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sourcetree
from agent_inside import inside, parent
from coachman.event_types import EVENT_TYPES
from coachmand.journal import vocabulary
from daemon_process import DaemonProcess
from rpc_server import Client

COMMITTED = json.loads((sourcetree.ROOT / "docs/openrpc.json").read_text())
METHODS = {method["name"]: method for method in COMMITTED["methods"]}
PROMPT = """think first
say I will write.
write hello.txt hello
usage 100 20
say done"""


def closed(value: Any) -> Any:
    """The schema with no room for members that it does not name."""
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: closed(item) for name, item in value.items()}
    if made.get("type") == "object" and "properties" in made:
        made.setdefault("additionalProperties", False)
    return made


COMPONENTS = closed(COMMITTED["components"])


def faults(value: Any, schema: dict[str, Any]) -> list[str]:
    """How a value departs from what is said of it, members that nothing is said of included."""
    validator = jsonschema.Draft202012Validator({**closed(schema), "components": COMPONENTS})
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(value)]


def faults_of_event(event: dict[str, Any]) -> list[str]:
    return faults(event, {"$ref": f"#/components/schemas/Event.{event['type']}"})


KEYED = """
[capacity]
max_active = 1
[agents.keyed]
adapter = "acp"
command = ["true"]
credentials = ["KEY"]
"""


class Recorder:
    """A client whose every answer is held against the document; ``seen`` are its methods."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.client = daemon.client()
        self.home = daemon.home
        self.seen: set[str] = set()

    def call(self, method: str, **params: Any) -> Any:
        result = self.client.call(method, params)
        assert faults(result, METHODS[method]["result"]["schema"]) == [], method
        self.seen.add(method)
        return result


@pytest.fixture
def recorder(daemon: DaemonProcess) -> Iterator[Recorder]:
    made = Recorder(daemon)
    yield made
    made.client.close()


def test_the_committed_document_is_what_the_daemon_serves(daemon: DaemonProcess) -> None:
    """rpc.discover answers with docs/openrpc.json; scripts/openrpc writes it anew."""
    with daemon.client() as client:
        assert client.call("rpc.discover") == COMMITTED


def test_every_type_of_event_is_described() -> None:
    """The types that a journal may hold and those of the document are the same."""
    assert sorted(EVENT_TYPES) == sorted(vocabulary.EVENT_TYPES)


def test_answers_are_what_the_document_says(recorder: Recorder, repo: Path) -> None:
    """Every method's answer has the members that the document names and no other."""
    call = recorder.call
    for method in ("daemon.hello", "daemon.ping", "daemon.status", "agent.list", "profile.list"):
        call(method)
    call("daemon.doctor", agent="demo")
    call("rpc.discover")
    call("profile.explain", profile="edit", agent="demo")
    started = call("run.start", agent="demo", dir=str(repo), prompt=PROMPT, permissions="ask")
    run = started["run"]
    call("event.unsubscribe", subscription=call("event.subscribe", run=run)["subscription"])
    assert call("run.wait", runs=[run], until="attention", timeout_s=180)["met"] == "attention"
    assert call("run.list")["runs"][0]["attention"]
    call("run.get", run=run)
    asked = call("permission.list")["permissions"][0]
    call("permission.answer", request=asked["request"], kind="allow_once")
    call("permission.list", run=run, pending=False)
    assert call("run.wait", runs=[run], timeout_s=180)["met"] == "ended"
    assert call("run.result", run=run)["outcome"] == "succeeded"
    for method in ("run.get", "run.diff", "run.log", "event.read"):
        call(method, run=run)
    call("run.policy", run=run)
    call("run.cancel", runs=[run])
    kept = call("run.start", agent="demo", dir=str(repo), prompt="sleep 60", keep=True)["run"]
    call("lease.claim", run=kept, ttl_s=60)
    call("run.prompt", run=kept, prompt="say more")
    call("lease.release", run=kept)
    call("run.interrupt", run=kept, prompt="say enough")
    call("run.close", runs=[kept])
    call("run.wait", runs=[kept], timeout_s=180)
    call("run.resume", run=kept, prompt="say again")
    call("run.list", all=True)
    call("task.list")
    call("task.get", task=started["task"])
    assert call("daemon.cleanup", runs=[run], tasks=[started["task"]])["tasks"]
    call("run.result", run=run)
    call("daemon.reindex")
    _ask(recorder, repo)
    _lend(recorder, repo)
    call("daemon.shutdown")

    assert METHODS.keys() - recorder.seen == set()


def _ask(recorder: Recorder, repo: Path) -> None:
    """A run asks in words over its own socket, and is answered."""
    call, daemon = recorder.call, recorder.daemon
    run = parent(daemon, repo)
    with inside(daemon, run) as asker:
        asker.open().send("run.ask", {"question": "why?", "options": ["a"], "request_key": "k"}, 9)
        call("run.wait", runs=[run], until="attention", timeout_s=180)
        call("run.get", run=run)
        call("permission.list")
        call("run.answer", question="q1", answer="because")
        call("permission.list", run=run, pending=False)
    with inside(daemon, run) as asker:
        params = {"question": "why?", "options": ["a"], "request_key": "k"}
        assert faults(asker.call("run.ask", params), METHODS["run.ask"]["result"]["schema"]) == []
        recorder.seen.add("run.ask")
    assert [faults_of_event(event) for event in daemon.events(run) if faults_of_event(event)] == []
    call("run.cancel", runs=[run])


def _lend(recorder: Recorder, repo: Path) -> None:
    """A run that lacks what was lent to it gets it again."""
    call, env = recorder.call, {"KEY": "0123456789"}
    config = recorder.home / ".config" / "coachman" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(KEYED)
    call("daemon.restart")
    first = call("run.start", agent="demo", dir=str(repo), prompt="sleep 60")["run"]
    run = call("run.start", agent="keyed", dir=str(repo), prompt="x", env=env)["run"]
    # It hands over what was lent where it restarts in place; its death takes it along.
    recorder.daemon.restart()
    assert call("run.wait", runs=[run], until="attention", timeout_s=60)["met"] == "attention"
    assert call("run.lend", run=run, env=env)["names"] == ["KEY"]
    assert call("run.get", run=run)["state"] == "queued"
    call("run.cancel", runs=[run, first])


def test_events_are_what_the_document_says(daemon: DaemonProcess, repo: Path) -> None:
    """Every line of the journals of runs that end well, denied, cancelled and found again."""
    with daemon.client() as client:
        well = client.run.start(PROMPT, agent="demo", dir=str(repo), permissions="allow")["run"]
        denied = client.run.start(PROMPT, agent="demo", dir=str(repo), permissions="deny")["run"]
        shell = client.run.start("", agent="command", dir=str(repo), argv=["ls", "/"])["run"]
        asks = client.run.start(PROMPT, agent="demo", dir=str(repo), permissions="ask")["run"]
        client.run.wait([asks], until="attention", timeout_s=180)
        daemon.restart()
        client.run.cancel([asks])
        runs = [well, denied, shell, asks]
        assert client.run.wait(runs, timeout_s=180)["met"] == "ended"
    lines = [line for run in runs for line in daemon.events(run)]
    types = {line["type"] for line in lines}

    assert [found for line in lines if (found := faults_of_event(line))] == []
    assert {"run.recovered", "permission.resolved", "tool.call", "usage.updated"} <= types


def test_events_of_a_kept_run_are_what_the_document_says(daemon: DaemonProcess, repo: Path) -> None:
    """Prompts that wait and are dropped, an interrupt, the close and a parked run's deadline."""
    with daemon.client() as client:
        kept = {"agent": "demo", "dir": str(repo), "keep": True}
        run = client.call("run.start", {**kept, "prompt": "sleep 60"})["run"]
        with client.events(run, types=["turn.started"]) as begun:
            next(begun)
        client.call("run.prompt", {"run": run, "prompt": "say never"})
        client.call("run.interrupt", {"run": run, "prompt": "say now"})
        client.call("run.close", {"runs": [run]})
        late = client.call("run.start", {**kept, "prompt": "say a", "timeouts": {"parked_s": 0.2}})
        assert client.run.wait([run, late["run"]], timeout_s=180)["met"] == "ended"
    lines = [line for name in (run, late["run"]) for line in daemon.events(name)]

    assert [found for line in lines if (found := faults_of_event(line))] == []
    assert {line["type"] for line in lines} >= {
        "prompt.queued",
        "prompt.dropped",
        "turn.interrupted",
        "turn.recorded",
        "run.closing",
        "deadline.expired",
    }


def test_notifications_are_what_the_document_says(daemon: DaemonProcess, repo: Path) -> None:
    """Events, progress and the end of a subscription have the members that are said of them."""
    schemas = {made["name"]: made["params"] for made in COMMITTED["x-notifications"]}
    with daemon.client() as client:
        run = client.run.start("say hello", agent="demo", dir=str(repo))["run"]
        connection = client.open()
        connection.send("event.subscribe", {"run": run, "types": ["run.ended"]}, 60)
        assert connection.receive(60) is not None
        seen = set()
        while "event.end" not in seen:
            message = connection.receive(60)
            assert message is not None
            seen.add(message["method"])
            assert faults(message["params"], schemas[message["method"]]) == []

    assert seen == {"event.event", "event.progress", "event.end"}


@pytest.mark.parametrize(
    ("method", "params"),
    [("run.get", {"run": "nothing"}), ("run.list", {"limit": "many"})],
)
def test_refusals_are_what_the_document_says(
    daemon: DaemonProcess, method: str, params: dict[str, Any]
) -> None:
    """A refusal's name stands with its method, and its data has the members of ErrorData."""
    with Client(Path(daemon.socket)) as client:
        error = client.call(method, params)["error"]
    named = [entry["$ref"].rpartition("/")[2] for entry in METHODS[method]["errors"]]

    assert error["data"]["name"] in named
    assert faults(error["data"], {"$ref": "#/components/schemas/ErrorData"}) == []


def test_the_checker_refuses_what_it_should() -> None:
    """A member too many and one of another type are both found."""
    schema = {"$ref": "#/components/schemas/Unsubscribed"}

    assert faults({"ended": True}, schema) == []
    assert faults({"ended": True, "more": 1}, schema) != []
    assert faults({"ended": "yes"}, schema) != []
