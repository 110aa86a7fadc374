"""A daemon that is killed at any step of a cleanup leaves old or new, and the next one finishes."""

import json
from pathlib import Path

import pytest

from coachman.errors import ConnectionLostError
from coachmand.failpoints import CLEANUP_STEPS, VARIABLE
from daemon_process import DaemonProcess, git


@pytest.mark.parametrize("step", CLEANUP_STEPS)
def test_a_kill_at_any_step_loses_nothing(daemon: DaemonProcess, repo: Path, step: str) -> None:
    """What was changed by hand is reachable at every moment, and all of it goes at last."""
    with daemon.client() as client:
        run = client.run.start("write made.txt x", dir=str(repo), agent="demo", task="t1")["run"]
        client.run.wait([run])
        tree = Path(client.run.get(run)["worktree"])
    (tree / "mine.txt").write_text("by hand\n")
    daemon.kill()
    daemon.env[VARIABLE] = f"{step}:kill"
    daemon.start()
    with pytest.raises(ConnectionLostError), daemon.client() as client:
        client.daemon.cleanup(["t1"])
    assert daemon.process is not None
    daemon.process.wait(10)

    ref = f"refs/coachman/salvage/{run}"
    if step != "cleanup.logs_deleted":
        assert git(repo, "show", f"{ref}:mine.txt") == "by hand"
    else:
        assert (tree / "mine.txt").read_text() == "by hand\n"
    del daemon.env[VARIABLE]
    daemon.start()
    with daemon.client() as client:
        client.daemon.cleanup(["t1"])
        assert client.daemon.cleanup(all=True)["tasks"] == []
        assert client.run.get(run)["cleaned"] is True
    (path,) = daemon.state.glob("tasks/*/t1.json")
    record = json.loads(path.read_bytes())
    assert (record["admin"], record["going"]) == (None, False)
    assert record["kept"] == git(repo, "rev-parse", ref)
    assert not tree.exists()
    assert git(repo, "show", f"{ref}:mine.txt") == "by hand"
    assert git(repo, "rev-list", "--count", ref) == "3"
