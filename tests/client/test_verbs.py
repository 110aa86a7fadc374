"""What the verbs print and how they exit, against a scripted daemon."""

import base64
import json
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import coachman as package
from client_daemon import (
    HANDLE,
    ROOT,
    RUN,
    FakeDaemon,
    FaultError,
    Peer,
    coachman,
    command,
    environment,
    numbered,
    streaming,
)
from client_samples import AGENTS, permission, result, summary
from coachman.wire import OUTCOMES, exit_of_result

STATUS = {
    "version": "0.1.0",
    "build": "b",
    "instance": "i",
    "pid": 42,
    "uptime_s": 252.0,
    "started_at": 0,
    "socket": "/s/control.sock",
    "state_dir": "/s",
    "runs": {"active": 2, "queued": 0},
    "capacity": {"max_active": 8, "active": 2, "queued": 0},
    "storage": {"state": "ok", "free_bytes": 3 * 1024**3},
    "boundary": {"ok": True, "bwrap": {"path": "/b", "version": "0.11.0", "source": "wheel"}},
}


def refusing(name: str, message: str, **data: object) -> Callable[..., dict[str, object]]:
    def refuse(_params: object, _peer: Peer) -> dict[str, object]:
        raise FaultError(name, message, **data)

    return refuse


def daemon_at(state_dir: Path, **handlers: object) -> FakeDaemon:
    handlers.setdefault("daemon__hello", {})
    named = {name.replace("__", "."): handler for name, handler in handlers.items()}
    return FakeDaemon(state_dir / "control.sock", named)  # type: ignore[arg-type]


def test_status_is_read_at_a_glance(state_dir: Path) -> None:
    """Status prints load, storage and boundary in a line each."""
    with daemon_at(state_dir, daemon__status=STATUS):
        done = coachman(state_dir, "status")

    assert done.returncode == 0
    assert done.stdout == (
        "coachmand 0.1.0, pid 42, up 4m12s\n"
        "  socket    /s/control.sock\n"
        "  state     /s\n"
        "  runs      2 active (at most 8 at once)\n"
        "  storage   ok, 3.0 GiB free\n"
        "  boundary  ok: bubblewrap 0.11.0 (wheel), /b\n"
    )


def test_json_is_the_result_of_the_call(state_dir: Path) -> None:
    """With --json stdout is the daemon's answer, member for member."""
    with daemon_at(state_dir, daemon__status=STATUS):
        done = coachman(state_dir, "--json", "status")

    assert json.loads(done.stdout) == STATUS
    assert done.stderr == ""


def test_without_a_daemon_verbs_exit_69(state_dir: Path) -> None:
    """A verb that only looks starts nothing and says how to."""
    done = coachman(state_dir, "status")

    assert (done.returncode, done.stdout) == (69, "")
    assert "no daemon listens" in done.stderr
    assert "coachman daemon start" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (["status"], 69, "DaemonNotRunning"),
        (["stauts"], 64, "Usage"),
        (["list", "--bogus"], 64, "Usage"),
        (["wait"], 64, "Usage"),
        (["wait", "x", "--timeout", "soon"], 64, "Usage"),
        (["run", "--tied", "p"], 64, "Usage"),
        (["run", "-C", "/nowhere", "p"], 64, "Usage"),
    ],
)
def test_failures_are_one_document_too(
    state_dir: Path, words: list[str], code: int, name: str
) -> None:
    """With --json a failure is exactly one document on stdout, complete in itself."""
    done = coachman(state_dir, *words, "--json")
    error = json.loads(done.stdout)["error"]

    assert done.returncode == code
    assert done.stdout.count("\n") == 1
    assert set(error) == {
        "name", "message", "hint", "retryable", "retry_after_s", "detail", "next",
    }  # fmt: skip
    assert (error["name"], error["message"][:7]) == (name, "cannot ")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("NotFound", 66),
        ("InternalError", 70),
        ("BoundaryUnavailable", 71),
        ("Degraded", 74),
        ("Busy", 75),
        ("Conflict", 76),
        ("Denied", 77),
        ("AgentFailed", 78),
    ],
)
def test_exit_codes_tell_errors_of_the_daemon(state_dir: Path, name: str, code: int) -> None:
    """Each error of the wire has its exit code."""
    with daemon_at(
        state_dir, run__get=refusing(name, "cannot show: no", next=[["coachman", "x y"]])
    ):
        done = coachman(state_dir, "show", "k7q3x")

    assert done.returncode == code
    assert done.stderr == "cannot show: no\n  next: coachman 'x y'\n"


