"""What a run is handed: copied, digested, read-only, or refused with nothing left behind."""

import base64
import hashlib
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from coachmand.repos import inputs as copying
from coachmand.repos.errors import RepoError
from daemon_process import DaemonProcess, make_repository
from shared_daemon import shared_daemon

CONFIG = '[storage]\nsealed = "{neutral}"\n'


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file; each has tasks of its own."""
    with shared_daemon(CONFIG) as process:
        yield process


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


@pytest.fixture
def given(daemon: DaemonProcess) -> Iterator[Path]:
    """A directory of the caller's with a file and a folder."""
    path = Path(tempfile.mkdtemp(prefix="given-", dir=daemon.root))
    (path / "spec.md").write_text("# spec\n")
    (path / "data" / "deep").mkdir(parents=True)
    (path / "data" / "deep" / "x").write_text("x")
    (path / "data" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (path / "data" / "run.sh").chmod(0o755)
    yield path
    shutil.rmtree(path)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sh(daemon: DaemonProcess, where: Path, script: str, **options: Any) -> dict[str, Any]:
    """The result of a run of a shell script."""
    run = at.start(daemon, where, "", agent="command", argv=["/bin/sh", "-c", script], **options)
    return at.result(daemon, run)


@pytest.mark.parametrize("profile", ["edit", "sealed"])
def test_inputs_are_there_read_only_with_a_manifest(
    daemon: DaemonProcess, repo: Path, given: Path, profile: str
) -> None:
    """Under their names, with digests in manifest, result and policy; nothing can be changed."""
    inputs = [{"path": str(given / "spec.md"), "name": "a b.md"}, {"path": str(given / "data")}]
    script = (
        "cd /inputs; cat 'a b.md' data/deep/x manifest.json; data/run.sh >&2; data/run.sh;"
        " (echo y > data/deep/x || rm -r data || echo z > new) 2>/dev/null || echo refused"
    )
    result = sh(daemon, repo, script, profile=profile, task=f"given-{profile}", inputs=inputs)
    said = result["final_message"]
    manifest = json.loads(said[said.index("{") : said.rindex("}") + 1])
    with daemon.client() as client:
        policy = client.run.policy(result["run"])

    assert said.startswith("# spec\nx")
    assert said.endswith("ran\nrefused\n")
    digests = {row["path"]: row["sha256"] for row in policy["inputs"] or ()}
    assert digests == {
        "a b.md": sha256(given / "spec.md"),
        "data/deep/x": sha256(given / "data/deep/x"),
        "data/run.sh": sha256(given / "data/run.sh"),
    }
    assert [(row["name"], row["kind"]) for row in manifest["inputs"]] == [
        ("a b.md", "file"),
        ("data", "directory"),
    ]
    assert manifest["inputs"][0]["sha256"] == digests["a b.md"]
    assert [row["path"] for row in result["inputs"]] == [each["path"] for each in inputs]


def test_what_the_caller_changes_later_is_not_seen(
    daemon: DaemonProcess, repo: Path, given: Path
) -> None:
    """The copy is made before the start returns, and is the run's own."""
    options = {"task": "copied", "inputs": [{"path": str(given / "spec.md")}]}
    run = at.start(daemon, repo, "run cat /inputs/spec.md", keep=True, **options)
    (given / "spec.md").write_text("otherwise")
    live.close(daemon, run)
    events = json.dumps(daemon.events(run))

    assert ("# spec" in events, "otherwise" in events) == (True, False)


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def _nested(path: Path) -> None:
    path.mkdir()
    _link(path / "link")


REFUSED: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing": (lambda _path: None, "no such file", "check the path"),
    "link": (_link, "it is a symbolic link", "--input /etc/passwd=it"),
    "pipe": (_pipe, "it is a pipe", "into a file"),
    "socket": (_socket, "it is a socket", "into a file"),
    "link inside": (_nested, "it is a symbolic link", "take it out of the directory"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("profile", ["edit", "sealed"])
def test_what_is_no_file_is_refused_before_anything_is_made(
    daemon: DaemonProcess, repo: Path, given: Path, kind: str, profile: str
) -> None:
    """Named with the reason; no run, no directory and no copy of the others stay."""
    make, why, hint = REFUSED[kind]
    make(given / "it")
    before = _everything(daemon)
    inputs = [{"path": str(given / "spec.md")}, {"path": str(given / "it")}]
    with daemon.client() as client:
        options = {"agent": "demo", "profile": profile, "inputs": inputs}
        error = live.refused(client.run.start, "x", dir=str(repo), **options)

    assert error.name == "InvalidParams"
    assert f"the input {given}/it" in error.message
    assert why in error.message
    assert hint in (error.hint or "")
    assert _everything(daemon) == before


def _everything(daemon: DaemonProcess) -> list[Path]:
    neutral = Path((daemon.root / "config.toml").read_text().split('"')[1])
    places = [neutral, *(daemon.state / name for name in ("runs", "live", "tasks", "keys"))]
    return sorted(path for place in places for path in place.rglob("*"))


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ([{"path": "{}/spec.md"}, {"path": "{}/data", "name": "spec.md"}], "two inputs are named"),
        ([{"path": "{}/spec.md", "name": "manifest.json"}], "coachman's own list"),
        ([{"path": "{}/spec.md", "name": "../x"}], "cannot name an input"),
        ([{"path": "{}/spec.md", "name": "a/b"}], "cannot name an input"),
        ([{"path": "{}/spec.md", "name": ".."}], "cannot name an input"),
        ([{"path": "{}/spec.md", "name": "a\nb"}], "cannot name an input"),
        ([{"path": "spec.md"}], "an absolute path"),
    ],
)
def test_names_that_are_no_plain_names_are_refused(
    daemon: DaemonProcess, repo: Path, given: Path, inputs: list[dict[str, str]], why: str
) -> None:
    """Two of one name, our own, and what would lead elsewhere."""
    inputs = [{**each, "path": each["path"].format(given)} for each in inputs]
    with daemon.client() as client:
        start = {"dir": str(repo), "agent": "demo", "inputs": inputs}
        error = live.refused(client.run.start, "x", **start)

    assert why in error.message


