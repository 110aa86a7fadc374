"""What tokens cost: the table's prices by hand, and everything that has no price."""

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

import sourcetree
from coachmand.evidence import prices, pricing
from coachmand.runs.control.costs import cost_of, served_by
from coachmand.runs.reading.view import View
from daemon_process import DaemonProcess

MILLION = 1_000_000
VERSION = f"genai-prices {prices.__version__}"


def at(day: str) -> int:
    """Milliseconds of a moment, UTC."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


NOW = at("2026-06-01T12:00")


def usd(
    provider: str,
    model: str,
    at_ms: int = NOW,
    *,
    input: int = MILLION,
    cached: int = MILLION,
    output: int = MILLION,
    reasoning: int = 0,
) -> float | None:
    """The price of a million each of fresh input, cached input and output."""
    found = prices.look_up(
        {
            "provider": provider,
            "model": model,
            "at_ms": at_ms,
            "input": input,
            "cached_input": cached,
            "output": output,
            "reasoning": reasoning,
        }
    )
    if found is not None:
        assert found["price_version"] == VERSION
    return found and found["usd"]


@pytest.mark.parametrize(
    ("provider", "model", "dollars"),
    [
        ("anthropic", "claude-haiku-4-5", 1 + 0.1 + 5),
        ("anthropic", "claude-haiku-4-5-20251001", 1 + 0.1 + 5),
        ("openai", "gpt-5", 1.25 + 0.125 + 10),
        ("openai", "GPT-5", 1.25 + 0.125 + 10),
        ("google", "gemini-2.5-flash", 0.3 + 0.03 + 2.5),
        ("gemini", "gemini-2.5-flash", 0.3 + 0.03 + 2.5),
        ("azure", "gpt-5", 1.25 + 0.125 + 10),
        # Priced higher for long requests: what is known is the run's sum, so the first tier.
        ("anthropic", "claude-sonnet-4-5", 3 + 0.3 + 15),
        ("google", "gemini-2.5-pro", 1.25 + 0.125 + 10),
    ],
)
def test_known_models_cost_what_the_table_says(provider: str, model: str, dollars: float) -> None:
    """A million tokens of each kind cost the sum of the model's prices."""
    assert usd(provider, model) == pytest.approx(dollars, abs=1e-9)


@pytest.mark.parametrize(
    ("day", "dollars"), [("2026-08-20T00:00", 5 + 0.5 + 30), ("2026-08-22T00:00", 4 + 0.4 + 20)]
)
def test_prices_are_those_of_the_runs_day(day: str, dollars: float) -> None:
    """A run keeps the price of its day when the provider changes it."""
    assert usd("openai", "gpt-5.6-sol", at(day)) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("hour", "dollars"), [("2026-06-01T12:00", 0.27 + 0.07 + 1.1), ("2026-06-01T20:00", 0.72)]
)
def test_prices_are_those_of_the_runs_hour(hour: str, dollars: float) -> None:
    """Where nights are cheaper, a run at night is."""
    assert usd("deepseek", "deepseek-chat", at(hour)) == pytest.approx(dollars)


def test_small_numbers_keep_their_digits() -> None:
    """A few tokens cost a few millionths, not nothing."""
    assert usd("openai", "gpt-5", input=8, cached=8, output=1) == 0.000021


def test_reasoning_is_paid_as_output() -> None:
    """Tokens of reasoning cost what output costs."""
    assert usd("openai", "gpt-5", input=0, cached=0, output=0, reasoning=MILLION) == 10


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "no-such-model"),
        ("anthropic", ""),
        ("anthropic", "gpt-5"),
        ("no-such-provider", "gpt-5"),
        ("", "gpt-5"),
        # A proxy that is named after the provider may ask for anything.
        ("my-anthropic-proxy", "claude-haiku-4-5"),
        ("openai-compatible", "gpt-5"),
        ("litellm", "anthropic/claude-haiku-4-5"),
        # Paid by the request or by the minute.
        ("openai", "gpt-realtime-whisper"),
    ],
)
def test_what_is_not_in_the_table_has_no_price(provider: str, model: str) -> None:
    """Neither provider nor model is guessed from the other."""
    assert usd(provider, model) is None


