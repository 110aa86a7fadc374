"""What an agent is told about its place: a suffix to its prompt, recorded with it."""

import time
from collections.abc import Mapping, Sequence

from coachman_sandbox import layout

PLACES: Mapping[str, str] = {
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


GIVEN = "What you were handed lies in {inputs}; {inputs}/manifest.json lists it.\n"


EXPECTED = "You have to leave in {output}: {paths}.\n"


def brief(
    prompt: str,
    deadline_ms: int,
    profile: str = "edit",
    *,
    given: bool = False,
    expected: Sequence[str] = (),
) -> str:
    """``prompt`` with the briefing behind it.

    ``given``: there are inputs; ``expected`` are the artifacts without which it fails.
    """
    told = PLACES[profile].format(
        workspace=layout.WORKSPACE,
        output=layout.OUTPUT,
        scratch=layout.SCRATCH,
        deadline=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(deadline_ms / 1000)),
    )
    if given:
        told += GIVEN.format(inputs=layout.INPUTS)
    if expected:
        told += EXPECTED.format(output=layout.OUTPUT, paths=", ".join(expected))
    return f"{prompt}\n\n---\n{told}"