def test_an_unknown_verb_names_what_is_near(state_dir: Path) -> None:
    """A mistyped verb gets what was meant and exits 64; any other word gets no guess."""
    done = coachman(state_dir, "cancle")

    assert done.returncode == 64
    assert "near it: cancel\n" in done.stderr
    assert coachman(state_dir, "nope").stderr == (
        "cannot nope: there is no such verb\n  next: coachman --help\n"
    )


def test_aliases_are_the_verbs_they_stand_for(state_dir: Path) -> None:
    """`ps` lists, as docker users expect."""
    with daemon_at(state_dir, run__list={"runs": [], "older": 3}):
        done = coachman(state_dir, "ps")

    assert done.stdout == "no runs · 3 older: coachman list -a\n"


def test_list_has_what_needs_attention_first(state_dir: Path) -> None:
    """The table has a row a run, waiting ones first, with what they ask."""
    asking = summary(
        handle="p0c4e",
        task="flaky",
        state="waiting",
        attention={"kind": "permission", "question": "npm i\x1b[2J", "tool": {"name": "Bash"}},
    )
    failed = summary(
        handle="m2x9d", state="ended", outcome="failed", now=None, error={"message": "exit 3"}
    )
    blocked = {**failed, "outcome": "blocked", "error": None, "stop_reason": "refused"}
    first = summary(tokens=None, cost_usd=None, created_at=0, started_at=0)
    page = {
        "runs": [first, asking, failed, blocked],
        "older": 37,
    }
    with daemon_at(state_dir, run__list=page):
        done = coachman(state_dir, "list")
    lines = done.stdout.splitlines()

    assert lines[0].split() == [
        "RUN",
        "TASK",
        "AGENT",
        "STATE",
        "AGE",
        "TOKENS",
        "COST",
        "CHANGES",
        "NOW",
    ]
    assert lines[1].startswith("p0c4e  flaky   claude  needs you")
    assert lines[1].endswith("81k  $0.42  2 files +120 -14  Bash: npm i\\x1b[2J")
    assert lines[2].startswith("k7q3x  parser  claude  working")
    assert lines[2].endswith("–      –  2 files +120 -14  cargo test")
    assert [line.rpartition("  ")[2] for line in lines[3:5]] == ["exit 3", "refused"]
    assert lines[5] == "1 needs you · 37 older: coachman list -a"


def test_list_passes_its_filters_on(state_dir: Path) -> None:
    """Filters become parameters of the call."""
    words = ["--state", "active,waiting", "-l", "a=b", "--here", "--limit", "5", "-a"]
    with daemon_at(state_dir, run__list={"runs": [summary()], "older": 0}) as daemon:
        done = coachman(state_dir, "list", "-q", *words)

    assert done.stdout == "k7q3x\n"
    assert daemon.params("run.list") == [
        {
            "state": ["active", "waiting"],
            "labels": {"a": "b"},
            "here": str(state_dir),
            "limit": 5,
            "all": True,
        }
    ]


def test_list_answers_from_the_files_without_a_daemon(state_dir: Path) -> None:
    """Without a daemon the state directory is read, and the answer is marked stale."""
    run = state_dir / "runs" / RUN
    run.mkdir(parents=True)
    (run / "request.json").write_text(
        json.dumps(
            {"format": 1, "task": "parser", "agent": "demo", "created_ms": 5, "executable": {}}
        )
    )
    (state_dir / "live").mkdir()
    (state_dir / "live" / RUN).touch()
    ended = state_dir / "runs" / "261129-220418-m2x9d"
    ended.mkdir()
    (ended / "request.json").write_text('{"format": 1, "task": "flaky", "agent": "demo"}')
    (ended / "result.json").write_text('{"format": 1, "outcome": "failed", "ended_at": 5}')
    done = coachman(state_dir, "list", "--json")
    page = json.loads(done.stdout)

    assert done.returncode == 0
    assert page["stale"] is True
    rows = {row["handle"]: (row["task"], row["state"], row["outcome"]) for row in page["runs"]}
    assert rows == {"k7q3x": ("parser", "unknown", None), "m2x9d": ("flaky", "ended", "failed")}
    assert [row["created_at"] for row in page["runs"] if row["handle"] == "k7q3x"] == [5]
    assert not any("executable" in row for row in page["runs"])
    assert "maybe stale" in coachman(state_dir, "list").stderr


