"""The agent that ships with coachman: it obeys its prompt, so no model is needed."""

from coachman_adapters.acp.agent import AcpAgent
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import (
    AgentRequest,
    AgentSpec,
    LaunchPlan,
    SessionFiles,
    UserFiles,
)

GUEST_PROGRAM = "/run/coachman/demo_agent.py"


def _launch(request: AgentRequest) -> LaunchPlan:
    return LaunchPlan(argv=("{python}", "-I", "-S", GUEST_PROGRAM))


DEMO = AcpAgent(
    spec=AgentSpec(
        name="demo",
        title="Demo (obeys its prompt, no model)",
        runtime="python",
        efforts=("low", "medium", "high"),
        resumes=True,
        keeps=True,
        briefed=False,
        reports_cost=True,
        sessions=SessionFiles(
            UserFiles(".demo-agent"), ("sessions/{session}.json",), place=lambda path, _cwd: path
        ),
    ),
    launch=_launch,
    # It never says anything after a turn's end.
    quirks=Quirks(settle_s=0, usage="turn", cost="session"),
)
