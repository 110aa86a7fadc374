"""What a run leaves in /output: taken from the agent, checked against what it has to leave."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import live_runs as live
from coachmand.repos import artifacts
from daemon_process import DaemonProcess
from shared_daemon import sh, shared_daemon


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file; each has tasks of its own."""
    with shared_daemon() as process:
        yield process


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


def test_a_run_that_leaves_what_it_has_to_succeeds(daemon: DaemonProcess, repo: Path) -> None:
    """A file, and a directory with something in it."""
    script = "mkdir -p /output/a/b; echo x > /output/a/b/x; echo y > /output/y"
    result = sh(daemon, repo, script, artifacts=["y", "a/b"])

    assert result["outcome"] == "succeeded", result["error"]
    assert [(row["path"], row["partial"]) for row in result["artifacts"]] == [
        ("a/b/x", False),
        ("y", False),
    ]


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("true", "it left no report.md in /output"),
        ("mkdir /output/report.md", "it left no report.md in /output"),
        ("ln -s /etc/passwd /output/report.md", "report.md (but a link)"),
        ("mkfifo /output/report.md", "report.md (but a pipe)"),
        ("mkdir /elsewhere; ln -s . /output/up; echo x > /output/x", "it left no report.md"),
    ],
)
def test_a_run_that_does_not_leave_it_fails_with_that_reason(
    daemon: DaemonProcess, repo: Path, script: str, named: str
) -> None:
    """Nothing, an empty directory, a link and a pipe are no artifact."""
    result = sh(daemon, repo, f"{script}; true", artifacts=["report.md"])

    assert (result["outcome"], result["stop_reason"]) == ("failed", "missing_artifact")
    assert named in result["error"]["message"]


def test_what_a_failed_run_left_is_kept_and_marked(daemon: DaemonProcess, repo: Path) -> None:
    """It may be half of it; the run's own failure is the reason that counts."""
    result = sh(daemon, repo, "echo half > /output/y; exit 3", artifacts=["y", "z"])

    assert "status 3" in result["error"]["message"]
    assert [(row["path"], row["partial"]) for row in result["artifacts"]] == [("y", True)]
    assert Path(result["evidence_dir"], "artifacts", "y").read_text() == "half\n"


def test_every_run_has_a_fresh_output(daemon: DaemonProcess, repo: Path) -> None:
    """What an earlier run of the task left is neither seen nor counted."""
    sh(daemon, repo, "echo x > /output/x", task="fresh")
    result = sh(daemon, repo, "ls -A /output | wc -l", task="fresh", artifacts=["x"])

    assert result["final_message"].strip() == "0"
    assert result["stop_reason"] == "missing_artifact"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../b", "", "a//b", "."])
def test_a_path_that_leads_elsewhere_is_refused(
    daemon: DaemonProcess, repo: Path, path: str
) -> None:
    """Only what lies plainly below /output can be asked for."""
    with daemon.client() as client:
        error = live.refused(client.run.start, "x", dir=str(repo), agent="demo", artifacts=[path])

    assert "a plain path below /output" in error.message


def test_the_command_line_asks_for_artifacts(daemon: DaemonProcess, repo: Path) -> None:
    """By its path inside, or below it; each that it left is told by where it lies, to be pasted."""
    words = ["--artifact", "/output/d/", "--artifact", "y", "-a", "command", "-t", "asked"]
    made = "mkdir /output/d; echo x > '/output/d/a b'"
    ran = daemon.cli("run", *words, "--", "/bin/sh", "-c", made, cwd=repo)
    shown = daemon.cli("result", "asked", cwd=repo).stdout
    refused = daemon.cli("run", "-a", "demo", "--artifact", "../d", "say hi", cwd=repo)
    with daemon.client() as client:
        evidence = client.run.result("asked", dir=str(repo))["evidence_dir"]
    lies = f"artifact '{evidence}/artifacts/d/a b' (2 B, may not be whole)"

    assert ran.returncode == 1
    assert "it left no y in /output" in ran.stderr + shown
    assert lies in ran.stderr
    assert lies in shown
    assert refused.returncode == 64
    assert "cannot run --artifact '../d': it is no plain path below /output" in refused.stderr


def test_what_is_archived_belongs_to_nobody_else(tmp_path: Path) -> None:
    """Set-id bits, modes that shut the owner out, depth and odd names make no difference."""
    source, target = tmp_path / "output", tmp_path / "artifacts"
    (source / "shut" / "deep").mkdir(parents=True)
    target.mkdir()
    (source / "shut" / "deep" / "f").write_text("f")
    (source / "tool").write_text("t")
    (source / "tool").chmod(0o6755)
    (source / b"\xff".decode("utf-8", "surrogateescape")).write_text("odd")
    (source / "shut").chmod(0)
    (source / "gone").symlink_to(tmp_path / "canary")
    found = artifacts.archive(str(source), str(target))
    again = artifacts.archive(str(source), str(target))

    assert found == again
    assert found["left_out"] == {"gone": "a link"}
    assert [row["path"] for row in found["artifacts"]] == ["shut/deep/f", "tool", "\udcff"]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in target.rglob("*")}
    assert {modes["f"], modes["tool"], modes["deep"]} == {0o600, 0o700}
    assert os.readlink(source / "gone") == str(tmp_path / "canary")


def test_a_hole_is_none_on_another_file_system_either(tmp_path: Path) -> None:
    """A file of a tebibyte that took no room takes none where it is copied to, and is whole."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="cm-") as elsewhere:
        source, target = Path(elsewhere), tmp_path / "artifacts"
        assert source.stat().st_dev != tmp_path.stat().st_dev
        target.mkdir()
        with (source / "sparse").open("wb") as file:
            file.seek(1 << 30)
            file.write(b"middle")
            file.truncate(1 << 40)
        (source / "zone").write_text("after it")
        found = artifacts.archive(str(source), str(target))

    kept = (target / "sparse").stat()
    assert [(row["path"], row["size"]) for row in found["artifacts"]] == [
        ("sparse", 1 << 40),
        ("zone", 8),
    ]
    # The first is too large to be read, which is no reason not to read the other.
    assert [row["sha256"] is None for row in found["artifacts"]] == [True, False]
    assert kept.st_blocks * 512 < 1 << 20
    with (target / "sparse").open("rb") as file:
        file.seek((1 << 30) - 1)
        assert file.read(8) == b"\0middle\0"