def test_a_result_is_message_verdict_and_evidence(state_dir: Path) -> None:
    """The final message comes first, then the verdict, the changed files and the evidence."""
    with daemon_at(state_dir, run__result=result()):
        done = coachman(state_dir, "result", HANDLE)

    assert done.returncode == 0
    assert done.stdout == (
        "All done.\n\n"
        "k7q3x succeeded after 4m12s\n"
        "  work: 1 file, coachman diff k7q3x      81k tokens, $0.42\n"
        "  M a.py\n"
        f"  evidence: /state/runs/{RUN}\n"
    )


def test_a_cut_message_says_where_all_of_it_is(state_dir: Path) -> None:
    """What was left out of a long final message is named by its file."""
    cut = result(final_message_truncated=True, final_path="/state/final.md")
    with daemon_at(state_dir, run__result=cut):
        done = coachman(state_dir, "result", HANDLE)

    assert done.stderr == "  [cut; all of it is in /state/final.md]\n"


def test_a_failed_result_says_why_and_what_next(state_dir: Path) -> None:
    """A failure names its cause, what is kept and the next commands."""
    failed = result(outcome="failed", final_message="", error="the model API answered 401")
    with daemon_at(state_dir, run__result=failed):
        done = coachman(state_dir, "result", HANDLE)

    assert done.returncode == 1
    assert done.stdout.splitlines()[:3] == [
        "k7q3x failed after 4m12s: the model API answered 401",
        "  work kept: 1 file, coachman diff k7q3x      81k tokens, $0.42",
        "  next: coachman log k7q3x; coachman show k7q3x; coachman doctor claude",
    ]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_exit_code_tells_the_outcome(state_dir: Path, outcome: str) -> None:
    """`wait` exits with the code of the outcome that it met."""
    run = {"run": RUN, "handle": HANDLE, "state": "ended", "outcome": outcome, "met": "ended"}
    with daemon_at(state_dir, run__wait={"met": "ended", "runs": [run]}):
        done = coachman(state_dir, "wait", HANDLE)

    assert done.returncode == exit_of_result(outcome, None)
    assert done.stdout == f"k7q3x  {outcome.replace('_', ' ')}\n"


@pytest.mark.parametrize(
    ("met", "runs", "code"),
    [
        ("attention", [{"met": "attention"}], 10),
        ("timeout", [{"met": None}], 11),
        ("ended", [{"outcome": "succeeded"}, {"outcome": "succeeded"}], 0),
        ("ended", [{"outcome": "refused"}, {"outcome": "refused"}], 2),
        ("ended", [{"outcome": "succeeded"}, {"outcome": "refused"}], 1),
    ],
)
def test_wait_has_one_code_for_all(
    state_dir: Path, met: str, runs: list[dict[str, object]], code: int
) -> None:
    """Attention is 10, its own timeout 11; several runs share a code or make it 1."""
    rows = [{"run": RUN, "handle": HANDLE, "state": "active", **run} for run in runs]

    def wait(params: dict[str, float], _peer: Peer) -> dict[str, object]:
        if met == "timeout":
            time.sleep(params["timeout_s"])
        return {"met": met, "runs": rows}

    with daemon_at(state_dir, run__wait=wait) as daemon:
        done = coachman(state_dir, "wait", "a", "b", "--until", "attention", "--timeout", "1")
    first, *others = daemon.params("run.wait")

    assert done.returncode == code
    assert (first["runs"], first["timeout_s"]) == (["a", "b"], 0)
    assert [0 < params["timeout_s"] <= 1 for params in others] == [True] * (met == "timeout")


def test_wait_says_once_that_a_run_has_parked(state_dir: Path) -> None:
    """Whoever waits when it parks is told, and waits on without being told again."""
    answers = iter([("timeout", "active"), ("idle", "parked"), ("ended", "ended")])

    def wait(_params: object, _peer: Peer) -> dict[str, object]:
        met, now = next(answers)
        run = {"run": RUN, "handle": HANDLE, "state": now, "outcome": "succeeded"}
        return {"met": met, "runs": [run]}

    with daemon_at(state_dir, run__wait=wait) as daemon:
        told = coachman(state_dir, "wait", "@")
    asked = [(p["runs"], p.get("timeout_s"), p.get("idle")) for p in daemon.params("run.wait")]

    assert told.stderr.count("\n") == 1
    assert told.stderr.startswith("k7q3x  parked: nothing happens until it is prompted or closed")
    assert asked == [(["@"], 0, True), ([RUN], None, True), ([RUN], None, None)]