@pytest.mark.parametrize(
    ("model", "told", "only", "expected"),
    [
        ("gpt-5", None, "openai", ("openai", "gpt-5")),
        ("openai/gpt-5", None, "openai", ("openai", "gpt-5")),
        ("anthropic/claude-x", None, None, ("anthropic", "claude-x")),
        ("openrouter/anthropic/claude-x", None, None, ("openrouter", "anthropic/claude-x")),
        ("anthropic/claude-x", "openrouter", None, ("openrouter", "anthropic/claude-x")),
        ("claude-x", "aws", "anthropic", ("aws", "claude-x")),
        ("claude-x", None, None, (None, "claude-x")),
        ("/claude-x", None, None, (None, "/claude-x")),
        (None, None, "openai", ("openai", None)),
    ],
)
def test_who_serves_a_model(
    model: str | None, told: str | None, only: str | None, expected: tuple[Any, Any]
) -> None:
    """What the agent tells comes first, then its one provider, then the model's prefix."""
    assert served_by(model, told, only) == expected


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input": 5, "cached_input": 4, "output": 3, "reasoning": 2, "total": 14}, (5, 4, 3, 2)),
        ({"input": 5, "cached_input": 4, "output": 3, "reasoning": 2, "total": 12}, (5, 4, 1, 2)),
        ({"input": 5, "cached_input": 4, "output": 3, "reasoning": 2, "total": 99}, (5, 4, 3, 2)),
        ({"input": 5, "output": 3}, (5, 0, 3, 0)),
        ({"output": 1, "reasoning": 2, "total": 1}, (0, 0, 0, 1)),
        ({"total": 99}, None),
        ({"input": 0, "output": 0, "total": 0}, None),
        ({}, None),
        ({"input": -1, "output": 5}, None),
        ({"input": 1.5, "output": 5}, None),
        ({"input": True, "output": 5}, None),
        ({"input": "9", "output": 5}, None),
        ({"input": None, "output": 5}, None),
        ({"input": 2**60, "output": 5}, None),
    ],
)
def test_counters_that_can_be_priced(usage: dict[str, Any], tokens: Any) -> None:
    """Reasoning is counted once, and counters that make no sense are worth no price."""
    counted = pricing.counted(usage)

    assert (counted and tuple(counted.values())) == tokens


async def test_the_daemon_asks_a_program_beside_it() -> None:
    """The answer comes from another process, and the daemon loads none of the library."""
    found = await pricing.price_of("openai", "gpt-5", {"input": MILLION}, NOW)

    assert found == pricing.Price(1.25, VERSION)
    assert await pricing.price_of("openai", "no-such-model", {"input": 1}, NOW) is None
    assert await pricing.price_of("openai", "gpt-5", {}, NOW) is None


def test_the_daemon_does_not_carry_the_table() -> None:
    """Nothing that the daemon imports imports the library or what it drags in."""
    loaded = "import coachmand.main, sys; print({'genai_prices', 'pydantic'} & {*sys.modules})"
    path = ":".join(str(package.parent) for package in sourcetree.PACKAGES.values())
    done = subprocess.run(
        [sys.executable, "-c", loaded],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho hello\n", "Expecting value"),
        ("#!/bin/sh\necho 'no table' >&2; exit 3\n", "no table"),
        ("#!/bin/sh\necho '{\"dollars\": 3}'\n", "dollars"),
    ],
)
async def test_a_broken_table_costs_no_run(tmp_path: Path, script: str, said: str) -> None:
    """Whatever goes wrong is logged, and the price is unknown."""
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)

    with capture_logs() as lines:
        found = await pricing.price_of("openai", "gpt-5", {"input": 1}, NOW, str(python))

    assert found is None
    [line] = lines
    assert line["event"] == "price_unknown"
    assert said in line["error"]


async def test_a_table_that_cannot_be_asked_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing interpreter and one that never answers are no price either."""
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(pricing, "LIMIT_S", 0.05)

    with capture_logs() as lines:
        assert await pricing.price_of("openai", "gpt-5", {"input": 1}, NOW, "/nowhere") is None
        assert await pricing.price_of("openai", "gpt-5", {"input": 1}, NOW, str(slow)) is None

    assert len(lines) == 2


def test_a_price_is_looked_up_without_the_network() -> None:
    """The program opens no socket: its table is the one that was installed."""
    watched = """
import runpy, sys
def refuse(event, _arguments):
    if event.startswith("socket."):
        raise AssertionError(event)
