"""Which variables cross, and which values they have inside."""

from coachman.environment import for_daemon
from coachman_sandbox import environment, layout


def test_locale_proxies_and_time_zone_cross() -> None:
    """These and nothing else of a caller's environment are common to all agents."""
    caller = {"LANG": "de_DE.UTF-8", "LC_TIME": "C", "TZ": "UTC", "https_proxy": "http://p:1"}
    other = {"PATH": "/x", "HOME": "/h", "SSH_AUTH_SOCK": "/s", "AWS_SECRET_ACCESS_KEY": "k"}
    assert environment.crossing(caller | other) == caller


def test_certificate_variables_name_our_bundle() -> None:
    """Any of them given: each names the bundle inside, and Node is told too."""
    crossed = environment.crossing({"REQUESTS_CA_BUNDLE": "/corp/ca.pem", "SSL_CERT_DIR": "/d"})
    assert crossed == {
        "REQUESTS_CA_BUNDLE": layout.CA_BUNDLE,
        "NODE_EXTRA_CA_CERTS": layout.CA_BUNDLE,
    }


def test_what_describes_the_sandbox_cannot_be_overridden() -> None:
    """HOME, PATH and the directories are ours whatever a request says; defaults give way."""
    plain = {
        "HOME": "/h",
        "PATH": "/p",
        "COACHMAN_OUTPUT": "/o",
        "LANG": "C",
        "GIT_CONFIG_COUNT": "9",
    }
    made = environment.guest_environment("agent", plain, {"KEY": "s"}, ("/opt/n/bin",))
    assert made["HOME"] == layout.HOME
    assert made["PATH"].split(":")[:2] == ["/opt/n/bin", "/usr/local/sbin"]
    assert made["COACHMAN_OUTPUT"] == layout.OUTPUT
    assert (made["LANG"], made["KEY"], made["GIT_CONFIG_COUNT"]) == ("C", "s", "1")


def test_marks_of_an_agents_session_are_scrubbed() -> None:
    """A daemon started from an agent's shell does not pass on that it was."""
    marks = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CODEX_SANDBOX": "x"}
    kept = {"PATH": "/usr/bin", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "o"}
    assert environment.scrub(marks | kept) == kept


def test_client_and_daemon_scrub_the_same_marks() -> None:
    """The client cannot import this list, so that its own is held to it."""
    marks = [*environment.SESSION_NAMES, *(f"{name}X" for name in environment.SESSION_PREFIXES)]
    assert for_daemon(dict.fromkeys(marks, "1")) == {}


def test_an_agent_is_told_its_run_and_deadline() -> None:
    """Without a deadline there is no variable for it."""
    assert (
        environment.run_variables("r", "t", 1700000000000)["COACHMAN_DEADLINE"] == "1700000000000"
    )
    assert "COACHMAN_DEADLINE" not in environment.run_variables("r", "t", None)