def test_wait_asks_again_when_the_daemon_restarts(state_dir: Path) -> None:
    """A wait that loses its daemon says so and is put to the next one."""
    answers = iter([True, False])

    def wait(_params: object, peer: Peer) -> dict[str, object]:
        if next(answers):
            peer.hang_up()
        run = {"run": RUN, "handle": HANDLE, "state": "ended", "outcome": "succeeded"}
        return {"met": "ended", "runs": [run]}

    with daemon_at(state_dir, run__wait=wait) as daemon:
        done = coachman(state_dir, "wait", HANDLE)

    assert done.returncode == 0
    assert done.stderr == "  [the daemon is gone; the run goes on; waiting for its return]\n"
    assert len(daemon.params("run.wait")) == 2


def test_a_patch_is_printed_byte_for_byte(state_dir: Path) -> None:
    """Pages are put together, and bytes that are no UTF-8 arrive as they are."""
    pages = iter(
        [
            {"patch": "one\r\n", "files": [], "truncated": True, "next_offset": 5},
            {"patch_b64": base64.b64encode(b"\xff\x00two\n").decode(), "files": []},
        ]
    )
    with daemon_at(
        state_dir, run__get=summary(), run__diff=lambda _params, _peer: next(pages)
    ) as daemon:
        done = subprocess.run(
            command("diff", "parser"),
            capture_output=True,
            cwd=state_dir,
            env=environment(state_dir),
            check=True,
        )

    assert done.stdout == b"one\r\n\xff\x00two\n"
    assert [p.get("offset") for p in daemon.params("run.diff")] == [None, 5]


@pytest.mark.parametrize(
    ("named", "meant"), [("parser", {"task": "parser"}), ("k7q", {"run": RUN}), ("@", {"run": RUN})]
)
def test_a_tasks_name_means_the_task(state_dir: Path, named: str, meant: dict[str, str]) -> None:
    """`diff TASK` is base to now, `diff RUN` what that run did."""
    page = {"files": [{"path": "a\x1b", "status": "added", "added": 1, "removed": 0}]}
    with daemon_at(state_dir, run__get=summary(), run__diff=page) as daemon:
        done = coachman(state_dir, "diff", named, "--stat")

    assert done.stdout == "added             +1 -0  a\\x1b\n"
    assert daemon.params("run.diff") == [{**meant, "stat": True, "dir": str(state_dir)}]


def test_a_transcript_is_read_backwards_in_pages(state_dir: Path) -> None:
    """`log` prints the last lines and how to get those before them."""
    lines = [
        {"seq": 4, "ts": 0, "kind": "tool", "text": "npm i [completed]"},
        {"seq": 5, "ts": 0, "kind": "message", "text": "one\ntwo\x1b"},
    ]
    page = {"lines": lines, "truncated": True, "next_cursor": 7}
    with daemon_at(state_dir, run__log=page) as daemon:
        done = coachman(state_dir, "log", HANDLE, "-n", "2", "--cursor", "9")

    assert done.stdout == "  > npm i [completed]\none\ntwo\\x1b\n"
    assert "coachman log k7q3x --cursor 7" in done.stderr
    assert daemon.params("run.log") == [
        {"run": HANDLE, "lines": 2, "cursor": 9, "dir": str(state_dir)}
    ]


def test_permissions_show_the_whole_question(state_dir: Path) -> None:
    """A command is shown whole and visible, with numbered choices."""
    page = {"permissions": [permission(question="rm -rf /\nnpm \x1b[8mx", deadline=None)]}
    with daemon_at(state_dir, permission__list=page):
        done = coachman(state_dir, "permissions")

    assert done.stdout == (
        "k7q3x  p1  claude  waiting\n"
        "  Bash: rm -rf /\n"
        "      npm \\x1b[8mx\n"
        "  1 Allow once   2 Allow always   3 Reject\n"
        "  coachman answer k7q3x allow|always|deny\n"
    )


