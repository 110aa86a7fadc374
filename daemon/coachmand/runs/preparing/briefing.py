"""What an agent is told about its place: a suffix to its prompt, recorded with it."""

import time

from coachman_sandbox import layout

from ...evidence.state import StateDirectory
from ..facts.places import places_of
from ..facts.record import Record

PLACES = {
    "edit": """\
You work unattended in {workspace}, a git worktree of your own. Do not commit, branch or push: what
you change is recorded for you. Files for whoever asked, other than changes to the project, go to
{output}; {scratch} is for what nobody needs afterwards. You have until {deadline}.
""",
    "sealed": """\
You work unattended; {workspace} is empty and cannot be written. What you find goes into your
answer; files for whoever asked go to {output}; {scratch} is for what nobody needs afterwards. You
have until {deadline}.
""",
    "review": """\
You work unattended in {workspace}, which you can read and not change. What you find goes into your
answer; files for whoever asked go to {output}; {scratch} is for what nobody needs afterwards. You
have until {deadline}.
""",
}
PLACES["host"] = PLACES["edit"]
GIVEN = "What you were handed lies in {inputs}; {inputs}/manifest.json lists it.\n"
EXPECTED = "You have to leave in {output}: {paths}.\n"


def briefed(record: Record, prompt: str, state: StateDirectory, *, given: bool) -> str:
    """``prompt`` with the briefing behind it; ``given``: there are inputs."""
    told = PLACES[record.walls.base or record.profile]
    if given:
        told += GIVEN
    if record.artifacts:
        told += EXPECTED
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record.wall.epoch_ms / 1000))
    paths = ", ".join(record.artifacts)
    where = _where(record, state)
    return f"{prompt}\n\n---\n{told.format(**where, deadline=until, paths=paths)}"


def _where(record: Record, state: StateDirectory) -> dict[str, str]:
    """The places of a run as its agent sees them."""
    if not record.walls.native:
        inside = (layout.WORKSPACE, layout.OUTPUT, layout.SCRATCH, layout.INPUTS)
        return dict(zip(("workspace", "output", "scratch", "inputs"), inside, strict=True))
    places = places_of(record, state)
    own = {name: str(getattr(places, name)) for name in ("output", "scratch", "inputs")}
    return {"workspace": record.worktree, **own}