sys.addaudithook(refuse)
runpy.run_path(sys.argv[1], run_name="__main__")
"""
    question = {"provider": "openai", "model": "gpt-5", "at_ms": NOW, "input": MILLION}
    done = subprocess.run(
        [sys.executable, "-I", "-c", watched, str(pricing.PROGRAM)],
        input=json.dumps(question | {"cached_input": 0, "output": 0, "reasoning": 0}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert json.loads(done.stdout)["usd"] == 1.25


def ended_run(
    *,
    usage: dict[str, int] | None = None,
    cost_usd: float | None = None,
    asked: str | None = "gpt-5",
    pricing: str | None = "openai",
    environment: tuple[str, ...] = (),
) -> Any:
    """What `cost_of` reads of a run."""
    spec = SimpleNamespace(pricing=pricing)
    return SimpleNamespace(
        view=View(usage=usage, cost_usd=cost_usd, started_ms=NOW),
        fixed=SimpleNamespace(
            adapter="agent",
            model=asked,
            created_ms=NOW,
            environment=dict.fromkeys(environment, "caller"),
        ),
        services=SimpleNamespace(
            adapters={"agent": SimpleNamespace(spec=spec)}, python=sys.executable
        ),
    )


async def test_a_cost_is_calculated_where_the_agent_tells_none() -> None:
    """The tokens at the provider's prices, with the table's version; who pays is unknown."""
    assert await cost_of(ended_run(usage={"input": MILLION})) == {
        "usd": 1.25,
        "source": "calculated",
        "price_version": VERSION,
        "billing": "unknown",
    }


@pytest.mark.parametrize("usd", [0.0, 0.5])
async def test_what_the_agent_tells_is_not_calculated_again(usd: float) -> None:
    """A reported cost stands, also one of nothing."""
    assert await cost_of(ended_run(usage={"input": MILLION}, cost_usd=usd)) == {
        "usd": usd,
        "source": "reported",
        "price_version": None,
        "billing": "unknown",
    }


@pytest.mark.parametrize(
    "unknown",
    [
        {"usage": None},
        {"usage": {"input": 1}, "asked": None},
        {"usage": {"input": 1}, "pricing": None},
        {"usage": {"input": 1}, "pricing": "no-such-provider"},
        {"usage": {"input": 1}, "asked": "no-such-model"},
        # Whoever answers there, it need not be the agent's own provider.
        {"usage": {"input": 1}, "environment": ("OPENAI_API_KEY", "OPENAI_BASE_URL")},
    ],
)
async def test_a_cost_that_nobody_knows_is_none(unknown: dict[str, Any]) -> None:
    """No usage, no model, no provider, another provider: null, not a guess."""
    assert await cost_of(ended_run(**unknown)) is None


def test_a_runs_cost_is_in_its_result_its_end_and_the_list(
    daemon: DaemonProcess, repo: Path
) -> None:
    """One number everywhere; a run whose agent tells no usage has none anywhere."""
    with daemon.client() as client:
        paid = client.run.start("usage 1200 80\nsay hi", dir=str(repo), agent="demo")["run"]
        free = client.run.start("", dir=str(repo), agent="command", argv=["/bin/echo", "hi"])["run"]
        client.run.wait([paid, free], timeout_s=180)
        results = {run: client.run.result(run)["cost"] for run in (paid, free)}
        rows = {row["run"]: row["cost_usd"] for row in client.run.list()["runs"]}
    ended = {run: daemon.events(run)[-1] for run in (paid, free)}
    expected = {
        "usd": 0.00128,
        "source": "reported",
        "price_version": None,
        "billing": "unknown",
    }

    assert results == {paid: expected, free: None}
    assert rows == {paid: 0.00128, free: None}
    assert {run: event["cost"] for run, event in ended.items()} == results


# The demo agent as one that tells its tokens only, with a model that the table has.
PRICED = """
import sys
from attrs import evolve
from coachman_adapters import ADAPTERS
from coachman_adapters.acp.agent import AcpAgent
from coachmand.main import run_daemon

class Priced(AcpAgent):
    def converse(self, request):
        return super().converse(evolve(request, model=None))

demo = ADAPTERS["demo"]
spec, quirks = evolve(demo.spec, pricing="openai"), evolve(demo.quirks, cost="none")
ADAPTERS["demo"] = Priced(spec=spec, launch=demo.launch, quirks=quirks)
sys.exit(run_daemon(sys.argv[1:]))
"""


def test_a_calculated_cost_is_told_like_a_reported_one(
    state_dir: Path, repo: Path, tmp_path: Path
) -> None:
    """The daemon prices what the agent used, and says so in result, end and list."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nshift 3\nexec {sys.executable} -I -c {shlex.quote(PRICED)} "$@"\n'
    )
    python.chmod(0o755)
    daemon = DaemonProcess(state_dir, python=str(python)).start()
    try:
        with daemon.client() as client:
            prompt = "usage 1000000 100000\nsay hi"
            run = client.run.start(prompt, dir=str(repo), agent="demo", model="gpt-5")["run"]
            client.run.wait([run], timeout_s=180)
            cost = client.run.result(run)["cost"]
            [row] = client.run.list()["runs"]
        ended = daemon.events(run)[-1]
    finally:
        daemon.tidy()

    assert cost == {
        "usd": 2.25,
        "source": "calculated",
        "price_version": VERSION,
        "billing": "unknown",
    }
    assert row["cost_usd"] == 2.25
    assert ended["cost"] == cost
