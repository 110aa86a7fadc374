"""What an agent is told about its place: a suffix to its prompt, recorded with it."""

import time

from coachman_sandbox import layout

BRIEFING = """

---
You work unattended in {workspace}, a git worktree of your own. Do not commit, branch or push: what
you change is recorded for you. Files for whoever asked, other than changes to the project, go to
{output}; {scratch} is for what nobody needs afterwards. You have until {deadline}.
"""


def brief(prompt: str, deadline_ms: int) -> str:
    """``prompt`` with the briefing behind it."""
    deadline = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(deadline_ms / 1000))
    return prompt + BRIEFING.format(
        workspace=layout.WORKSPACE,
        output=layout.OUTPUT,
        scratch=layout.SCRATCH,
        deadline=deadline,
    )
