"""What a run started and what has ended goes on over its own socket, never with more than then."""

from pathlib import Path

from agent_inside import inside, outputs, parent, refusal, starts
from daemon_process import DaemonProcess


def test_an_agent_goes_on_with_a_child_that_has_ended(daemon: DaemonProcess, repo: Path) -> None:
    """From within: `prompt` and `resume` begin runs in the child's session, which are children."""
    prompt = "\n".join(
        [
            starts("say first", "-t", "kid"),
            "run coachman prompt kid 'say second' --wait; echo exit $?",
            "run coachman resume kid recall; echo exit $?",
        ]
    )
    with daemon.client() as client:
        grant = {"depth": 1, "children": 2}
        run = client.run.start(prompt, dir=str(repo), agent="demo", delegate=grant)["run"]
        client.run.wait([run])
        rows = client.run.list(parent=run)["runs"]
        results = [client.run.result(row["run"]) for row in reversed(rows)]

    said = outputs(daemon, run)
    assert said[1].endswith("exit 0\n"), said
    assert said[2].endswith("exit 0\n"), said
    assert [result["outcome"] for result in results] == ["succeeded"] * 3
    assert len({result["session"] for result in results}) == 1
    assert [result["resumed_from"] for result in results] == [
        None,
        *[r["run"] for r in results[:2]],
    ]
    assert "say first" in results[2]["final_message"]
    assert "say second" in results[2]["final_message"]


def test_what_goes_on_is_held_to_what_its_parent_has_now(daemon: DaemonProcess, repo: Path) -> None:
    """Places, time and budgets count anew; environments, paths and others' runs are refused."""
    grant = {"depth": 1, "children": 1, "tokens": 1000}
    top = parent(daemon, repo, delegate=grant, timeouts={"wall_s": 900})
    with daemon.client() as client:
        other = client.run.start("say hi", dir=str(repo), agent="demo", task="others")["run"]
        client.run.wait([other])
    with inside(daemon, top) as client:
        kid = client.run.start("say first\nusage 300 100", dir=None, agent="demo")["run"]
        client.run.wait([kid])
        past = client.run.start("say past", dir=None, agent="demo", task="past")["run"]
        client.run.wait([past])
        again = client.run.prompt(kid, "say more\nsleep 600", request_key="k")
        same = client.run.prompt(kid, "say more\nsleep 600", request_key="k")
        full = refusal(client, "run.resume", {"run": past, "prompt": "say third"})
        held = refusal(client, "run.resume", {"run": kid, "prompt": "say third"})
        living = refusal(client, "run.resume", {"run": again["run"], "prompt": "say third"})
        lent = refusal(client, "run.prompt", {"run": kid, "prompt": "x", "env": {"A": "b"}})
        placed = refusal(client, "run.resume", {"run": kid, "prompt": "x", "dir": "/"})
        itself = refusal(client, "run.resume", {"run": top, "prompt": "x"})
        foreign = [
            refusal(client, method, {"run": name, "prompt": "x"})
            for method in ("run.resume", "run.prompt")
            for name in (other, other[-5:], "others")
        ]
        record = client.run.get(again["run"])
    with daemon.client() as client:
        whole = client.run.get(again["run"])["request"]

    assert (again["resumed"], again["new"], same["new"]) == (True, True, False)
    assert same["run"] == again["run"]
    assert (record["parent"], record["resumed_from"]) == (top, kid)
    assert whole["limits"]["tokens"] == 600
    assert 0 < whole["wall_s"] <= 900
    assert (full.name, full.detail["source"]) == ("Busy", "tree")
    assert (held.name, living.name) == ("Conflict", "Conflict")
    assert [error.name for error in (lent, placed, itself)] == ["Denied"] * 3
    assert {error.name for error in foreign} == {"NotFound"}


def test_a_descendant_goes_on_below_whoever_asks(daemon: DaemonProcess, repo: Path) -> None:
    """A grandchild that ended is the child of the one who goes on with it; a sibling's is nobody's.

    Its own family is over, so that what it may start is no more than that one can give.
    """
    top = parent(daemon, repo)
    with inside(daemon, top) as client:
        grant = {"depth": 1, "children": 2}
        below = starts("say deep", "-t", "deep")
        middle = client.run.start(below, dir=None, agent="demo", task="mid", delegate=grant)["run"]
        client.run.wait([middle])
        deep = client.run.get("deep")
        sibling = client.run.start("sleep 600", dir=None, agent="demo", task="sibling")["run"]
        again = client.run.resume("deep", "recall")
        client.run.wait([again["run"]])
        result = client.run.result(again["run"])
        row = client.run.get(again["run"])
    with inside(daemon, sibling) as client:
        hidden = refusal(client, "run.resume", {"run": deep["run"], "prompt": "say x"})

    assert deep["parent"] == middle
    assert (row["parent"], row["ancestors"]) == (top, [top])
    assert "say deep" in result["final_message"]
    assert hidden.name == "NotFound"
