"""What `list`, `show`, `result` and `agents` tell of runs and agents."""

import json
from pathlib import Path
from typing import Any

import pytest

from client_daemon import HANDLE, RUN, FakeDaemon, FaultError, Peer, coachman
from client_samples import AGENTS, permission, result, summary
from coachman.cli.render import changes, cost, ending

OPENCODE = {
    **AGENTS["agents"][0],
    "name": "opencode",
    "environment": ["API_KEY", "REGION"],
    "credentials": ["API_KEY"],
}


def daemon_at(state_dir: Path, **handlers: Any) -> FakeDaemon:
    named = {name.replace("__", "."): handler for name, handler in handlers.items()}
    return FakeDaemon(state_dir / "control.sock", named)


def paged(params: dict[str, Any], _peer: Peer) -> dict[str, Any]:
    """Three runs in two pages."""
    if params.get("cursor") is None:
        return {"runs": [summary(), summary(handle="m2x9d")], "older": 1, "next_cursor": "c 1"}
    return {"runs": [summary(handle="p0c4e")], "older": 2, "next_cursor": None}


def test_all_runs_are_all_of_them(state_dir: Path) -> None:
    """`list -a` puts the pages together, for people and as one document."""
    with daemon_at(state_dir, run__list=paged) as daemon:
        quiet = coachman(state_dir, "list", "-aq")
        document = coachman(state_dir, "list", "-a", "--json")

    assert quiet.stdout.split() == ["k7q3x", "m2x9d", "p0c4e"]
    assert [run["handle"] for run in json.loads(document.stdout)["runs"]] == quiet.stdout.split()
    assert [p.get("cursor") for p in daemon.params("run.list")] == [None, "c 1"] * 2


@pytest.mark.parametrize(
    ("members", "pointed"),
    [
        ({"error": {"message": "the model API answered 401 (invalid x-api-key)"}}, True),
        ({"error": {"message": "Not logged in: run /login"}}, True),
        ({"network_decided": {"denied": 0, "unreachable": 2}}, True),
        ({"network_decided": {"denied": 2, "unreachable": 0}}, False),
        ({"error": {"message": "it crashed at line 4011"}}, False),
        ({"error": {"message": "HTTP 401"}, "evidence_dir": None}, False),
    ],
)
def test_a_login_that_fails_and_a_host_that_is_missed_lead_to_the_doctor(
    members: dict[str, Any], pointed: bool
) -> None:
    """The last line names it for this agent; a run that looks on could mend nothing there."""
    known = {"outcome": "failed", "agent": "claude", "evidence_dir": "/e", **members}
    assert ("coachman doctor claude" in ending(result(**known))[-1]) is pointed


def test_the_next_page_keeps_the_filters(state_dir: Path) -> None:
    """A page that is not the last names the command for the next one, which a shell takes."""
    with daemon_at(state_dir, run__list=paged):
        done = coachman(state_dir, "list", "--limit", "2", "-l", "a=b c", "--here")

    assert done.stdout.endswith(
        "\nmore: coachman list --label 'a=b c' --here --limit 2 --cursor 'c 1'\n"
    )
    assert "older" not in done.stdout


@pytest.mark.parametrize("words", [["--state", "active"], ["--agent", "demo"], ["--since", "1h"]])
def test_filters_silence_the_count_of_older_runs(state_dir: Path, words: list[str]) -> None:
    """The daemon counts all runs, so with a filter the number would be of others."""
    with daemon_at(state_dir, run__list={"runs": [summary()], "older": 38}):
        done = coachman(state_dir, "list", *words)

    assert "older" not in done.stdout


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"files": 3, "added": 0, "removed": 0}, "3 files +0 -0"),
        ({"files": 1, "added": 2, "removed": 1}, "1 file +2 -1"),
        ({"files": 0, "added": 0, "removed": 0}, "–"),
        (None, "–"),
    ],
)
def test_changes_count_files_and_lines(counts: dict[str, int] | None, told: str) -> None:
    """Empty files are changes, and no change is none."""
    assert changes(counts) == told


@pytest.mark.parametrize(
    ("usd", "told"),
    [(None, "–"), (0, "$0.00"), (0.0001, "<$0.01"), (0.005, "$0.01"), (1.239, "$1.24")],
)
def test_a_cost_is_told_in_cents(usd: float | None, told: str) -> None:
    """What is unknown, free, or less than a cent are three things."""
    assert cost(usd) == told


@pytest.mark.parametrize(
    ("count", "told"), [(0, None), (1, "1 request denied"), (2, "2 requests denied")]
)
def test_what_was_denied_is_said_at_the_end(count: int, told: str | None) -> None:
    """A success whose only write was denied does not read as a plain one."""
    lines = ending(result(permissions_decided={"allowed": 1, "denied": count}))

    assert (told in lines[1]) if told else ("denied" not in "".join(lines))


