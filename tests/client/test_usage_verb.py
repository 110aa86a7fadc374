"""What runs used, summed."""

import json
from pathlib import Path
from typing import Any

import recovery_state as at
from daemon_process import DaemonProcess


def used(daemon: DaemonProcess, repo: Path, *words: str) -> dict[str, Any]:
    done = daemon.cli("usage", *words, "--json", cwd=repo)
    assert done.returncode == 0, done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_runs_are_summed_by_what_is_asked(daemon: DaemonProcess, repo: Path) -> None:
    """Tokens, costs and outcomes; a run counts once for each of its labels, and once in all."""
    for prompt, labels in (
        ("say one\nusage 10 5", {"team": "a", "job": "x"}),
        ("say two\nusage 20 5", {"team": "a"}),
        ("refuse", {}),
    ):
        at.result(daemon, at.start(daemon, repo, prompt, labels=labels))
    found = used(daemon, repo, "--since", "1h", "--by", "agent,label")
    rows = {row["group"]["label"]: row for row in found["rows"]}
    text = daemon.cli("usage", "--by", "label", cwd=repo).stdout.splitlines()
    mine = used(daemon, repo, "-l", "job=x")["total"]
    later = used(daemon, repo, "--since", "2099-01-01")["total"]
    refused = daemon.cli("usage", "--by", "moon", cwd=repo)

    assert set(rows) == {"team=a", "job=x", "–"}
    assert {row["group"]["agent"] for row in rows.values()} == {"demo"}
    assert (rows["team=a"]["runs"], rows["team=a"]["tokens"]) == (2, 40)
    assert (rows["–"]["tokens"], rows["–"]["outcomes"]) == (None, {"refused": 1})
    assert (found["total"]["runs"], found["total"]["tokens"]) == (3, 40)
    assert found["total"]["outcomes"] == {"succeeded": 2, "refused": 1}
    assert text[0].split() == ["LABEL", "RUNS", "TOKENS", "COST", "OUTCOMES"]
    assert text[-1].split()[:2] == ["all", "3"]
    assert mine["runs"] == 1
    assert later["runs"] == 0
    assert refused.returncode == 64