def test_permissions_show_what_would_be_done(state_dir: Path) -> None:
    """A change is shown as lines, a tool's input where the question lacks it: the first 20."""
    old = "\n".join(f"line {n}" for n in range(60))
    diff = {"type": "diff", "path": "a.py", "oldText": old, "newText": old + "\nnew \x1b[8m\r"}
    whole = {"type": "diff", "path": "b.py", "oldText": None, "newText": old}
    asked = [
        permission(tool={"name": "write", "content": [diff], "input": {"content": "all of it"}}),
        permission(tool={"name": "write", "content": [whole]}),
        permission(tool={"name": "Bash", "input": {"command": "npm i left-pad", "cwd": "/w"}}),
    ]
    with daemon_at(state_dir, permission__list={"permissions": asked}):
        changed, written, run = coachman(state_dir, "permissions").stdout.split("k7q3x  p1")[1:]

    assert changed.splitlines()[2:6] == [
        "      a.py:",
        "      @@ -60 +60,2 @@",
        "       line 59",
        "      +new \\x1b[8m\\r",
    ]
    assert "all of it" not in changed
    assert "      +line 18\n      … 41 more lines: coachman permissions k7q3x --json\n" in written
    assert [line.strip() for line in run.splitlines()[2:-2]] == ["cwd: /w"]


SEVERAL = [
    {"id": "a", "kind": "allow_once", "name": "Red"},
    {"id": "b", "kind": "allow_once", "name": "Blue"},
    {"id": "c", "kind": "reject_once", "name": "Neither"},
]
ONE_EACH = [SEVERAL[0], {"id": "d", "kind": "reject_always", "name": "Never"}]


@pytest.mark.parametrize(("options", "told"), [(SEVERAL, "1|2|3"), (ONE_EACH, "allow|never")])
@pytest.mark.parametrize("verb", ["permissions", "show", "result"])
def test_a_hint_names_only_what_is_taken(
    state_dir: Path, verb: str, options: list[dict[str, str]], told: str
) -> None:
    """Of several options of one kind none is meant by a word: then they have numbers."""
    asked = permission(options=options)
    handlers = {
        "run__get": summary(attention=asked),
        "run__result": refusing("Conflict", "cannot give the result: it waits"),
        "permission__list": {"permissions": [asked]},
    }
    with daemon_at(state_dir, **handlers):
        done = coachman(state_dir, verb, HANDLE)

    assert f"coachman answer k7q3x {told}\n" in done.stdout + done.stderr


def test_who_answers_too_early_is_told_how_to_wait_for_the_question(state_dir: Path) -> None:
    """A run that has only just begun may ask yet."""
    with daemon_at(state_dir, run__get=summary(), permission__list={"permissions": []}):
        done = coachman(state_dir, "answer", HANDLE, "allow")

    assert done.returncode == 76
    assert done.stderr.endswith(f"  next: coachman wait {HANDLE} --until attention\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing waits for an answer"),
        (["-a"], "no living run asked anything; of one that has ended: coachman permissions X -a"),
        (["-a", HANDLE], "it asked nothing"),
    ],
)
def test_no_permissions_are_told_as_what_was_asked_for(
    state_dir: Path, words: list[str], told: str
) -> None:
    """Settled requests of runs that have ended are there, where their run is named."""
    with daemon_at(state_dir, permission__list={"permissions": []}):
        done = coachman(state_dir, "permissions", *words)

    assert done.stderr == told + "\n"


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ("allow", {"kind": "allow_once"}),
        ("always", {"kind": "allow_always"}),
        ("deny", {"kind": "reject_once"}),
        ("reject_always", {"kind": "reject_always"}),
        ("2", {"option": "ever"}),
        ("nope", {"option": "nope"}),
    ],
)
def test_a_choice_is_a_kind_a_number_or_an_id(
    state_dir: Path, typed: str, choice: dict[str, str]
) -> None:
    """`answer` takes what the question showed."""
    answered = {"request": "p1", "run": RUN, "option": "once", "kind": "allow_once"}
    with daemon_at(
        state_dir,
        permission__list={"permissions": [permission()]},
        permission__answer=answered,
    ) as daemon:
        done = coachman(state_dir, "answer", HANDLE, typed)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "k7q3x  allow once\n"
    assert daemon.params("permission.answer") == [{"request": "p1", "run": RUN, **choice}]


