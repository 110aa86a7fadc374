"""What comes back of a login that an agent's program renewed, and what does not.

The programs here are scripts that leave what they like where a renewed login belongs.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from daemon_process import DaemonProcess
from shared_daemon import shared_daemon

# Counted from when this is loaded, which is long before the last test.
SOON_S, LATER_S = 60.0, 86_400.0
FILE = ".claude/.credentials.json"
OLD, NEW = "old-refresh-token", "new-refresh-token"
# In its renewal the login is said to have expired long ago; a run never has one that has.
PROGRAM = """#!/bin/sh
cd "$HOME/.claude" || exit 1
grep -q '"expiresAt": 1,' .credentials.json || exec sh -c '{run}'
{renewal}
"""
WRITE = "cat >.credentials.json <<'END'\n{}\nEND\n"


def login(refresh: str, in_s: float, **more: Any) -> dict[str, Any]:
    """Claude's form of one."""
    expires_ms = int((time.time() + in_s) * 1000)
    told = {"accessToken": f"access-of-{refresh}", "refreshToken": refresh}
    return {"claudeAiOauth": {**told, "expiresAt": expires_ms, "scopes": ["a"]}, **more}


def written(told: dict[str, Any]) -> str:
    return WRITE.format(json.dumps(told))


GOOD = written(login(NEW, LATER_S))
INTO_ITS_PLACE = "rm -f .credentials.json\n"
# What a program does instead of renewing, and what is told of it.
POISON = {
    "account": (written(login(NEW, LATER_S, organizationUuid="another")), "another account's"),
    "provider": (written({"other": login(NEW, LATER_S)["claudeAiOauth"]}), "holds no access"),
    "older": (written(login(NEW, SOON_S - 30)), "expire later"),
    "endless": (written(login(NEW, 1e9)), "expire later"),
    "no_expiry": (written(login(NEW, LATER_S)).replace('"expiresAt"', '"then"'), "when it expires"),
    "words": (written(login("new refresh\\ntoken", LATER_S)), "holds no access"),
    "short": (written(login("", LATER_S)), "holds no access"),
    "no_json": (WRITE.format('{"claudeAiOauth": '), "no JSON"),
    "deep": ("head -c 100000 /dev/zero | tr '\\0' '[' >.credentials.json", "no JSON"),
    "list": (WRITE.format("[1]"), "no JSON object"),
    "huge": ("head -c 300000 /dev/zero | tr '\\0' ' ' >>.credentials.json", "larger than"),
    "endless_file": ("truncate -s 1T .credentials.json", "larger than"),
    "link": (f"{INTO_ITS_PLACE}ln -s /etc/passwd .credentials.json", "no regular file"),
    "folder_link": ("cd .. && mv .claude c && ln -s c .claude", "no regular file"),
    "pipe": (f"{INTO_ITS_PLACE}mkfifo .credentials.json", "no regular file"),
    "folder": (f"{INTO_ITS_PLACE}mkdir .credentials.json", "no regular file"),
    "gone": ("rm -f .credentials.json", "missing"),
    "nothing": ("exit 3", "not renewed"),
}
MADE = {
    "good": (GOOD, "exit 0"),
    "more": (written(login(NEW, LATER_S, kept="theirs", more={"hook": "run me"})), "exit 0"),
    # It waits for the test.
    "slow": (f"until [ -e ../go ]; do sleep 0.05; done\n{GOOD}", "exit 0"),
    # It has the means to renew nothing, and would rather have another login in its place.
    "run": ("exit 1", GOOD.replace("'END'", "END")),
    **{case: (does, "exit 0") for case, (does, _) in POISON.items()},
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon; each case is an instance of claude with a program and a home of its own."""
    entries = "\n".join(
        f'[agents.c-{case}]\nadapter = "claude"\nexecutable = "{{bin}}/{case}/claude"\n'
        f'home = "{{homes}}/{case}"'
        for case in MADE
    )
    base = Path(f"/tmp/cm-logins-{os.getpid()}")
    for case, (renewal, run) in MADE.items():
        program = base / case / "claude"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM.format(renewal=renewal, run=run))
        program.chmod(0o755)
        (base / "homes" / case / ".claude").mkdir(parents=True)
    config = entries.replace("{bin}", str(base)).replace("{homes}", str(base / "homes"))
    try:
        with shared_daemon(f'[storage]\nsealed = "{{neutral}}"\n{config}\n') as process:
            process.env["HOMES"] = str(base / "homes")
            yield process
    finally:
        shutil.rmtree(base)


def log_in(daemon: DaemonProcess, case: str, in_s: float = SOON_S, **more: Any) -> Path:
    """The user's login of a case, in her home."""
    path = Path(daemon.env["HOMES"], case, FILE)
    path.write_text(json.dumps(login(OLD, in_s, **more)))
    path.chmod(0o640)
    return path


def ran(daemon: DaemonProcess, case: str, **options: Any) -> dict[str, Any]:
    """The result of a run of the case's agent."""
    repo = daemon.root / "repo"
    run = at.start(daemon, repo, "say", agent=f"c-{case}", network=["none"], **options)
    return at.result(daemon, run)


def left(daemon: DaemonProcess) -> list[Path]:
    """What is left of renewals."""
    return list((daemon.state / "logins").rglob("*"))


@pytest.mark.parametrize("case", sorted(POISON))
def test_a_poisoned_login_does_not_come_back(daemon: DaemonProcess, case: str) -> None:
    """The user's file stays as it is, and the run says that it was not renewed, and why."""
    path = log_in(daemon, case)
    before = path.read_bytes()
    result = ran(daemon, case)
    [told] = [each for each in result["warnings"] if "was not renewed" in each]

    assert path.read_bytes() == before
    assert POISON[case][1] in told
    assert left(daemon) == []


def test_only_its_tokens_come_back(daemon: DaemonProcess) -> None:
    """Access, refresh and expiry are renewed; all else, mode and owner are the user's."""
    path = log_in(daemon, "more", kept="mine")
    owner = 65534 if os.getuid() == 0 else os.getuid()
    os.chown(path, owner, -1)
    ran(daemon, "more")
    told, found = json.loads(path.read_bytes()), path.stat()

    assert told["claudeAiOauth"].pop("expiresAt") > (time.time() + LATER_S / 2) * 1000
    assert told == {
        "claudeAiOauth": {
            "accessToken": f"access-of-{NEW}",
            "refreshToken": NEW,
            "scopes": ["a"],
        },
        "kept": "mine",
    }
    assert (found.st_mode & 0o777, found.st_uid) == (0o640, owner)
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]