def test_bytes_are_an_input_as_well(daemon: DaemonProcess, repo: Path) -> None:
    """For callers that may name no path; what is not base64 is refused."""
    data = {"note": base64.b64encode(b"by bytes\n").decode()}
    result = sh(daemon, repo, "cat /inputs/note", task="bytes", input_data=data)
    with daemon.client() as client:
        start = {"dir": str(repo), "agent": "demo", "input_data": {"note": "***"}}
        error = live.refused(client.run.start, "x", **start)

    assert result["final_message"] == "by bytes\n"
    assert result["inputs"][0]["path"] is None
    assert "not base64" in error.message


def test_a_resume_takes_current_files_and_a_sealed_one_those_that_were(
    daemon: DaemonProcess, repo: Path, given: Path
) -> None:
    """An exact repetition is what sealed is for; elsewhere the caller's files have gone on."""
    seen = {}
    for profile in ("edit", "sealed"):
        (given / "spec.md").write_text("as it was\n")
        inputs = [{"path": str(given / "spec.md")}]
        options = {"profile": profile, "task": f"resumed-{profile}", "inputs": inputs}
        first = at.start(daemon, repo, "run cat /inputs/spec.md", **options)
        at.result(daemon, first)
        (given / "spec.md").write_text("by now it is another\n")
        with daemon.client() as client:
            second = client.run.resume(first, "run cat /inputs/spec.md")["run"]
        result = at.result(daemon, second)
        seen[profile] = (
            result["inputs"][0]["size"],
            "another" in json.dumps(daemon.events(second)),
        )

    assert seen == {"edit": (21, True), "sealed": (10, False)}


def test_a_dry_run_sees_what_cannot_be_taken_and_copies_nothing(
    daemon: DaemonProcess, repo: Path, given: Path
) -> None:
    """It is told as a start would tell it."""
    before = _everything(daemon)
    start = {"dir": str(repo), "agent": "demo", "dry_run": True}
    with daemon.client() as client:
        client.run.start("x", **start, inputs=[{"path": str(given / "spec.md")}])
        error = live.refused(client.run.start, "x", **start, inputs=[{"path": str(given / "no")}])

    assert "no such file" in error.message
    assert _everything(daemon) == before


def test_the_command_line_names_inputs_from_its_own_directory(
    daemon: DaemonProcess, repo: Path, given: Path
) -> None:
    """PATH=NAME renames, unless such a path is there."""
    (given / "x=y").write_text("odd")
    words = ["--input", "b.txt=s", "--input", f"{given}/x=y", "-a", "command"]
    ran = daemon.cli("run", *words, "--", "/bin/ls", "/inputs", cwd=repo / "sub")

    assert ran.stdout.split() == ["manifest.json", "s", "x=y"], ran.stderr


def test_a_file_that_changes_while_it_is_copied_is_refused(tmp_path: Path) -> None:
    """A writer that goes on all the time is always noticed, and never copied as if whole."""
    source, target = tmp_path / "log", tmp_path / "target"
    source.write_bytes(b"x" * (8 << 20))
    target.mkdir()
    over = threading.Event()

    def write() -> None:
        with source.open("ab") as file:
            while not over.is_set():
                file.write(b"x")
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(RepoError, match="changed while it was copied"):
            copying.copy_inputs([{"path": str(source), "name": "log"}], str(target))
    finally:
        over.set()
        writer.join()


@pytest.mark.parametrize("profile", ["edit", "sealed"])
def test_a_death_after_the_copy_leaves_nothing(state_dir: Path, profile: str) -> None:
    """The next daemon removes what was copied for a run that never came to be."""
    repo = make_repository(state_dir / "repo")
    config = state_dir / "config.toml"
    config.write_text(f'[storage]\nsealed = "{state_dir}/neutral"\n')
    process = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)})
    process.env["COACHMAN_FAILPOINT"] = "inputs.copied:kill"
    process.start()
    try:
        with process.client() as client:
            client.run.start("x", dir=str(repo), agent="demo", profile=profile, dry_run=True)
            looked = (state_dir / "neutral").exists()
            inputs = [{"path": str(repo / "sub")}]
            options = {"agent": "demo", "profile": profile, "inputs": inputs}
            live.refused(client.run.start, "x", dir=str(repo), **options)
        copied = [*state_dir.glob("*/**/inputs/sub/b.txt")]
        del process.env["COACHMAN_FAILPOINT"]
        process.restart()
    finally:
        process.tidy()

    assert not looked
    assert len(copied) == 1
    assert [path for path in _everything(process) if path.name != "index.db"] == []