def test_an_impossible_choice_lists_the_choices(state_dir: Path) -> None:
    """A choice that is not offered is refused with those that are."""
    with daemon_at(state_dir, permission__list={"permissions": [permission()]}):
        done = coachman(state_dir, "answer", HANDLE, "7")

    assert done.returncode == 64
    assert "1 Allow once, 2 Allow always, 3 Reject" in done.stderr


def test_an_option_cannot_take_the_meaning_of_a_word(state_dir: Path) -> None:
    """An agent that names an option 'allow' does not change what 'allow' means."""
    tricky = [{"id": "allow", "kind": "allow_always", "name": "x"}]
    with daemon_at(
        state_dir,
        permission__list={"permissions": [permission(options=tricky)]},
        permission__answer={"request": "p1", "run": RUN, "option": None, "kind": "allow_once"},
    ) as daemon:
        coachman(state_dir, "answer", HANDLE, "allow")

    assert daemon.params("permission.answer")[0].get("kind") == "allow_once"


def test_who_answered_is_told_when_nothing_waits(state_dir: Path) -> None:
    """An answer that came too late exits 76 and names who was quicker."""
    settled = permission(
        state="resolved",
        resolved={"option": "once", "kind": "allow_once", "by": {"user": "ann", "pid": 7}},
    )

    def listed(params: dict[str, object], _peer: Peer) -> dict[str, object]:
        return {"permissions": [] if params.get("pending") else [settled]}

    with daemon_at(state_dir, run__get=summary(), permission__list=listed):
        done = coachman(state_dir, "answer", HANDLE, "deny")

    assert done.returncode == 76
    assert "allow once, by ann, pid 7" in done.stderr


POLICY = permission(
    request="p9",
    question="ls",
    requested_at=30,
    state="resolved",
    resolved={"option": "once", "kind": "allow_once", "by": {"resolver": "policy"}},
)
WORDS = {
    **{name: POLICY[name] for name in ("run", "handle", "task", "agent", "state")},
    "request": "q1",
    "question": "Which colour?",
    "options": [],
    "asked_at": 10,
    "deadline": 90,
    "resolved": {"outcome": "answered", "answer": "blue", "by": {"user": "ann", "pid": 7}},
}


@pytest.mark.parametrize("words", [[HANDLE], [HANDLE, "--request", "q1"], ["q1"]])
def test_who_answered_in_words_is_told_with_the_answer(state_dir: Path, words: list[str]) -> None:
    """A settled question is told by its own answer, whatever policy settled since."""

    def listed(params: dict[str, object], peer: Peer) -> dict[str, object]:
        if params.get("run") == "q1":
            return refusing("NotFound", "cannot find 'q1'")(params, peer)
        is_settled = params.get("pending") is False
        return {
            "permissions": [POLICY] if is_settled else [],
            "questions": [WORDS] if is_settled else [],
        }

    with daemon_at(state_dir, run__get=summary(), permission__list=listed):
        done = coachman(state_dir, "answer", *words, "red")
        asked = coachman(state_dir, "answer", *words, "red", "--json")

    assert done.returncode == 76
    assert "q1 (Which colour?) was settled: answered, by ann, pid 7: blue" in done.stderr
    detail = json.loads(asked.stdout)["error"]["detail"]
    assert (detail["request"], detail["resolved"]) == ("q1", WORDS["resolved"])


def test_a_request_that_never_was_is_not_found(state_dir: Path) -> None:
    """An id that the run never asked with is told as such, not what else it asked."""
    page = {"permissions": [POLICY], "questions": [WORDS]}
    with daemon_at(state_dir, run__get=summary(), permission__list=page):
        done = coachman(state_dir, "answer", HANDLE, "red", "--request", "q9")

    assert done.returncode == 66
    assert "cannot answer q9: k7q3x asks nothing of that id" in done.stderr


def test_cancel_is_idempotent(state_dir: Path) -> None:
    """A run that ended already is no error."""
    runs = [
        {"run": RUN, "handle": HANDLE, "state": "stopping", "already": False},
        {"run": RUN, "handle": "m2x9d", "state": "ended", "already": True},
    ]
    with daemon_at(state_dir, run__cancel={"runs": runs}):
        done = coachman(state_dir, "stop", HANDLE, "m2x9d")

    assert (done.returncode, done.stdout) == (0, "k7q3x  stopping\nm2x9d  already ended\n")


