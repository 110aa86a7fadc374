"""The file handler: a question lies in BASE.req, and BASE.req.response answers it."""

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coachman
from daemon_process import DaemonProcess
from permission_desk import (
    WRITE,
    Eventually,
    base_of,
    ended,
    passed,
    request_of,
    resolved,
    respond,
    start,
    waiting,
)


def answer(asked: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"run": asked["run"], "request": asked["request"], **members}


def test_the_answer_of_a_file_is_taken_and_its_question_goes(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """The question is there whole and private; an answer that is moved there settles it."""
    base = base_of(daemon)
    run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
    asked = request_of(base, eventually)
    mode = stat.S_IMODE(base.with_name("q.req").stat().st_mode)
    respond(base, answer(asked, kind="allow"))
    result = ended(daemon, run)
    [settled] = resolved(daemon, run)

    assert (asked["run"], asked["tool"]["kind"], mode) == (run, "edit", 0o600)
    assert asked["options"][0]["kind"] == "allow_once"
    assert settled["by"] == {"resolver": "file", "path": str(base)}
    assert [changed["path"] for changed in result["changed_files"]] == ["x.txt"]
    eventually(lambda: os.listdir(base.parent) == [])


BAD = [
    ("", "it names neither"),
    ('{"request": "p1"', "it is no JSON"),
    ("[1]", "it is no JSON object"),
    ({"kind": "allow"}, "does not say the `run`"),
    ({"run": "{run}", "request": "p7", "kind": "allow"}, "about `request` 'p7'"),
    ({"run": "{run}", "request": "{request}", "kind": "perhaps"}, "'perhaps' is none of"),
    ({"run": "{run}", "request": "{request}", "option": "nope"}, "no option has option 'nope'"),
    ({"run": "{run}", "request": "{request}", "kind": "never"}, "no option has kind"),
    ({"run": "{run}", "request": "{request}", "option": 1}, "`option` is no text"),
    ({"run": "{run}", "request": "{request}", "who": "me"}, "'who' is no member"),
    ("x" * 70_000, "has more than 64 KiB"),
]


def test_what_is_no_answer_is_named_and_leaves_the_question_open(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Garbage, half an answer, one to something else: an error file says why; then a good one."""
    base = base_of(daemon)
    run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
    asked = request_of(base, eventually)
    error = base.with_name("q.req.error")
    for bad, complaint in BAD:
        text = bad if isinstance(bad, str) else json.dumps(bad)
        respond(base, text.replace("{run}", run).replace("{request}", asked["request"]))
        eventually(lambda: error.exists() and complaint in error.read_text())  # noqa: B023
        assert json.loads(error.read_text())["request"] == asked["request"]
        assert waiting(daemon, run)["request"] == asked["request"]
    link = base.with_name("link")
    link.symlink_to("/etc/passwd")
    link.rename(base.with_name("q.req.response"))
    eventually(lambda: "cannot be read" in error.read_text())
    respond(base, answer(asked, option=asked["options"][-1]["id"]))
    ended(daemon, run)

    assert [e["kind"] for e in resolved(daemon, run)] == ["reject_once"]
    assert [who for who, _ in passed(daemon, run)] == ["file"] * (len(BAD) + 1)
    eventually(lambda: os.listdir(base.parent) == [])


def test_an_answer_that_is_written_in_place_is_read_when_it_is_complete(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Who does not rename is not read before the file is closed."""
    base = base_of(daemon)
    run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
    asked = request_of(base, eventually)
    text = json.dumps(answer(asked, kind="deny"))
    with base.with_name("q.req.response").open("w") as file:
        file.write(text[:10])
        file.flush()
        waiting(daemon, run)
        file.write(text[10:])
    ended(daemon, run)

    assert passed(daemon, run) == []
    assert resolved(daemon, run)[0]["by"]["resolver"] == "file"


def test_questions_of_several_runs_take_turns_in_one_file(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """One question at a time, in the order in which they came; each answer meets its own."""
    base = base_of(daemon)
    runs = []
    for number in range(3):
        runs.append(
            start(daemon, repo, WRITE, permission_handler=f"file:{base}", task=f"t{number}")
        )
        waiting(daemon, runs[-1])
    shown = []
    for kind in ("allow", "deny", "allow"):
        seen = [*shown]
        asked = eventually(
            lambda: (
                base.with_name("q.req").exists()
                and (found := json.loads(base.with_name("q.req").read_text()))["run"] not in seen  # noqa: B023
                and found
            )
        )
        shown.append(asked["run"])
        respond(base, answer(asked, kind=kind))
    outcomes = [ended(daemon, run)["changed_files"] != [] for run in runs]

    assert shown == runs
    assert outcomes == [True, False, True]


def test_the_command_line_answers_with_no_daemon_and_is_heard_by_the_next(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """What is answered while no daemon runs counts; what was not offered is refused at once."""
    base = base_of(daemon)
    run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
    asked = request_of(base, eventually)
    status = daemon.cli("status")
    daemon.kill()
    wrong = daemon.cli("answer", "--file", str(base), "never")
    base.with_name("q.req").rename(base.with_name("kept"))
    nothing = daemon.cli("answer", "--file", str(base), "allow")
    base.with_name("kept").rename(base.with_name("q.req"))
    done = daemon.cli("answer", "--file", "q", "allow", "--json", cwd=base.parent)
    again = daemon.cli("answer", "--file", str(base), "deny")
    daemon.start()
    ended(daemon, run)

    assert "1 question waits: coachman permissions" in status.stdout
    assert (wrong.returncode, "no option is" in wrong.stderr) == (64, True)
    assert (nothing.returncode, "nothing is asked" in nothing.stderr) == (66, True)
    assert json.loads(done.stdout)["request"] == asked["request"]
    assert (again.returncode, "there already" in again.stderr) == (76, True)
    assert resolved(daemon, run)[0]["by"]["resolver"] == "file"
    eventually(lambda: os.listdir(base.parent) == [])


def test_a_question_outlives_the_daemon_and_is_shown_again(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """Killed with a question open, the next daemon puts the file there that is gone."""
    base = base_of(daemon)
    run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
    before = request_of(base, eventually)
    daemon.kill()
    base.with_name("q.req").unlink()
    daemon.start()
    asked = request_of(base, eventually)
    respond(base, answer(asked, kind="allow"))
    ended(daemon, run)

    assert (asked["run"], asked["request"]) == (before["run"], before["request"])
    assert len(resolved(daemon, run)) == 1


@pytest.mark.parametrize("step", ["permission.shown", "permission.taken", "permission.answered"])
def test_a_crash_at_any_step_loses_no_answer(
    state_dir: Path, repo: Path, eventually: Eventually, step: str
) -> None:
    """An answer that was taken counts once, and nothing of it is left lying there."""
    daemon = DaemonProcess(state_dir, {"COACHMAN_FAILPOINT": f"{step}:kill"}).start()
    try:
        base = base_of(daemon)
        run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
        respond(base, answer(request_of(base, eventually), kind="allow"))
        assert daemon.process is not None
        daemon.process.wait(20)
        del daemon.env["COACHMAN_FAILPOINT"]
        daemon.start()
        result = ended(daemon, run)

        assert [changed["path"] for changed in result["changed_files"]] == ["x.txt"]
        assert [e["by"]["resolver"] for e in resolved(daemon, run)] == ["file"]
        eventually(lambda: os.listdir(base.parent) == [])
    finally:
        daemon.tidy()


def test_whoever_is_first_takes_the_question_from_the_file(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """A client that answers makes the file go, and a cancelled run as well."""
    base = base_of(daemon)
    first = start(daemon, repo, WRITE, permission_handler=f"file:{base}", task="a")
    asked = request_of(base, eventually)
    with daemon.client() as client:
        client.permission.answer(asked["request"], run=first, kind="allow")
        ended(daemon, first)
        eventually(lambda: os.listdir(base.parent) == [])
        second = start(daemon, repo, WRITE, permission_handler=f"file:{base}", task="b")
        request_of(base, eventually)
        client.run.cancel([second])
        ended(daemon, second)

    eventually(lambda: os.listdir(base.parent) == [])
    assert resolved(daemon, second)[0]["by"]["resolver"] == "cancel"


def test_a_directory_that_others_reach_is_refused(daemon: DaemonProcess, repo: Path) -> None:
    """Agents must not answer for themselves: not in the repository or the state, nor by others."""
    open_to_all = daemon.root / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    inside = daemon.root / "link"
    inside.symlink_to(repo)
    for directory, why in (
        (repo, "which agents reach"),
        (inside, "which agents reach"),
        (daemon.state, "which agents reach"),
        (daemon.root / "none", "has no directory"),
        (open_to_all, "written by others"),
    ):
        with pytest.raises(coachman.CoachmanError, match=why) as refused:
            start(daemon, repo, WRITE, permission_handler=f"file:{directory}/q")
        assert refused.value.name == "Denied"
    with pytest.raises(coachman.CoachmanError, match="each absolute"):
        start(daemon, repo, WRITE, permission_handler="file:q")


def _notes(path: Path) -> None:
    path.write_text("notes\n")


def _json(path: Path) -> None:
    path.write_text('{"todo": ["tidy up"]}\n')


FOREIGN: dict[str, Callable[[Path], None]] = {
    "notes": _notes,
    "json": _json,
    "nothing": Path.touch,
    "directory": Path.mkdir,
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/passwd"),
}


def test_what_lies_there_and_is_no_question_is_left_alone(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A run whose questions would overwrite somebody's file does not start, and says which."""
    for name, put in FOREIGN.items():
        base = daemon.root / name / "q"
        base.parent.mkdir(mode=0o700)
        for path in (base.with_name("q.req"), base.with_name("q.req.error")):
            put(path)
            before = os.lstat(path)
            with pytest.raises(coachman.CoachmanError, match="is there already") as refused:
                start(daemon, repo, WRITE, permission_handler=f"file:{base}")
            after = os.lstat(path)
            path.rename(daemon.root / f"{name}-{path.name}")

            assert refused.value.name == "Denied"
            assert refused.value.hint == f"name another BASE, or move {path} away"
            assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)


def _two_questions(
    daemon: DaemonProcess, repo: Path, base: Path, between: Callable[[], None]
) -> list[str]:
    """What the file's handler passes of two questions; ``between`` is done while one is open."""
    run = start(
        daemon, repo, f"ask one\n{WRITE}", permission_handler=f"file:{base}", task=base.parent.name
    )
    asked = waiting(daemon, run)
    while not base.with_name("q.req").exists():
        time.sleep(0.02)
    between()
    with daemon.client() as client:
        client.permission.answer(asked["request"], run=run, kind="allow")
        while (second := waiting(daemon, run))["request"] == asked["request"]:
            time.sleep(0.02)
        while not passed(daemon, run):
            time.sleep(0.02)
        client.permission.answer(second["request"], run=run, kind="deny")
    ended(daemon, run)
    return [why for _, why in passed(daemon, run)]


def test_what_took_the_place_of_a_question_is_left_alone(daemon: DaemonProcess, repo: Path) -> None:
    """A file put over an open question stays once that is settled; the next one says so."""
    for name, put in FOREIGN.items():
        base = daemon.root / name / "q"
        base.parent.mkdir(mode=0o700)
        path = base.with_name("q.req")
        found: list[os.stat_result] = []

        def place(
            path: Path = path,
            put: Callable[[Path], None] = put,
            found: list[os.stat_result] = found,
        ) -> None:
            path.unlink()
            put(path)
            found.append(os.lstat(path))

        [why] = _two_questions(daemon, repo, base, place)
        after = os.lstat(path)

        assert why == f"cannot be used: {path} is there already, and is no file of coachman's"
        assert [(after.st_ino, after.st_size)] == [(f.st_ino, f.st_size) for f in found]
        assert os.listdir(base.parent) == ["q.req"]


def test_why_no_question_can_be_put_there_is_said_in_words(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """A name that leaves no room for what is written beside it: the record says what is wrong."""
    base = base_of(daemon).with_name("q" * 245)
    run = start(daemon, repo, WRITE, permission_handler=f"file:{base}")
    eventually(lambda: passed(daemon, run))

    assert passed(daemon, run) == [("file", f"{base} cannot be used: File name too long")]


def test_a_missing_directory_is_to_be_made(daemon: DaemonProcess, repo: Path) -> None:
    """The hint says how."""
    directory = daemon.root / "none"
    with pytest.raises(coachman.CoachmanError, match="has no directory") as refused:
        start(daemon, repo, WRITE, permission_handler=f"file:{directory}/q")

    assert refused.value.hint == f"make it: mkdir -m 700 {directory}"
