"""Rules that never decide anything are named where they are written."""

from pathlib import Path

import pytest

from agent_inside import inside, parent, refusal
from coachmand.permissions.dead import living, why_dead
from coachmand.permissions.rules import RuleRequest
from daemon_process import DaemonProcess

ALL_DENIED = RuleRequest("deny")
EDITS_ASKED = RuleRequest("ask", ("edit", "delete"))


@pytest.mark.parametrize(
    ("rule", "before", "why"),
    [
        (RuleRequest("allow", ("edit",), path="/etc/x"), (), "leaves the worktree"),
        (RuleRequest("deny", ("edit",), path="/etc/x"), (), None),
        (RuleRequest("allow", ("edit",), command="git log"), (), "has no command"),
        (RuleRequest("allow", ("edit", "execute"), command="git log"), (), None),
        (RuleRequest("allow", (), command="git log"), (), None),
        (RuleRequest("deny", ("think",), path="a/"), (), "has no path"),
        (RuleRequest("allow", ("execute",), command="export A *"), (), "begins with that word"),
        (RuleRequest("deny", ("execute",), command="export A *"), (), None),
        (RuleRequest("allow", ("edit",)), (ALL_DENIED,), "a rule before it"),
        (RuleRequest("allow", ("edit",), path="a"), (EDITS_ASKED,), "a rule before it"),
        (RuleRequest("allow"), (EDITS_ASKED,), None),
        (RuleRequest("deny", ("edit",)), (RuleRequest("allow"),), None),
        (RuleRequest("allow", (), "ls"), (RuleRequest("deny", (), "ls *"),), None),
    ],
)
def test_what_never_decides_is_known_by_its_reason(
    rule: RuleRequest, before: tuple[RuleRequest, ...], why: str | None
) -> None:
    """Only what is certain: a rule that might decide something is left alone."""
    found = why_dead(rule, before)

    assert (found is None) == (why is None)
    assert (why or "") in (found or "")


def test_a_request_with_such_a_rule_is_refused_and_the_configurations_is_told(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The refusal names the rule; the finding its place. Children inherit what is left."""
    config = daemon.home / ".config" / "coachman" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[[rules]]\ndecide = "allow"\ntool = "edit"\ncommand = "ls"\n'
        f'[[repo."{repo}".rules]]\ndecide = "allow"\npath = "/etc/x"\n'
    )
    daemon.restart()
    with daemon.client() as client:
        found = [each for each in client.daemon.status()["findings"] if each["kind"] == "rule"]
        given = {"prompt": "say x", "dir": str(repo), "agent": "demo", "permissions": "ask"}
        rules = [{"decide": "deny"}, {"decide": "allow", "tool": ["read"]}]
        refused = refusal(client, "run.start", {**given, "rules": rules})
    run = parent(daemon, repo)
    with inside(daemon, run) as client:
        child = client.run.start("say hi", dir=None, agent="demo")["run"]
        client.run.wait([child])

    assert [each["path"] for each in found] == ["rules", f'repo."{repo}".rules']
    assert "'allow edit ls' can never match" in found[0]["why"]
    assert "rule 'allow read' can never match: a rule before it" in refused.message
    assert living([EDITS_ASKED, RuleRequest("allow", ("edit",))]) == (EDITS_ASKED,)
