"""Families of runs: counted together, paid for together, ended together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_inside import inside, outputs, parent, refusal, starts, wait_until_active
from daemon_process import DaemonProcess

Eventually = Callable[..., object]


def family(daemon: DaemonProcess, repo: Path, **grant: Any) -> tuple[str, str, str]:
    """A run, its child and that one's child, all of them at work."""
    top = parent(daemon, repo, delegate={"depth": 2, "children": 3, **grant})
    with inside(daemon, top) as client:
        below = {"depth": 1, "children": 3}
        middle = client.run.start("sleep 600", dir=None, agent="demo", delegate=below)["run"]
    wait_until_active(daemon, middle)
    with inside(daemon, middle) as client:
        low = client.run.start("sleep 600", dir=None, agent="demo")["run"]
    wait_until_active(daemon, low)
    return top, middle, low


def outcomes(daemon: DaemonProcess, *runs: str) -> list[str | None]:
    with daemon.client() as client:
        return [client.run.get(run)["outcome"] for run in runs]


def test_an_agent_starts_two_children_of_which_one_starts_a_child(
    daemon: DaemonProcess, repo: Path
) -> None:
    """From within the sandboxes a family of three levels comes to be, as the list of it says."""
    grand = starts("say deep")
    prompt = "\n".join(
        [
            starts("say one", "-d", "-t", "one"),
            starts(grand + "\nsay two", "-t", "two", "--delegate", "depth=1,children=1"),
            "run coachman wait one two",
        ]
    )
    with daemon.client() as client:
        grant = {"depth": 2, "children": 4}
        run = client.run.start(prompt, dir=str(repo), agent="demo", delegate=grant)["run"]
        client.run.wait([run])
        rows = client.run.list(ancestor=run)["runs"]
        direct = client.run.list(parent=run)["runs"]

    assert sorted(row["task"] for row in direct) == ["one", "two"], outputs(daemon, run)
    assert {row["outcome"] for row in rows} == {"succeeded"}
    deep = [row for row in rows if row["parent"] != run]
    assert [row["ancestors"] for row in deep] == [
        [run, next(row["run"] for row in direct if row["task"] == "two")]
    ]


def test_a_trees_places_are_shared_by_all_its_levels(daemon: DaemonProcess, repo: Path) -> None:
    """A nested family counts in the one around it: Busy says it is the tree, and how many live."""
    top, middle, low = family(daemon, repo)
    with inside(daemon, top) as client:
        third = client.run.start("sleep 600", dir=None, agent="demo")["run"]
    with inside(daemon, middle) as client:
        full = refusal(client, "run.start", {"prompt": "say hi", "agent": "demo"})
    with daemon.client() as client:
        client.run.cancel([third])
        client.run.wait([third])
    with inside(daemon, middle) as client:
        again = client.run.start("say hi", dir=None, agent="demo")

    assert full.name == "Busy"
    assert full.detail == {"source": "tree", "limit": 3, "active": 3}
    assert again["new"]
    assert low != third


def test_cancelling_the_root_ends_all(daemon: DaemonProcess, repo: Path) -> None:
    """A run that is cancelled takes along whatever came from it, at every depth, and ends last."""
    top, middle, low = family(daemon, repo)
    with daemon.client() as client:
        client.run.cancel([top])
        client.run.wait([top])
        ended = [client.run.get(run)["ended_at"] or 0 for run in (low, middle, top)]

    assert outcomes(daemon, top, middle, low) == ["cancelled"] * 3
    assert ended == sorted(ended)
    assert daemon.keepers() == []


def test_a_parents_own_end_ends_its_children(daemon: DaemonProcess, repo: Path) -> None:
    """Nobody is left to take what a child does once its parent is through."""
    prompt = starts("sleep 600", "-d", "-t", "left") + "\nsay done"
    with daemon.client() as client:
        grant = {"depth": 1, "children": 1}
        run = client.run.start(prompt, dir=str(repo), agent="demo", delegate=grant)["run"]
        client.run.wait([run])
        left = client.run.get("left", dir=str(repo))

    assert (left["outcome"], left["parent"]) == ("cancelled", run)
    assert outcomes(daemon, run) == ["succeeded"]


