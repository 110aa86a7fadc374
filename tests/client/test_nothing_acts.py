"""Nothing that an agent, a label or a file's name says acts on a terminal, in any verb."""

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
import sourcetree
from daemon_process import BIN, DaemonProcess

# A clipboard write, a C1 control sequence, an override that shows text backwards.
HOSTILE = "\x1b]52;c;aGk=\x07 \u009b2J \u202egnp.exe"
ACTING = ("\x1b", "\x07", "\u009b", "\u202e")
SHELL = sourcetree.ROOT / "client/sh/coachman.sh"
VERBS = (
    ["list"],
    ["list", "-o", "wide", "-a"],
    ["list", "--attention"],
    ["show", "RUN"],
    ["log", "RUN"],
    ["tail", "ENDED"],
    ["tail", "ENDED", "--classify"],
    ["result", "ENDED"],
    ["result", "RUN"],
    ["show", "ENDED"],
    ["log", "ENDED"],
    ["diff", "ENDED"],
    ["diff", "ENDED", "--stat"],
    ["diff", "ENDED", "--names"],
    ["permissions"],
    ["permissions", "-a"],
    ["wait", "RUN", "--until", "attention"],
    ["wait", "ENDED"],
    ["wait", "ASKS", "--until", "attention"],
    ["show", "ASKS"],
    ["answer", "ASKS", HOSTILE],
    ["log", "ASKS"],
    ["usage", "--by", "label,task"],
    ["status"],
    ["answer", "RUN", "nothing"],
    ["prompt", "RUN", HOSTILE],
    ["interrupt", "RUN", HOSTILE],
    ["resume", "ENDED", "-m", HOSTILE, "go on"],
    ["run", "-a", HOSTILE, "x"],
    ["run", "-a", "demo", "-t", HOSTILE, "x"],
    ["show", HOSTILE],
    ["cleanup"],
    ["answer", "RUN", "allow"],
    ["close", "RUN"],
    ["cancel", "RUN"],
)
SHELL_VERBS = (
    ["status"],
    ["list"],
    ["tail", "ENDED"],
    ["prompt", "RUN", HOSTILE],
    ["interrupt", "RUN", HOSTILE],
    ["show", HOSTILE],
    ["answer", "RUN", "allow"],
    ["cancel", "RUN"],
)


@pytest.fixture
def runs(daemon: DaemonProcess, repo: Path) -> dict[str, str]:
    """One that has ended, with hostile words, names and contents; one that asks in such words."""
    (repo / f"old{HOSTILE.replace('/', '')}").write_text("kept\n")
    labels, title = {"team": HOSTILE}, HOSTILE
    prompt = f"say {HOSTILE}\nwrite new{HOSTILE} {HOSTILE}\nthink {HOSTILE}\nfail {HOSTILE}"
    ended = at.start(daemon, repo, prompt, labels=labels, title=title, task="t0")
    at.result(daemon, ended)
    asks = f"say {HOSTILE}\nask {HOSTILE}\nrun echo {HOSTILE}"
    run = live.keep(daemon, repo, asks, labels=labels, title=title, permissions="ask", task="t1")
    at.until_asked(daemon, run)
    words = f"run coachman ask '{HOSTILE}' --option '{HOSTILE}'"
    grant = {"depth": 0, "children": 0}
    asks = live.keep(daemon, repo, words, delegate=grant, task="t2")
    with daemon.client() as client:
        client.run.wait([asks], until="attention", timeout_s=60)
    return {"RUN": run[-5:], "ENDED": ended[-5:], "ASKS": asks[-5:]}


def on_terminal(argv: list[str], daemon: DaemonProcess, repo: Path) -> str:
    """What a command writes where its stdout and stderr are a terminal; its own colours are off."""
    master, slave = pty.openpty()
    env = {
        **daemon.env,
        "NO_COLOR": "1",
        "COACHMAN_NO_INPUT": "1",
        "COACHMAN_SOCKET": daemon.socket,
    }
    process = subprocess.Popen(
        argv, cwd=repo, env=env, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave
    )
    os.close(slave)
    said = b""
    try:
        while data := os.read(master, 65536):
            said += data
    except OSError:
        pass  # Linux says so when the last one closed the other end.
    os.close(master)
    process.wait(60)
    return said.decode("utf-8", "surrogateescape")


def acting(argv: list[str], said: str) -> list[str]:
    return [f"{argv}: {character!r} in {said!r}" for character in ACTING if character in said]


def test_no_verb_lets_anything_through(
    daemon: DaemonProcess, repo: Path, runs: dict[str, str]
) -> None:
    """Every verb for people, on a terminal; most of them show the very words."""
    found, shown = [], 0
    for words in VERBS:
        argv = [runs.get(word, word) for word in words]
        said = on_terminal([str(BIN / "coachman"), *argv], daemon, repo)
        assert said, argv
        shown += "\\x1b]52" in said or "\\u202e" in said
        found += acting(argv, said)

    assert found == []
    assert shown >= 12


def test_nor_does_the_shell_client(
    daemon: DaemonProcess, repo: Path, runs: dict[str, str], tool: Callable[[str], str]
) -> None:
    """The same in the one file of sh."""
    assert tool("jq")
    found = []
    for words in SHELL_VERBS:
        argv = [runs.get(word, word) for word in words]
        found += acting(argv, on_terminal(["sh", str(SHELL), *argv], daemon, repo))

    assert found == []


def test_documents_mean_the_same_and_do_not_act(
    daemon: DaemonProcess, repo: Path, runs: dict[str, str]
) -> None:
    """JSON for programs is escaped as well: it is often looked at."""
    said = on_terminal([str(BIN / "coachman"), "show", runs["ENDED"], "--json"], daemon, repo)

    assert acting(["show", "--json"], said) == []
    assert json.loads(said)["labels"] == {"team": HOSTILE}
