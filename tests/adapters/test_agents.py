"""The agents as data: what each plan promises."""

import json

import pytest

from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import AgentRequest
from coachman_adapters.opencode import CONFIG

REQUEST = AgentRequest(cwd="/workspace", home="/home/agent", argv=("make", "test"))


def test_agents_are_found_by_their_names() -> None:
    """The registry's keys are the specs' names."""
    assert {name: adapter.spec.name for name, adapter in ADAPTERS.items()} == {
        name: name for name in ADAPTERS
    }


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_credentials_are_names_that_may_cross(name: str) -> None:
    """Only declared names of the environment can be credentials."""
    spec = ADAPTERS[name].spec

    assert set(spec.credentials) <= set(spec.environment)
    assert len(set(spec.environment)) == len(spec.environment)
    assert spec.title


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_plans_are_pure(name: str) -> None:
    """The same request gives the same plan, with relative seeds only."""
    plan = ADAPTERS[name].plan(REQUEST)

    assert plan == ADAPTERS[name].plan(REQUEST)
    assert all(not seed.path.startswith(("/", "..")) for seed in plan.seeds)


def test_opencode_always_asks_and_never_shares() -> None:
    """Its configuration goes through the environment and leaves nothing to the CLI's defaults."""
    plan = ADAPTERS["opencode"].plan(REQUEST)

    config = json.loads(plan.env["OPENCODE_CONFIG_CONTENT"])
    assert config == CONFIG
    assert set(config["permission"].values()) == {"ask"}
    assert config["share"] == "disabled"
    assert plan.argv == ("{executable}", "acp")
    assert plan.epilogue[-2:] == ("{executable}", "{session}")
    logins = {
        f"{files.directory}/{path}"
        for files in ADAPTERS["opencode"].spec.user_files
        for path in files.credentials
    }
    assert logins == {".local/share/opencode/auth.json"}


def test_the_demo_is_run_alone() -> None:
    """The demo agent is run by path in an isolated interpreter."""
    plan = ADAPTERS["demo"].plan(REQUEST)

    assert plan.argv == ("{python}", "-I", "-S", "/run/coachman/demo_agent.py")


def test_a_command_is_its_argv() -> None:
    """The program and its arguments run as they were given."""
    assert ADAPTERS["command"].plan(REQUEST).argv == ("make", "test")
