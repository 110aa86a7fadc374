"""Who settles what an agent asks, and what is recorded of it: rules first."""

import json
from pathlib import Path
from typing import Any

import pytest

import coachman
from agent_inside import outputs, starts
from daemon_process import DaemonProcess
from permission_desk import WRITE, configured, ended, passed, program, resolved, start, waiting


def test_a_rule_answers_at_once_and_is_named(daemon: DaemonProcess, repo: Path) -> None:
    """The first rule that matches decides, before the mode, and the record quotes it."""
    rules = [
        {"decide": "deny", "tool": ["edit"], "path": "secret/**"},
        {"decide": "allow", "tool": ["edit"], "path": "*.txt"},
    ]
    run = start(daemon, repo, f"write secret/a text\n{WRITE}", permissions="ask", rules=rules)
    result = ended(daemon, run)
    denied, allowed = resolved(daemon, run)

    assert (denied["kind"], allowed["kind"]) == ("reject_once", "allow_once")
    by = {"resolver": "rule", "rule": "allow edit *.txt", "origin": "request"}
    assert allowed["by"] == by
    assert denied["by"]["rule"] == "deny edit secret/**"
    assert [changed["path"] for changed in result["changed_files"]] == ["x.txt"]


def test_rules_of_the_configuration_come_behind_those_of_the_request(
    state_dir: Path, repo: Path
) -> None:
    """Request, repository, profile, all: the first that matches decides, and its origin is told."""
    with configured(
        state_dir,
        '[[rules]]\ndecide = "deny"\ntool = "edit"\n'
        '[[profiles.edit.rules]]\ndecide = "allow"\ntool = ["edit", "read"]\npath = "p*"\n'
        f'[[repo."{repo}".rules]]\ndecide = "always"\ntool = "execute"\ncommand = "echo *"\n',
    ) as daemon:
        prompt = "write p text\nwrite r text\nwrite x text\nrun echo hello"
        run = start(daemon, repo, prompt, rules=[{"decide": "allow", "path": "r"}])
        ended(daemon, run)
        found = [(e["by"]["origin"], e["kind"]) for e in resolved(daemon, run)]

    assert found == [
        ("profile", "allow_once"),
        ("request", "allow_once"),
        ("configuration", "reject_once"),
        ("repo", "allow_always"),
    ]


def test_a_rule_may_send_a_question_to_a_person(daemon: DaemonProcess, repo: Path) -> None:
    """Whatever the mode: an ask waits, and so does a command that a denial may be about."""
    rules = [
        {"decide": "ask", "tool": ["edit"]},
        {"decide": "deny", "tool": ["execute"], "command": "rm *"},
    ]
    run = start(daemon, repo, "write x.txt text\nrun true; rm x.txt\nsay done", rules=rules)
    for _ in range(2):
        asked = waiting(daemon, run)
        assert asked["passed"][0]["by"]["resolver"] == "rule"
        with daemon.client() as client:
            client.permission.answer(asked["request"], run=run, kind="allow")
    ended(daemon, run)

    reasons = [reason for _, reason in passed(daemon, run)]
    assert reasons == [
        "it says to ask",
        "it cannot be told for certain whether this rule is about it",
    ]
    assert [e["by"]["resolver"] for e in resolved(daemon, run)] == ["client", "client"]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"decide": "maybe"}, "`rules[0].decide` must be one of allow, always, deny, ask"),
    ({"decide": "allow", "tool": ["bash"]}, "`rules[0].tool[0]` must be one of read, edit"),
    ({"decide": "allow", "command": "a; b"}, "`rules[0].command` must be a simple command"),
    ({"decide": "deny", "path": "../x"}, "`rules[0].path` must be a plain path"),
    ({"decide": "allow", "path": "/etc/**"}, "can never match"),
    ({}, "`rules[0].decide` is required"),
]


def test_a_rule_that_could_mean_nothing_is_refused(daemon: DaemonProcess, repo: Path) -> None:
    """A mistake in a rule stops the start, and is named."""
    for members, complaint in MISTAKES:
        with pytest.raises(coachman.CoachmanError, match="cannot start") as refused:
            start(daemon, repo, WRITE, rules=[members])
        assert complaint in str(refused.value)


