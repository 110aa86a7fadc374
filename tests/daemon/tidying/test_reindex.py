"""The index of ended runs is made anew from their files: on demand, and where it is damaged."""

import json
from pathlib import Path

import pytest

from daemon_process import DaemonProcess


def three_runs(daemon: DaemonProcess, repo: Path) -> list[str]:
    """Three ended runs, oldest first."""
    runs = []
    with daemon.client() as client:
        for number in range(3):
            started = client.run.start(f"say {number}", dir=str(repo), agent="demo", task="t1")
            client.run.wait([started["run"]])
            runs.append(str(started["run"]))
    return runs


def listed(daemon: DaemonProcess) -> set[str]:
    with daemon.client() as client:
        return {row["run"] for row in client.run.list(all=True)["runs"]}


@pytest.mark.parametrize("damage", ["missing", "garbage", "truncated", "page"])
def test_a_damaged_index_is_made_anew_at_start(
    daemon: DaemonProcess, repo: Path, damage: str
) -> None:
    """Every run is listed again, whatever became of the file."""
    runs = three_runs(daemon, repo)
    daemon.stop()
    index = daemon.state / "index.db"
    data = index.read_bytes()
    page = data[:8192] + b"\xff" * 4096 + data[12288:]
    damaged = {"garbage": b"no database" * 999, "truncated": data[:5000], "page": page}
    for path in daemon.state.glob("index.db*"):
        path.unlink()
    if damage != "missing":
        index.write_bytes(damaged[damage])
    daemon.start()

    assert listed(daemon) == set(runs)
    assert "index_rebuilt" in daemon.log


@pytest.mark.parametrize("with_daemon", [True, False])
def test_reindex_names_what_it_cannot_read(
    daemon: DaemonProcess, repo: Path, with_daemon: bool
) -> None:
    """The others are listed; the same is said with a daemon and without one."""
    good, broken, lost = three_runs(daemon, repo)
    (daemon.state / "runs" / broken / "result.json").write_bytes(b"{")
    (daemon.state / "runs" / lost / "result.json").unlink()
    if not with_daemon:
        daemon.stop()
    done = daemon.cli("daemon", "reindex", "--json")
    document = json.loads(done.stdout)
    told = daemon.cli("daemon", "reindex").stdout
    if not with_daemon:
        daemon.start()

    assert done.returncode == 0
    assert document["runs"] == 1
    why = {found["run"]: found["why"] for found in document["unreadable"]}
    assert set(why) == {broken, lost}
    assert why[broken].startswith("its result cannot be read")
    assert why[lost] == "it has no result, and no mark that it lives"
    assert told.startswith("indexed 1 run\n")
    assert f"  {broken}: its result cannot be read" in told
    assert listed(daemon) == {good}


def test_a_living_run_is_no_finding_of_reindex(daemon: DaemonProcess, repo: Path) -> None:
    """It is listed from memory, and indexed when it ends."""
    with daemon.client() as client:
        run = client.run.start("sleep 60", dir=str(repo), agent="demo")["run"]
        assert client.daemon.reindex() == {"runs": 0, "unreadable": []}
        client.run.cancel([run])
        client.run.wait([run])
        assert listed(daemon) == {run}


def test_two_daemons_programs_do_not_write_one_index(daemon: DaemonProcess) -> None:
    """Without its socket the program still finds the state held, and says by whom."""
    done = daemon.cli("daemon", "reindex", env={"XDG_RUNTIME_DIR": str(daemon.root)})
    assert done.returncode == 0
    (daemon.state / "control.sock").unlink()
    done = daemon.cli("daemon", "reindex")

    assert done.returncode == 76
    assert "is held by the daemon with pid" in done.stderr
