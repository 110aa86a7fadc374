"""Where agents' APIs are: told by their users' variables, settings and logins."""

import pytest

from coachman_adapters import ADAPTERS
from coachman_adapters.endpoints import (
    PROVIDERS,
    of_credentials,
    of_keys,
    of_settings,
    of_url,
    of_urls,
)


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://API.example.org/v1", "api.example.org:443"),
        ("http://127.0.0.1:11434/v1", "127.0.0.1:11434"),
        ("http://[::1]:80", "[::1]:80"),
        ("http://user:secret@example.org", "example.org:80"),
        ("example.org:8080", "example.org:8080"),
        ("ftp://example.org", None),
        ("https://", None),
        ("https://example.org:x/", None),
        ("https://{env:HOST}/", None),
        ("https://*.example.org/", None),
    ],
)
def test_a_url_names_a_destination(url: str, meant: str | None) -> None:
    """Host and port, the scheme's where there is none; never who logs in."""
    found = of_url(url)
    assert found == meant or (meant is None and "{" in str(found))


def test_variables_say_where_an_api_is_and_whose_keys_there_are() -> None:
    """Only those that the agent may have count, and only with a value."""
    names = ("X_BASE_URL", "OPENAI_API_KEY", "XAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "REGION")
    environment = {
        "X_BASE_URL": "http://10.0.0.7:8000/v1",
        "OPENAI_API_KEY": "k",
        "XAI_API_KEY": "",
        "MISTRAL_API_KEY": "k",
        "AWS_BEARER_TOKEN_BEDROCK": "k",
        "AWS_REGION": "eu-central-1",
    }
    assert [*of_urls(names, environment), *of_keys(names, environment)] == [
        "10.0.0.7:8000",
        *PROVIDERS["openai"][1],
        "bedrock-runtime.eu-central-1.amazonaws.com",
        "bedrock.eu-central-1.amazonaws.com",
    ]


SETTINGS = {
    b'{"provider": {"x": {"options": {"baseURL": "http://127.0.0.1:1/v1", "apiKey": "k"}}}}': [
        "127.0.0.1:1"
    ],
    b'openai_base_url = "https://a.example/v1"\n[providers.x]\nbase_url = "http://b.example"': [
        "a.example:443",
        "b.example:80",
    ],
    b'{"a":{"baseUrl":"http://a.example:1"},"b":{"baseUrl":"http://b.example:2"}}': [
        "a.example:1",
        "b.example:2",
    ],
    b"provider:\n  api_base: https://a.example\n": ["a.example:443"],
    b'# base_url = "https://a.example"\n// "baseURL": "https://b.example"': [],
    b'"homepage": "https://a.example", "url": "https://b.example"': [],
    b'base_url = "{env:URL}"': [],
    b"\xff\xfe base_url = 'https://a.example'": ["a.example:443"],
}


@pytest.mark.parametrize("content", SETTINGS)
def test_settings_say_where_an_api_is(content: bytes) -> None:
    """In JSON, TOML and YAML, by the names that agents have for it; comments say nothing."""
    assert list(of_settings(content)) == SETTINGS[content]


def test_logins_say_whose_they_are() -> None:
    """A file of credentials by provider names the providers."""
    content = b'{"groq": {"key": "k"}, "nobody": 1, "amazon-bedrock": {}}'
    assert list(of_credentials(content)) == ["api.groq.com"]
    assert list(of_credentials(b"[1]")) == list(of_credentials(b"no")) == []


def test_every_agent_with_credentials_has_a_host() -> None:
    """Whatever key an agent may be given, it reaches somebody with it."""
    keys = {name for variables, _ in PROVIDERS.values() for name in variables}
    # A part of a key, a header, or a key whose service is the agent's own host.
    known = {
        *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"),
        *("CLAUDE_CODE_OAUTH_TOKEN", "CODEX_API_KEY"),
    }
    for name, adapter in ADAPTERS.items():
        spec = adapter.spec
        assert set(spec.credentials) <= keys | known, name
        assert spec.hosts or not set(spec.credentials) & {"CLAUDE_CODE_OAUTH_TOKEN"}, name
