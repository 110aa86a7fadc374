"""A run starts runs itself: from inside its sandbox, and over no other way than its socket."""

from pathlib import Path

from agent_inside import (
    delegate_socket,
    inside,
    outputs,
    parent,
    refusal,
    starts,
    wait_until_active,
)
from daemon_process import DaemonProcess

GRANT = {"depth": 2, "children": 4}


def test_an_agent_starts_a_child_and_takes_its_work(daemon: DaemonProcess, repo: Path) -> None:
    """Inside the sandbox `coachman run` starts a child on the parent's tree; its diff applies."""
    prompt = "\n".join(
        [
            "write mine.txt of the parent",
            starts("run cat mine.txt > seen.txt\nsay done"),
            "run coachman diff @ | git apply && cat seen.txt",
            "run coachman result @",
        ]
    )
    with daemon.client() as client:
        run = client.run.start(prompt, dir=str(repo), agent="demo", delegate=GRANT)["run"]
        client.run.wait([run])
        rows = client.run.list(ancestor=run)["runs"]
        changed = client.run.result(run)["changed_files"]

    assert [(row["parent"], row["outcome"]) for row in rows] == [(run, "succeeded")]
    assert outputs(daemon, run)[1] == "of the parent\n"
    assert "done" in outputs(daemon, run)[2]
    assert [change["path"] for change in changed] == ["mine.txt", "seen.txt"]


def test_a_run_without_a_grant_has_no_socket(daemon: DaemonProcess, repo: Path) -> None:
    """Nothing of coachman's is in the sandbox of a run that was given no delegate."""
    with daemon.client() as client:
        look = "run env | grep COACHMAN_SOCKET; command -v coachman; ls /run/delegate"
        run = client.run.start(look, dir=str(repo), agent="demo")["run"]
        client.run.wait([run])

    assert "No such file" in outputs(daemon, run)[0]
    assert "coachman\n" not in outputs(daemon, run)[0].splitlines(keepends=True)
    assert not Path(delegate_socket(daemon, run)).exists()


def test_a_run_sees_itself_and_what_it_started(daemon: DaemonProcess, repo: Path) -> None:
    """To a run there are no others: not in lists, not by id, handle, prefix, task or "@"."""
    run = parent(daemon, repo)
    with daemon.client() as client:
        other = client.run.start("sleep 600", dir=str(repo), agent="demo", task="secret")["run"]
        ended = client.run.start("say hi", dir=str(repo), agent="demo", task="past")["run"]
        client.run.wait([ended])
    with inside(daemon, run) as client:
        child = client.run.start("sleep 600", dir=None, agent="demo", task="mine")["run"]
        seen = [row["run"] for row in client.run.list(all=True)["runs"]]
        newest = client.run.get("@")["run"]
        by_task = client.run.get("mine")["run"]
        hidden = [other, other[-5:], other[:8], "secret", ended, ended[-5:], "past", "nobody"]
        told = {name: refusal(client, "run.get", {"run": name}) for name in hidden}
        waited = refusal(client, "run.wait", {"runs": [child, other]})
        followed = refusal(client, "event.subscribe", {"run": other})
        read = refusal(client, "event.read", {"run": ended})
        compared = refusal(client, "run.diff", {"task": "past"})
        asked = client.permission.list()["permissions"]

    assert sorted(seen) == sorted([run, child])
    assert (newest, by_task) == (child, child)
    shared = {name for name in hidden if run.startswith(name)}
    assert {error.name for name, error in told.items() if name not in shared} == {"NotFound"}
    assert {waited.name, followed.name, read.name, compared.name} == {"NotFound"}
    assert asked == []


def test_what_a_run_is_told_names_no_place_of_the_host(daemon: DaemonProcess, repo: Path) -> None:
    """Answers and refusals over a run's socket hold no path of the host, nor what is above it."""
    top = parent(daemon, repo)
    with inside(daemon, top) as client:
        grant = {"depth": 1, "children": 1}
        middle = client.run.start("sleep 600", dir=None, agent="demo", delegate=grant)["run"]
    wait_until_active(daemon, middle)
    with inside(daemon, middle) as client:
        child = client.run.start("say hi", dir=None, agent="demo")
        client.run.wait([child["run"]])
        told = [
            child,
            client.run.get(child["run"]),
            client.run.get(middle),
            client.run.result(child["run"]),
            client.run.list(all=True),
            client.event.read(child["run"]),
            refusal(client, "run.start", {"prompt": "x", "base": "nobody"}).message,
        ]

    assert str(daemon.root) not in repr(told)
    assert top not in repr([told[0], told[1], told[3], told[5], told[6]])
    assert [row["ancestors"] for row in told[4]["runs"]] == [[middle], []]


def test_a_run_follows_its_family_as_one_stream(daemon: DaemonProcess, repo: Path) -> None:
    """A filter over its own socket takes itself and what it started, at any depth, and no other."""
    run = parent(daemon, repo)
    with daemon.client() as client:
        other = client.run.start("chunks 3", dir=str(repo), agent="demo", labels={"a": "b"})["run"]
        client.run.wait([other])
        head = client.event.read(other)["events"][-1]["ts"]
    with inside(daemon, run) as client, client.follow(labels={"a": "b"}) as stream:
        grant = {"depth": 1, "children": 1}
        child = client.run.start("sleep 600", dir=None, labels={"a": "b"}, delegate=grant)["run"]
        wait_until_active(daemon, child)
        with inside(daemon, child) as deeper:
            last = deeper.run.start("say hi", dir=None, labels={"a": "b"})["run"]
            deeper.run.wait([last])
            seen_below = [event["run"] for event in deeper.follow(since=0, until_now=True)]
        told = []
        for event in stream:
            told.append(event)
            if event["type"] == "run.ended":
                break
        again = [event["run"] for event in client.follow(since=0, until_now=True)]
        named = refusal(client, "event.subscribe", {"filter": {"runs": [other]}})
        place = refusal(client, "event.subscribe", {"filter": {"here": str(repo)}})
    daemon.restart()
    with inside(daemon, run) as client:
        from_files = [event["run"] for event in client.follow(since=0, until_now=True)]

    assert head
    assert {event["run"] for event in told} == {child, last}
    assert set(again) == set(from_files) == {run, child, last}
    assert from_files.count(last) == again.count(last) == len(daemon.events(last))
    assert set(seen_below) == {child, last}
    assert (named.name, place.name) == ("NotFound", "Denied")
    assert str(repo) not in str(told)
