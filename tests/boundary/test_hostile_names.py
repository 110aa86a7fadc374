"""Names that would lead elsewhere, act on a terminal or stand for a record, in each place."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import coachman
import recovery_state as at
from daemon_process import DaemonProcess, git
from shared_daemon import shared_daemon

pytestmark = pytest.mark.long
NAMES = {
    "up": "../../escaped",
    "up and away": "a/../../../escaped",
    "absolute": "/tmp/cm-escaped",
    "dot": ".",
    "dots": "..",
    "an option": "--profile=host",
    "a line end": "a\nb",
    "an escape": "a\x1b]0;x\x07b",
    "C1": "a\u009b2Jb",
    "delete": "a\x7fb",
    "bidi": "a\u202egnp.exe",
    "an isolate": "a\u2066b\u2069",
    "a mark": "a\u200fb",
    "a NUL": "a\x00b",
    "a surrogate": "a\udcffb",
    "long": "x" * 300,
    "git's": ".git",
    "git's lock": "a.lock",
    "a ref": "refs/heads/main",
    "a range": "main..main",
    "a reflog": "@{-1}",
    "a shell's": "$(touch escaped)`touch escaped`;touch escaped",
    "a format": "%s%n{0}{fd:0}",
}
RECORDS = ("result.json", "events.ndjson", "request.json", "policy.json", "final.md", "index.db")
# What of a start is a name, and how it is given.
FIELDS: dict[str, Any] = {
    "task": lambda name: {"task": name},
    "agent": lambda name: {"agent": name},
    "base": lambda name: {"base": name},
    "profile": lambda name: {"profile": name},
    "artifact": lambda name: {"artifacts": [name]},
    "input": lambda name: {"input_data": {name: base64.b64encode(b"x").decode()}},
    "network": lambda name: {"network": [name]},
}
# The last one for what cannot even be said on the wire.
REFUSALS = ("InvalidParams", "NotFound", "ParseError")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for all names."""
    with shared_daemon() as process:
        # What any run makes is there.
        at.result(process, at.start(process, process.root / "repo", "say hi"))
        yield process


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


def around(daemon: DaemonProcess) -> set[str]:
    """What lies beside the daemon's state, and what it has below it but for the runs' own."""
    found = {str(path) for path in daemon.root.iterdir()}
    return found | {str(path) for path in daemon.state.iterdir()}


def tried(daemon: DaemonProcess, repo: Path, given: dict[str, Any]) -> dict[str, Any] | str:
    """The start's answer, or the name of the error that it is refused with."""
    params = {"agent": "demo", **given}
    try:
        with daemon.client() as client:
            return dict(client.run.start("say hi", dir=str(repo), **params))
    except coachman.CoachmanError as error:
        return error.name
    except UnicodeEncodeError:
        # It cannot even be said on the wire.
        return "InvalidParams"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", FIELDS)
def test_a_name_leads_nowhere(daemon: DaemonProcess, repo: Path, field: str, name: str) -> None:
    """It is refused by whoever would take it for a path, a ref or a program, or is a plain name."""
    before, refs = around(daemon), git(repo, "for-each-ref")
    answer = tried(daemon, repo, FIELDS[field](NAMES[name]))
    if isinstance(answer, dict):
        result = at.result(daemon, answer["run"])
        # What it left is below its own run.
        for row in result["artifacts"]:
            assert ".." not in Path(row["path"]).parts
        assert Path(result["evidence_dir"]).parent == daemon.state / "runs"
        assert Path(result["worktree"]).parent.parent == daemon.state / "worktrees"
    else:
        assert answer in REFUSALS
        assert git(repo, "for-each-ref") == refs
    assert around(daemon) == before
    assert not Path("/tmp/cm-escaped").exists()
    assert list(daemon.root.rglob("escaped")) == []


def test_names_for_people_stay_so(daemon: DaemonProcess, repo: Path) -> None:
    """Labels and a title are kept as they are, act on no terminal, and no file is called so."""
    before = around(daemon)
    said = [name for name in NAMES.values() if name.isascii() or name.isprintable()]
    said += [NAMES[each] for each in ("C1", "bidi", "an isolate", "a mark")]
    labels = {name[:60]: name[:200] for name in said}
    run = at.start(daemon, repo, "say hi", labels=labels, title=NAMES["bidi"], task="labelled")
    at.result(daemon, run)
    with daemon.client() as client:
        kept = client.run.get(run)["labels"]
    shown = "".join(
        daemon.cli(*words, cwd=repo).stdout for words in (["show", run], ["list", "-a"])
    )

    assert kept == labels
    assert "escaped" in shown
    assert not set(shown) & set("\x1b\x07\x9b\x7f\u202e\u2066\u2069\u200f\0")
    assert around(daemon) == before
    assert list(daemon.root.rglob("escaped")) == []


def test_an_input_that_is_called_as_a_record_is_none(daemon: DaemonProcess, repo: Path) -> None:
    """The run has it in /inputs; the records of the run are the daemon's own."""
    data = {name: base64.b64encode(b'{"outcome": "forged"}').decode() for name in RECORDS}
    with daemon.client() as client:
        started = client.run.start(
            "run cat /inputs/result.json\nsay done", dir=str(repo), agent="demo", input_data=data
        )
        run = started["run"]
        result = at.result(daemon, run)
        again = client.run.result(run)
    kept = json.loads((at.directory(daemon, run) / "result.json").read_text())

    assert result["outcome"] == kept["outcome"] == again["outcome"] == "succeeded"
    assert "forged" in json.dumps(daemon.events(run))
    assert {row["name"] for row in result["inputs"]} == set(RECORDS)
    assert list(daemon.state.glob("index.db*"))
