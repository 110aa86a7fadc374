"""A session that was begun by hand with a real agent is gone on with in a copy of it alone."""

import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agents_model import ModelServer
from agents_parts import PARTS
from daemon_process import make_repository
from live_runs import refused
from live_stage import LIMIT_S, Play, Stage

pytestmark = [pytest.mark.real_agent, pytest.mark.long]
SAY = {"opencode": ["run"], "gemini": ["-m", "gemini-2.5-flash", "-p"]}
LIST = {"opencode": ["session", "list"], "gemini": ["--list-sessions"]}
ID = {"opencode": r"\bses_\w+", "gemini": r"\[([0-9a-f-]{36})\]"}
KEPT = {"opencode": ".local/share/opencode/opencode.db", "gemini": ".gemini/tmp/*/chats/*"}
LOGIN = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'


@pytest.fixture(params=sorted(SAY))
def stage(request: pytest.FixtureRequest, agents_dir: Path) -> Iterator[Stage]:
    """A stage whose user has the agent's settings as they are for work by hand."""
    part = PARTS[request.param]
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    with ModelServer() as model, Stage(part, agents_dir, root, model) as stage:
        if part.name == "gemini":
            settings = stage.daemon.home / ".gemini" / "settings.json"
            settings.parent.mkdir()
            settings.write_text(LOGIN)
        yield stage
    shutil.rmtree(root, ignore_errors=True)


def by_hand(stage: Stage, where: Path, *words: str) -> str:
    """What the agent's own command says, in the user's home and a directory of theirs."""
    done = subprocess.run(
        [stage.part.adapter, *words],
        cwd=where,
        env={**stage.daemon.env, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout


def begin(stage: Stage, where: Path, text: str, *others: str) -> str:
    """The id of a new session beside ``others``, in which the model was told one thing."""
    name = stage.part.name
    by_hand(stage, where, *SAY[name], text)
    [new] = set(re.findall(ID[name], by_hand(stage, where, *LIST[name]))) - set(others)
    return str(new)


def kept(stage: Stage, home: Path) -> dict[str, Any]:
    """What lies in a home of the agent's sessions."""
    if stage.part.name == "gemini":
        return {path.name: path.read_bytes() for path in home.glob(KEPT["gemini"])}
    with closing(sqlite3.connect(home / KEPT["opencode"])) as store:
        tables = ("session", "message", "part")
        return {name: store.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


def run(stage: Stage, what: str, **members: Any) -> tuple[dict[str, Any], int]:
    """The result of a run, begun or begun here; how many messages the model was sent at last."""
    asked = len(stage.model.requests)
    play = stage.start(what, **members) if members else Play(stage, what, asked)
    result = dict(play.result())
    sent = [r["messages"] for r in stage.model.requests if not r["title"]]
    return result, int(sent[-1])


def test_a_run_goes_on_in_a_copy_of_what_was_begun_by_hand(stage: Stage) -> None:
    """The model hears the past, once; the user's own stays as it is, no other session is copied."""
    where = make_repository(stage.root / "My work")
    session = begin(stage, where, "SAY by hand")
    other = begin(stage, where, "SAY of another", session)
    before = kept(stage, stage.daemon.home)
    runs = [
        run(stage, "SAY alone", task="anew"),
        run(stage, "SAY first", task="one", session=session),
        run(stage, "SAY again", task="one", session=session),
    ]
    again = stage.client.run.resume("one", "SAY resumed", dir=str(stage.repo))
    runs.append(run(stage, again["run"]))
    homes = [*stage.daemon.state.glob("agents/*/one/*")]

    results, counts = zip(*runs, strict=True)
    assert {result["outcome"] for result in results} == {"succeeded"}
    assert {result["session"] for result in results[1:]} == {session}
    assert results[1]["final_message"].strip() == "first"
    assert counts == tuple(counts[0] + 2 * turn for turn in range(4))
    # Ten a message: what was used by hand is not the run's.
    totals = [result["usage"]["total"] for result in results]
    assert totals == [totals[0] + 20 * turn for turn in range(4)]
    assert kept(stage, stage.daemon.home) == before
    assert len(homes) == 1
    assert other not in str(kept(stage, homes[0]))
    assert session in str(kept(stage, homes[0]))


def test_what_cannot_be_taken_up_is_refused_by_name(stage: Stage) -> None:
    """No such session, one that is named in part, a store that is none: nothing is started."""
    session = begin(stage, make_repository(stage.root / "work"), "SAY by hand")
    cases = {stage.part.wrong_session: "no_session", session[:-2]: "no_session"}
    start = stage.client.run.start
    told = {"dir": str(stage.repo), "agent": stage.part.adapter}
    for wrong, reason in cases.items():
        assert refused(start, "SAY x", session=wrong, **told).detail == {"reason": reason}
    sealed = refused(start, "SAY x", session=session, profile="sealed", **told)
    assert sealed.detail is None or sealed.detail["reason"] == "profile"
    for path in stage.daemon.home.glob(KEPT[stage.part.name]):
        path.write_bytes(b"not what it was" * 100)
    broken = refused(start, "SAY x", session=session, **told)

    reason = {"opencode": "store", "gemini": "no_session"}[stage.part.name]
    assert broken.detail == {"reason": reason}
    assert stage.client.run.list(all=True)["runs"] == []
