"""Real agents with a login whose refresh token serves once, at a provider that tells reuse."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define

import live_runs as live
import recovery_state as at
from agents_model import ModelServer
from coachmand.failpoints import LOGIN_STEPS, VARIABLE
from coachmand.runs.credentials.logins import AGAIN_S, EARLY_S
from daemon_process import DaemonProcess, make_repository
from live_stage import eventually
from token_server import TokenServer

pytestmark = [pytest.mark.real_agent, pytest.mark.long]

RUNS = 16
# What is renewed meanwhile serves so long before it is close to its end, and a turn takes longer.
LIVES_S, WORDS_S = 45.0, 60
# Both renew a token of their own so long before its end.
ITS_OWN_EARLY_S = 300.0
WORDS = "one two three four five six seven eight nine ten"


@define
class Site:
    """A daemon whose user is logged in at ``provider``."""

    daemon: DaemonProcess
    provider: TokenServer
    repo: Path
    login: Path

    def start(self, prompt: str, **options: Any) -> str:
        """A run with the login; its id."""
        return at.start(self.daemon, self.repo, prompt, **options)

    def log_in(self, *, lifetime_s: float, then_s: float = 3600.0) -> None:
        """A fresh login, whose access token serves so long; those after it so long."""
        self.provider.lifetime_s = lifetime_s
        self.provider.rotate()
        self.provider.lifetime_s = then_s
        forms = {
            CLAUDE: self.provider.claude_login,
            CODEX: self.provider.codex_login,
            PI: self.provider.pi_login,
        }
        self.login.write_text(forms[str(self.login.relative_to(self.daemon.home))]())

    def is_handed_on(self) -> bool:
        """Whether the user's file has what a renewal brought, and the run's home as well."""
        copies = (self.daemon.state / "agents").rglob(self.login.name)
        return (
            self.provider.renewals > 0
            and self.provider.refresh in self.login.read_text()
            and all(self.provider.access in copy.read_text() for copy in copies)
        )

    def second_turn(self, run: str) -> dict[str, Any]:
        """The result of a kept run after another prompt."""
        with self.daemon.client() as client:
            client.run.prompt(run, "SAY two")
            live.until_turn(self.daemon, run, 2, "turn.ended")
            client.run.close([run])
        return at.result(self.daemon, run)

    def leaks(self, run: str) -> list[Path]:
        """What of a run's evidence holds a token."""
        files = [path for path in at.directory(self.daemon, run).rglob("*") if path.is_file()]
        tokens = [token.encode() for token in self.provider.every]
        return [path for path in files if any(token in path.read_bytes() for token in tokens)]


@pytest.fixture
def site(request: pytest.FixtureRequest, agents_dir: Path) -> Iterator[Site]:
    """The test's parameter is where below the home the login lies."""
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    with ModelServer() as model, TokenServer(root / "provider", model.port) as provider:
        env = {"HTTPS_PROXY": provider.url, "SSL_CERT_FILE": str(provider.authority)}
        daemon = DaemonProcess(root, env)
        daemon.env["PATH"] = f"{agents_dir / 'node_modules' / '.bin'}:{os.environ['PATH']}"
        config = root / "config.toml"
        config.write_text(f'[capacity]\nmax_active = {RUNS}\n[storage]\nsealed = "{root}/n"\n')
        daemon.env["COACHMAN_CONFIG"] = str(config)
        login = daemon.home / request.param
        login.parent.mkdir(parents=True)
        daemon.start()
        try:
            yield Site(daemon, provider, make_repository(root / "repo"), login)
        finally:
            daemon.tidy()
    shutil.rmtree(root, ignore_errors=True)


CLAUDE, CODEX = ".claude/.credentials.json", ".codex/auth.json"
PI = ".pi/agent/auth.json"
# Codex asks more of OpenAI than a scripted model knows; a provider of the user's is asked for
# words alone, with OpenAI's login.
MINE = """model = "gpt-5.5"
model_provider = "mine"
[model_providers.mine]
name = "Mine"
base_url = "https://mine.test/v1"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
"""


@pytest.mark.parametrize("site", [CLAUDE], indirect=True)
def test_one_renewal_serves_all_that_start_and_all_that_live(site: Site) -> None:
    """Sixteen runs start close to an expiry and live across another: one refresh each time."""
    site.provider.pause_s = 0.5
    site.log_in(lifetime_s=60.0, then_s=EARLY_S + LIVES_S)
    runs = [site.start(f"SLOW {WORDS_S} {WORDS}", agent="claude") for _ in range(RUNS)]
    eventually(lambda: site.provider.renewals == 1, "the first renewal")
    site.provider.lifetime_s = 3600.0
    results = [at.result(site.daemon, run) for run in runs]

    assert [result["outcome"] for result in results] == ["succeeded"] * RUNS, results[0]["error"]
    assert (site.provider.reused, site.provider.renewals) == (0, 2)
    assert site.provider.refused == []
    assert site.provider.refresh in site.login.read_text()
    assert [path for run in runs for path in site.leaks(run)] == []