def test_tail_merges_text_and_has_one_line_a_tool(state_dir: Path) -> None:
    """Chunks are text, a tool is a line, a question whole, with its choices while they count."""
    events = numbered(
        {"type": "agent.message_chunk", "message_id": "a", "text": "Hel"},
        {"type": "agent.message_chunk", "message_id": "a", "text": "lo\x1b"},
        {
            "type": "tool.call",
            "tool_call_id": "t",
            "name": "Bash",
            "title": "npm i",
            "status": "pending",
        },
        {"type": "tool.call_update", "tool_call_id": "t", "status": "completed"},
        {
            "type": "permission.requested",
            **{k: permission()[k] for k in ("request", "question", "tool", "options")},
        },
        {"type": "run.state", "from": "active", "to": "waiting", "reason": "permission"},
        {
            "type": "permission.resolved",
            "request": "p1",
            "kind": "allow_once",
            "by": {"resolver": "client", "user": "you"},
        },
        {"type": "agent.future_thing", "x": 1},
    )
    printed = []
    for state, waiting in (("active", [permission()]), ("ended", [])):
        with daemon_at(
            state_dir,
            run__get=summary(state=state),
            permission__list={"permissions": waiting},
            run__result=result(),
            event__subscribe=streaming(events),
        ):
            done = coachman(state_dir, "tail", HANDLE)
        printed.append(done.stdout.splitlines())

    assert done.returncode == 0
    assert printed[1] == [line for line in printed[0] if "coachman answer" not in line]
    assert "\n".join([*printed[0], ""]) == (
        "Hello\\x1b\n"
        "  > Bash: npm i\n"
        "  ? Bash: npm i left-pad\n"
        "    1 Allow once, 2 Allow always, 3 Reject: coachman answer k7q3x …\n"
        "  = allow once, by you\n"
    )
    assert done.stderr.startswith("k7q3x succeeded after 4m12s\n")


def test_tail_as_json_is_closed_by_its_end(state_dir: Path) -> None:
    """Each event is a line as it came, and the last line says that the stream ended."""
    events = numbered({"type": "agent.message_chunk", "text": "\u009b"}, {"type": "run.ended"})
    with daemon_at(state_dir, run__get=summary(), event__subscribe=streaming(events)) as daemon:
        done = coachman(state_dir, "tail", "--json", "--after", "1", "@")
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert lines[:-1] == events[1:]
    assert lines[-1] == {
        "type": "stream.ended", "last_seq": 2, "reason": "run_ended", "run": RUN,
    }  # fmt: skip
    assert daemon.params("run.get") == [{"run": "@", "dir": str(state_dir)}]


def test_agents_lists_what_is_installed(state_dir: Path) -> None:
    """The table tells name, whether it is installed, version and place."""
    with daemon_at(state_dir, agent__list=AGENTS):
        done = coachman(state_dir, "agents")

    assert done.stdout.splitlines() == [
        "AGENT  INSTALLED  VERSION  PATH",
        "demo   yes        0.1.0",
    ]


def test_colours_are_for_terminals(state_dir: Path) -> None:
    """Pipes get none; --color always does."""
    with daemon_at(state_dir, run__list={"runs": [summary()], "older": 0}):
        assert "\x1b" not in coachman(state_dir, "list").stdout
        assert "\x1b[1mRUN" in coachman(state_dir, "list", "--color", "always").stdout


def test_the_version_is_that_of_the_distribution(state_dir: Path) -> None:
    """The distribution takes its version from the package; the verb and the flag tell it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "client/coachman/__init__.py"}
    for words in (["version"], ["--version"]):
        assert coachman(state_dir, *words).stdout == f"coachman {package.__version__}\n"


def test_a_reader_that_has_enough_is_no_error(state_dir: Path) -> None:
    """`coachman tail | head` ends quietly."""
    events = numbered(*({"type": "agent.message_chunk", "text": "x" * 4096} for _ in range(200)))
    with daemon_at(state_dir, run__get=summary(), event__subscribe=streaming(events)):
        process = subprocess.Popen(
            command("tail", "--json", HANDLE),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=state_dir,
            env=environment(state_dir),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        process.stderr.close()

        assert (process.wait(30), told) == (141, b"")


def test_a_full_disk_is_told(state_dir: Path) -> None:
    """Output that could not be written is a failure, not a success with less of it."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("version"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(state_dir),
            check=False,
        )

    assert (done.returncode, done.stderr) == (
        74,
        b"cannot write the output: No space left on device\n",
    )
