"""What is said to the app server: methods, and the parameters of each."""

from typing import Any

from coachman_adapters.conversation import AgentRequest

# The version is the dialect's, not the build's: a new build must replay the same bytes.
CLIENT_INFO = {"name": "coachman", "title": "coachman", "version": "1"}
INITIALIZE = "initialize"
INITIALIZED = "initialized"
THREAD_START = "thread/start"
THREAD_RESUME = "thread/resume"
TURN_START = "turn/start"
TURN_INTERRUPT = "turn/interrupt"
CLEAN = "thread/backgroundTerminals/clean"

# What tells nothing of the run, or what something else tells as well. codex is asked to keep
# these to itself; where it tells them all the same, they are left out.
UNTOLD = (
    "account/gatewayOAuth/changed",
    "account/login/completed",
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "command/exec/outputDelta",
    "fs/changed",
    "hook/completed",
    "hook/started",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/outputDelta",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "mcpServer/event/stream/notification",
    "mcpServer/oauthLogin/completed",
    "model/safetyBuffering/updated",
    "model/verification",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "rawResponse/completed",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/archived",
    "thread/attachment/updated",
    "thread/closed",
    "thread/compacted",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/section/changed",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "thread/unarchived",
    "turn/diff/updated",
    "turn/moderationMetadata",
)


def initialize() -> dict[str, Any]:
    # Ending what an interrupted turn left running is still an experimental method.
    able = {"experimentalApi": True, "optOutNotificationMethods": list(UNTOLD)}
    return {"clientInfo": CLIENT_INFO, "capabilities": able}


def thread(request: AgentRequest) -> tuple[str, dict[str, Any]]:
    """The method and parameters that open the thread.

    ``untrusted`` alone asks for each command and patch; ``on-request`` leaves that to the model.
    codex's own sandbox stays off: it would stop a command without a word.
    """
    chosen = {"model": request.model, "modelProvider": request.provider}
    params = {
        "cwd": request.cwd,
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "sandbox": "danger-full-access",
        **{name: value for name, value in chosen.items() if value is not None},
    }
    if request.session is None:
        return THREAD_START, params
    return THREAD_RESUME, {"threadId": request.session, "excludeTurns": True, **params}


def turn(thread: str, text: str, effort: str | None) -> dict[str, Any]:
    params: dict[str, Any] = {"threadId": thread, "input": [{"type": "text", "text": text}]}
    return params | ({"effort": effort} if effort is not None else {})


def interrupt(thread: str, turn: str) -> dict[str, Any]:
    return {"threadId": thread, "turnId": turn}


def clean(thread: str) -> dict[str, Any]:
    return {"threadId": thread}