def test_a_link_of_the_users_stays_one(daemon: DaemonProcess) -> None:
    """Who keeps the file elsewhere, behind a link, still does."""
    path = log_in(daemon, "good")
    kept = path.with_name("kept.json")
    path.rename(kept)
    path.symlink_to(kept.name)
    ran(daemon, "good")

    assert path.is_symlink()
    assert json.loads(kept.read_bytes())["claudeAiOauth"]["refreshToken"] == NEW


def test_what_the_user_changed_meanwhile_is_not_overwritten(daemon: DaemonProcess) -> None:
    """Who logs in anew while a login is renewed keeps the new login, and is told."""
    path = log_in(daemon, "slow")
    repo = daemon.root / "repo"
    run = at.start(daemon, repo, "say", agent="c-slow", network=["none"])
    ends = time.monotonic() + 60
    while not (begun := list((daemon.state / "logins").glob("*/keeper/keeper.json"))):
        assert time.monotonic() < ends
        time.sleep(0.02)
    mine = json.dumps(login("logged-in-anew", LATER_S)).encode()
    path.write_bytes(mine)
    (begun[0].parents[1] / "home" / "go").touch()
    result = at.result(daemon, run)

    assert path.read_bytes() == mine
    assert any("renewed in vain: it was changed" in told for told in result["warnings"])
    assert left(daemon) == []


@pytest.mark.parametrize("profile", ["edit", "review", "sealed"])
def test_nothing_of_a_runs_own_home_comes_back(daemon: DaemonProcess, profile: str) -> None:
    """An agent that puts another login into its home changes nothing of its user's."""
    path = log_in(daemon, "run", LATER_S)
    before = path.read_bytes()
    ran(daemon, "run", profile=profile)

    assert path.read_bytes() == before
