"""Any program as an agent, through a real daemon: however soon it speaks, and however it ends."""

from pathlib import Path
from typing import Any

import pytest

from daemon_process import DaemonProcess

SOON = (
    ("echo hi", "hi\n"),
    ("seq 5", "1\n2\n3\n4\n5\n"),
    ("echo hi; sleep 0.3; echo again", "hi\nagain\n"),
    ("printf 'no newline'", "no newline"),
    ("head -c 200000 /dev/zero | tr '\\0' x", "x" * 200_000),
)


def run_all(daemon: DaemonProcess, repo: Path, scripts: list[str], **options: Any) -> list[Any]:
    """Start a shell for each script at once; their results."""
    with daemon.client() as client:
        runs = [
            client.run.start(
                "", dir=str(repo), agent="command", argv=["/bin/sh", "-c", script], **options
            )["run"]
            for script in scripts
        ]
        waited = client.run.wait(runs, timeout_s=180)
        assert waited["met"] == "ended", waited
        return [client.run.result(run) for run in runs]


@pytest.mark.parametrize(("script", "said"), SOON)
def test_what_a_program_says_before_anybody_listens_is_heard(
    daemon: DaemonProcess, repo: Path, script: str, said: str
) -> None:
    """Output from before the daemon reached the keeper is in the message, and the run ends."""
    for result in run_all(daemon, repo, [script] * 8):
        assert result["outcome"] == "succeeded"
        assert (Path(result["evidence_dir"]) / "final.md").read_text() == said


def test_a_run_that_a_slow_daemon_finds_already_over_still_ends(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Forty programs that are gone before they are attached to all end, with what they said."""
    results = run_all(daemon, repo, [f"echo {number}" for number in range(40)])

    assert {result["outcome"] for result in results} == {"succeeded"}
    assert [result["final_message"] for result in results] == [f"{n}\n" for n in range(40)]


def test_a_quiet_program_that_exits_with_0_has_succeeded(daemon: DaemonProcess, repo: Path) -> None:
    """A program says by its exit status that it is done: no output is no emptiness."""
    [quiet, failed] = run_all(daemon, repo, ["true", "exit 3"])

    assert quiet["outcome"] == "succeeded"
    assert failed["outcome"] == "failed"
    assert "status 3" in failed["error"]["message"]


def test_agents_are_looked_for_where_the_caller_looks(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    """agent.list finds on the caller's PATH what run would find there."""
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with daemon.client() as client:
        [own] = client.call("agent.list", {"agent": "opencode", "path": "/nowhere"})["agents"]
        [found] = client.call("agent.list", {"agent": "opencode", "path": str(tmp_path)})["agents"]

    assert not own["installed"]
    assert found["path"] == str(program)


def test_a_configured_executable_is_the_one_that_runs(
    state_dir: Path, repo: Path, tmp_path: Path
) -> None:
    """`[agents.NAME] executable` is found and shown, whatever PATH has."""
    program = tmp_path / "my-opencode"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    config = state_dir / "config.toml"
    config.write_text(f'[agents.mine]\nadapter = "opencode"\nexecutable = "{program}"\n')
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)}).start()
    try:
        with daemon.client() as client:
            [row] = client.call("agent.list", {"agent": "mine"})["agents"]
            run = client.run.start("hello", dir=str(repo), agent="mine")["run"]
            client.run.wait([run], timeout_s=180)
            result = client.run.result(run)
    finally:
        daemon.tidy()

    assert row["path"] == str(program)
    assert result["executable"]["path"] == str(program)
    assert result["outcome"] == "failed"


def test_a_message_of_many_megabytes_is_whole_in_its_file(
    daemon: DaemonProcess, repo: Path
) -> None:
    """final.md holds all of a long output; the result shows its end and says that it is cut."""
    [result] = run_all(daemon, repo, ["seq 600000"])
    lines = (Path(result["evidence_dir"]) / "final.md").read_text().splitlines()

    assert lines == [str(number) for number in range(1, 600_001)]
    assert result["final_message_truncated"]
    assert result["final_message"].endswith("599999\n600000\n")


@pytest.mark.parametrize("place", ["/workspace", "/output"])
def test_names_that_are_no_text_are_told_and_end_like_any_other(
    daemon: DaemonProcess, repo: Path, place: str
) -> None:
    """A file whose name is not UTF-8 is in the result, escaped; the run has its terminal record."""
    [result] = run_all(daemon, repo, [f'printf z > "{place}/$(printf "bad\\377")"; echo done'])
    listed = result["changed_files"] if place == "/workspace" else result["artifacts"]

    assert result["outcome"] == "succeeded"
    assert [row["path"] for row in listed] == ["bad\\xff"]


def test_a_huge_sparse_output_does_not_hold_the_run(daemon: DaemonProcess, repo: Path) -> None:
    """A file that costs the agent nothing costs the daemon no hours: it is listed, not read."""
    [result] = run_all(daemon, repo, ["truncate -s 500G /output/big; echo done"])
    [artifact] = result["artifacts"]

    assert artifact["size"] == 500 * 1024**3
    assert artifact["sha256"] is None
