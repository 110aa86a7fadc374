"""A place, a host and an agent made of plain text: nothing here touches the real ones."""

import pytest

from coachman_sandbox.host import Host
from coachman_sandbox.policy import AgentAccess, GitView, Place


@pytest.fixture
def place() -> Place:
    """A run of task t1 of the repository /r."""
    return Place(
        workspace="/s/worktrees/r/t1",
        subfolder="",
        git=GitView("/s/runs/x/git"),
        home="/s/agents/r/t1/demo",
        scratch="/s/runs/x/scratch",
        output="/s/runs/x/artifacts",
        inputs=None,
        guest="/opt/coachman/guest",
        state_dir="/s",
    )


@pytest.fixture
def host() -> Host:
    """A merged-usr host of an ordinary user."""
    return Host(
        uid=1000,
        gid=1000,
        links=(("/bin", "usr/bin"), ("/lib", "usr/lib")),
        files=("/etc/ld.so.cache",),
        resolv_conf=b"nameserver 192.0.2.1\n",
        ca_bundle=b"certificates\n",
        localtime="/usr/share/zoneinfo/Etc/UTC",
    )


@pytest.fixture
def agent() -> AgentAccess:
    """An agent with one secret and one program."""
    return AgentAccess(
        binds=("/opt/agent",), env={"PLAIN": "plain"}, credentials={"API_KEY": "sk-secret"}
    )