def test_a_family_survives_the_death_of_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """After a SIGKILL all are there, the sockets answer inside, and the tree still counts."""
    top, middle, low = family(daemon, repo)
    daemon.restart()
    for run in (top, middle, low):
        wait_until_active(daemon, run)
    with inside(daemon, middle) as client:
        seen = {row["run"] for row in client.run.list()["runs"]}
        child = client.run.start("say hi", dir=None, agent="demo")["run"]
        client.run.wait([child])
        client.run.cancel([low])
    with daemon.client() as client:
        client.run.cancel([top])
        client.run.wait([top])

    assert seen == {middle, low}
    assert outcomes(daemon, child, top, middle, low) == ["succeeded", *["cancelled"] * 3]


def test_an_agent_goes_on_over_a_socket_that_was_made_anew(
    daemon: DaemonProcess, repo: Path, eventually: Eventually
) -> None:
    """The bound directory shows the next daemon's socket: what runs inside asks over it."""
    wait = "run while [ ! -e go ]; do sleep 0.1; done"
    prompt = "\n".join([wait, starts("say later"), "run coachman list -q"])
    run = parent(daemon, repo, prompt)
    daemon.restart()
    with daemon.client() as client:
        assert daemon.cli("daemon", "restart").returncode == 0
        (Path(client.run.get(run)["worktree"]) / "go").touch()
        client.run.wait([run])

    assert "later" in outputs(daemon, run)[1], outputs(daemon, run)


def test_a_death_amid_the_end_of_a_family_is_made_good(state_dir: Path, repo: Path) -> None:
    """Killed between the parent's cancel and its children's, the next daemon ends them as well."""
    for step in ("family.ending", "family.told"):
        root = state_dir / step
        root.mkdir()
        daemon = DaemonProcess(root, {"COACHMAN_FAILPOINT": f"{step}:kill"})
        daemon.start()
        try:
            top, middle, low = family(daemon, repo)
            daemon.cli("cancel", top)
            assert daemon.process is not None
            daemon.process.wait(20)
            daemon.env.pop("COACHMAN_FAILPOINT")
            daemon.start()
            with daemon.client() as client:
                client.run.wait([top, middle, low], timeout_s=60)
            assert outcomes(daemon, top, middle, low) == ["cancelled"] * 3
            assert daemon.keepers() == []
        finally:
            daemon.tidy()


def test_a_trees_budget_is_spent_by_all(daemon: DaemonProcess, repo: Path) -> None:
    """A run's limits count what is below it; what it hands out ends those who use that up."""
    top = parent(daemon, repo, limits={"cost_usd": 0.001}, delegate={"depth": 1, "children": 2})
    with inside(daemon, top) as client:
        child = client.run.start("usage 600 500\nsleep 600", dir=None, agent="demo")["run"]
    with daemon.client() as client:
        client.run.wait([top])
        ended = client.run.get(top)
    other = parent(daemon, repo, delegate={"depth": 1, "children": 2, "cost_usd": 0.001})
    with inside(daemon, other) as client:
        spender = client.run.start("usage 400 300\nsay hi", dir=None, agent="demo")["run"]
        client.run.wait([spender])
        more = refusal(client, "run.start", {"prompt": "x", "limits": {"cost_usd": 0.00031}})
        last = client.run.start("usage 400\nsleep 600", dir=None, agent="demo")["run"]
        client.run.wait([last])
        nothing = refusal(client, "run.start", {"prompt": "x", "agent": "demo"})

    assert ended["outcome"] == "over_budget"
    assert outcomes(daemon, child)[0] in ("over_budget", "cancelled")
    assert more.name == nothing.name == "Denied"
    assert "limits.cost_usd" in more.message
    assert outcomes(daemon, spender, last, other) == ["succeeded", "over_budget", None]


def test_what_two_children_use_together_is_counted(daemon: DaemonProcess, repo: Path) -> None:
    """Each within what was left when it began: together they pass it, and whoever lives ends."""
    top = parent(daemon, repo, delegate={"depth": 1, "children": 2, "cost_usd": 0.001})
    with inside(daemon, top) as client:
        spend = "run while [ ! -e go ]; do sleep 0.1; done\nusage 400 200\nsleep 600"
        pair = [client.run.start(spend, dir=None, agent="demo")["run"] for _ in range(2)]
    with daemon.client() as client:
        for child in pair:
            wait_until_active(daemon, child)
            (Path(client.run.get(child)["worktree"]) / "go").touch()
        client.run.wait(pair)
        errors = [client.run.get(child)["error"] or {} for child in pair]

    assert outcomes(daemon, *pair, top) == ["over_budget", "over_budget", None]
    assert any("below its parent" in error["message"] for error in errors)