def test_a_rule_of_the_command_line_is_the_same(daemon: DaemonProcess, repo: Path) -> None:
    """``--rule DECISION KINDS [PATTERN]`` takes commands for execute, paths for all else."""
    words = ("--rule", "deny edit,delete x*", "--rule", "allow execute echo *")
    done = daemon.cli("run", "-a", "demo", *words, f"{WRITE}\nrun echo hi", cwd=repo)
    run = json.loads(daemon.cli("list", "-a", "--json").stdout)["runs"][0]["run"]

    assert done.returncode == 0, done.stderr
    assert "denied by rule deny edit,delete x*" in done.stderr
    assert [e["by"]["rule"] for e in resolved(daemon, run)] == [words[1], words[3]]
    wrong = daemon.cli("run", "-a", "demo", "--rule", "deny edit,execute x", WRITE, cwd=repo)
    assert (wrong.returncode, "make it two rules" in wrong.stderr) == (64, True)
    typo = daemon.cli("run", "-a", "demo", "--rule", "deny edit,execut x", WRITE, cwd=repo)
    assert typo.returncode == 64
    assert "cannot run --rule 'deny edit,execut x': 'execut' is no kind of tool" in typo.stderr


LOOKS = ("log @", "tail @ --no-follow --json", "permissions @ -a --json")


def test_a_child_has_its_parents_rules_and_handler(daemon: DaemonProcess, repo: Path) -> None:
    """What a run may not do, a run that it starts may not either; nor does it name rules itself."""
    rules = [
        {"decide": "deny", "tool": ["edit"], "path": "secret/**"},
        {"decide": "ask", "tool": ["edit"], "path": "asked/**"},
    ]
    hook = program(daemon.root / "hook", 'echo \'{"kind": "deny"}\'')
    prompt = "\n".join(
        [
            starts("write secret/a text\nwrite asked/a text\nwrite b text\nsay done"),
            "run coachman run -a demo --rule 'allow any' 'write c text'",
            *(f"run coachman {verb}" for verb in LOOKS),
        ]
    )
    run = start(
        daemon,
        repo,
        prompt,
        permissions="allow",
        rules=rules,
        permission_handler=f"command:{hook}",
        delegate={"depth": 1, "children": 4},
    )
    ended(daemon, run)
    with daemon.client() as client:
        [child] = client.run.list(ancestor=run)["runs"]

    settled = [(e["by"]["resolver"], e["kind"]) for e in resolved(daemon, child["run"])]
    assert settled == [("rule", "reject_once"), ("hook", "reject_once"), ("policy", "allow_once")]
    said = outputs(daemon, run)
    assert "rules" in said[1]
    # Which handler it has is no concern of an agent's.
    assert all("the hook" in text or '"hook"' in text for text in said[2:])
    assert str(hook) not in "".join(said)


def test_an_answer_to_an_earlier_attempts_question_meets_no_other_one(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The attempts of a run count their questions on, also after a daemon that was killed."""
    run = start(daemon, repo, "ask one", permissions="ask", keep=True)
    first = waiting(daemon, run)
    with daemon.client() as client:
        client.permission.answer(first["request"], run=run, kind="allow")
        client.run.wait([run], until="turn", timeout_s=30)
        client.run.prompt(run, "limit 1\nask two\nask three")
    second = waiting(daemon, run)
    with daemon.client() as client, pytest.raises(coachman.CoachmanError, match="answered it"):
        client.permission.answer(first["request"], run=run, kind="allow")
    daemon.restart()
    asked_again = waiting(daemon, run)
    with daemon.client() as client:
        client.permission.answer(second["request"], run=run, kind="deny")
    third = waiting(daemon, run)
    with daemon.client() as client:
        client.permission.answer(third["request"], run=run, kind="allow")
        client.run.close([run])
    result = ended(daemon, run)

    assert asked_again["request"] == second["request"]
    assert [each["request"] for each in (first, second, third)] == ["p1", "p2", "p3"]
    assert (result["outcome"], result["attempts"]) == ("succeeded", 2)
    assert [event["request"] for event in resolved(daemon, run)] == ["p1", "p2", "p3"]
    assert result["permissions_decided"] == {"allowed": 2, "denied": 1}