@pytest.mark.parametrize(
    ("site", "options"),
    [
        (CLAUDE, {"agent": "claude"}),
        (PI, {"agent": "pi", "provider": "anthropic", "model": "claude-sonnet-4-5"}),
    ],
    indirect=["site"],
    ids=["claude", "pi"],
)
def test_a_kept_run_goes_on_with_what_was_renewed(site: Site, options: dict[str, Any]) -> None:
    """A run whose token expired while it was parked takes another prompt with the next one."""
    site.log_in(lifetime_s=EARLY_S + 8.0)
    run = site.start("SAY one", keep=True, network=["agent", "api.anthropic.com:443"], **options)
    began = site.provider.access
    live.until_parked(site.daemon, run)
    eventually(site.is_handed_on, "the renewal")
    site.provider.revoke(began)
    result = site.second_turn(run)

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == "two"
    assert site.provider.reused == 0
    assert site.leaks(run) == []


@pytest.mark.parametrize("site", [CODEX], indirect=True)
def test_codex_goes_on_where_it_would_have_to_renew(site: Site) -> None:
    """A provider that renews nothing for a while is asked again, before codex would ask it."""
    site.login.with_name("config.toml").write_text(MINE)
    site.log_in(lifetime_s=ITS_OWN_EARLY_S + AGAIN_S / 2)
    site.provider.is_down = True
    network = ["agent", "mine.test:443"]
    run = site.start("SAY one", agent="codex", keep=True, network=network)
    began, ends_s = site.provider.access, site.provider.expires_s
    live.until_parked(site.daemon, run)
    site.provider.is_down = False
    eventually(site.is_handed_on, "the renewal")
    eventually(lambda: time.time() > ends_s - ITS_OWN_EARLY_S, "codex would renew its own")
    result = site.second_turn(run)

    assert result["outcome"] == "succeeded", result["error"]
    assert result["final_message"].strip() == "two"
    assert site.provider.refused == []
    assert (site.provider.reused, site.provider.served[0]) == (0, began)
    assert site.provider.served[-1] == site.provider.access
    assert any("was not renewed" in told for told in result["warnings"])
    assert site.leaks(run) == []


@pytest.mark.parametrize("site", [CLAUDE], indirect=True)
def test_two_daemons_renew_a_login_once(site: Site) -> None:
    """Daemons with states of their own and one user: the second waits, and finds it done."""
    site.provider.pause_s = 1.0
    site.log_in(lifetime_s=60.0)
    root = site.daemon.root / "other"
    root.mkdir()
    other = DaemonProcess(root, site.daemon.env)
    other.env["COACHMAN_STATE_DIR"] = str(other.state)
    other.start()
    try:
        both = (site.daemon, other)
        runs = [(each, at.start(each, site.repo, "SAY one", agent="claude")) for each in both]
        results = [at.result(each, run) for each, run in runs]
    finally:
        other.tidy()

    assert [result["outcome"] for result in results] == ["succeeded"] * 2
    assert (site.provider.reused, site.provider.renewals) == (0, 1)


@pytest.mark.parametrize("step", LOGIN_STEPS)
@pytest.mark.parametrize("site", [CLAUDE], indirect=True)
def test_a_killed_daemon_loses_no_token(site: Site, step: str) -> None:
    """Wherever it dies, the next daemon has the user's file hold the token that serves."""
    site.provider.pause_s = 1.0
    site.log_in(lifetime_s=60.0)
    site.daemon.kill()
    site.daemon.env[VARIABLE] = f"{step}:kill"
    site.daemon.start()
    run = site.start("SAY one", agent="claude")
    assert site.daemon.process is not None
    site.daemon.process.wait(60)
    site.daemon.env.pop(VARIABLE)
    site.daemon.start()
    result = at.result(site.daemon, run)

    assert result["outcome"] == "succeeded", result["error"]
    assert (site.provider.reused, site.provider.renewals) == (0, 1)
    assert site.provider.refresh in site.login.read_text()
    assert list((site.daemon.state / "logins").iterdir()) == []
    assert site.leaks(run) == []
