"""An agent that speaks ACP: its facts, how it is launched, and its dialect."""

from collections.abc import Callable

from attrs import frozen

from coachman_adapters.acp.conversation import AcpConversation
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import AgentRequest, AgentSpec, Conversation, LaunchPlan


@frozen
class AcpAgent:
    """An `Adapter` made of data and one pure function, the launch plan."""

    spec: AgentSpec
    launch: Callable[[AgentRequest], LaunchPlan]
    quirks: Quirks

    def plan(self, request: AgentRequest) -> LaunchPlan:
        return self.launch(request)

    def converse(self, request: AgentRequest) -> Conversation:
        return AcpConversation(request, self.quirks)