def test_show_tells_what_was_asked_and_what_came_of_it(state_dir: Path) -> None:
    """Prompt, error, times to the second, changed files and artifacts are all there."""
    details = {
        **summary(state="ended", outcome="failed", error="the model API answered 401"),
        "title": "fix it",
        "prompt": "fix it\nthe parser fails\x1b" + "\nmore" * 12,
        "ended_at": summary()["created_at"],
        "result": result(
            error={"message": "the model API answered 401"},
            artifacts=[{"path": "report.txt", "size": 2048}],
            permissions_decided={"allowed": 0, "denied": 1},
        ),
    }
    with daemon_at(state_dir, run__get=details):
        told = coachman(state_dir, "show", HANDLE).stdout

    assert "error        the model API answered 401\n" in told
    assert "prompt       fix it\n             the parser fails\\x1b\n             more\n" in told
    assert "[4 more lines]\n" in told
    assert "title" not in told
    assert "created      2026-11-29 22:06:40\n" in told
    assert "changes      2 files +120 -14\n" in told
    lies = "/state/runs/261129-220417-k7q3x/artifacts/report.txt"
    assert f"             M a.py\n             artifact {lies} (2.0 KiB)\n" in told
    assert "denied       1 request\n" in told


def test_show_tells_the_check_and_the_model_that_was_taken(state_dir: Path) -> None:
    """Which command decides, how it went, and the model, even if only the agent named it."""
    check = {"command": "make test", "exit": 2, "duration_s": 3.0, "output": "one\ntwo\n"}
    request = {"check": "make test"}
    living = {**summary(), "request": request, "result": None}
    ended = {
        **summary(state="ended", outcome="check_failed"),
        "request": request,
        "result": result(outcome="check_failed", model="large", check=check),
    }
    with daemon_at(state_dir, run__get=living):
        assert "check        make test\n" in coachman(state_dir, "show", HANDLE).stdout
    with daemon_at(state_dir, run__get=ended):
        told = coachman(state_dir, "show", HANDLE).stdout

    assert "agent        claude, large\n" in told
    assert (
        "check        failed after 3s: make test\n               one\n               two\n" in told
    )


@pytest.mark.parametrize("error", ["no model", {"message": "no model"}])
def test_an_error_is_text_or_a_record(state_dir: Path, error: object) -> None:
    """Both shapes of an error read the same."""
    failed = result(outcome="failed", error=error)
    details = {**summary(state="ended", outcome="failed", error=error), "result": None}
    with daemon_at(state_dir, run__result=failed, run__get=details):
        assert "failed after 4m12s: no model\n" in coachman(state_dir, "result", HANDLE).stdout
        assert "error        no model\n" in coachman(state_dir, "show", HANDLE).stdout


def test_what_waits_for_an_answer_is_not_waited_for(state_dir: Path) -> None:
    """`result` of a run that asks something leads to the answer, by the run's handle."""

    def refuse(_params: object, _peer: Peer) -> dict[str, object]:
        raise FaultError(
            "Conflict", "cannot give the result: run k7q3x is waiting", hint="wait for it first",
            next=[["coachman", "wait", RUN]],
        )  # fmt: skip

    asked = {"permissions": [permission()]}
    with daemon_at(state_dir, run__result=refuse, permission__list=asked):
        waiting = coachman(state_dir, "result", HANDLE)
    with daemon_at(state_dir, run__result=refuse, permission__list={"permissions": []}):
        working = coachman(state_dir, "result", HANDLE)

    assert waiting.returncode == 76
    assert waiting.stderr == (
        "cannot give the result: run k7q3x is waiting\n"
        "  it waits for an answer: coachman answer k7q3x allow|always|deny\n"
        "  next: coachman permissions k7q3x\n"
    )
    assert working.stderr.endswith("  next: coachman wait k7q3x\n")


def test_programs_get_the_whole_id(state_dir: Path) -> None:
    """Handles are for people; in JSON the next step names the run beyond doubt."""
    step = ["coachman", "wait", RUN]

    def refuse(_params: object, _peer: Peer) -> dict[str, object]:
        raise FaultError("Conflict", "cannot show: no", next=[step])

    with daemon_at(state_dir, run__get=refuse):
        done = coachman(state_dir, "show", HANDLE, "--json")

    assert json.loads(done.stdout)["error"]["next"] == [step]


def test_agents_are_looked_for_on_the_callers_path(state_dir: Path) -> None:
    """What `agents` shows is what `run` would find."""
    with daemon_at(state_dir, agent__list={"agents": [OPENCODE]}) as daemon:
        coachman(state_dir, "agents", env={"PATH": "/mine"})

    assert daemon.params("agent.list") == [{"path": "/mine"}]


def test_an_agents_names_are_told_once(state_dir: Path) -> None:
    """Credentials are not listed among the other variables again."""
    with daemon_at(state_dir, agent__list={"agents": [OPENCODE]}):
        done = coachman(state_dir, "agents", "opencode")

    assert "environment  REGION\ncredentials  API_KEY\n" in done.stdout
