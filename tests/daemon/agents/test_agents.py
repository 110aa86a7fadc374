"""The agents that a daemon knows: coachman's, and those of its configuration."""

from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import AgentRequest, LaunchPlan, UserFiles
from coachmand.agents import adapters_of
from coachmand.config import Config
from coachmand.config_reader import parse

REQUEST = AgentRequest("/workspace", "/home/agent")
TEXT = """
[agents.work]
adapter = "demo"

[agents.new]
adapter = "acp"
command = ["new-agent", "serve", "--acp"]
executable = "/opt/new/agent"
environment = ["NEW_URL"]
credentials = ["NEW_KEY"]
files = [".new/settings.json"]
credential_files = [".new/login.json"]
efforts = ["low", "high"]
mode = "ask"
pricing = "new"
env = { NEW_REGION = "here" }
"""


def known() -> Config:
    return parse(TEXT, "/home/user", ADAPTERS)


def test_an_agent_of_the_configuration_is_one_like_others() -> None:
    """What the file says of it are its facts; a variant of another agent is none of its own."""
    agents = adapters_of(known())
    spec = agents["new"].spec

    assert set(agents) == {*ADAPTERS, "new"}
    assert (spec.name, spec.executables) == ("new", ("new-agent",))
    assert spec.environment == ("NEW_URL", "NEW_REGION", "NEW_KEY")
    assert spec.credentials == ("NEW_KEY",)
    assert spec.efforts == ("low", "high")
    assert spec.user_files == (UserFiles("", None, (".new/settings.json",), (".new/login.json",)),)
    assert spec.pricing == "new"


def test_its_command_is_what_is_started() -> None:
    """The program's name stands for what was found; its arguments follow."""
    plan = adapters_of(known())["new"].plan(REQUEST)

    assert plan == LaunchPlan(argv=("{executable}", "serve", "--acp"))


def test_an_instance_names_who_talks_to_it() -> None:
    """One of its own is talked to under its own name, a variant under the other's."""
    instances = known().agents

    assert instances["work"].adapter_of("work") == "demo"
    assert instances["new"].adapter_of("new") == "new"


def test_an_agent_that_is_gone_from_the_configuration_is_read_as_plain_acp() -> None:
    """A run that was started with it must still be ended and told; it is no agent to start."""
    agents = adapters_of(Config())

    assert agents["gone"].converse(REQUEST) is not None
    assert agents["gone"].spec.name == "gone"
    assert agents.get("gone") is None
    assert "gone" not in agents
