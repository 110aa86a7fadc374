"""What is read of a login, what of it is lent, and what of a renewed one is taken."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachman_adapters import logins
from coachman_adapters.claude.agent import LOGIN as CLAUDE
from coachman_adapters.codex.agent import LOGIN as CODEX
from coachman_adapters.logins import Login, LoginError
from coachman_adapters.opencode import LOGIN as OPENCODE
from coachman_adapters.pi.agent import USER_FILES as PI
from coachman_adapters.secret_values import secrets_in
from token_server import ACCOUNT, claims_of, jwt

NAMES = st.sampled_from(["claudeAiOauth", "accessToken", "expiresAt", "tokens", "access_token"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)


def codex(in_s: float, refresh: str, account: str = ACCOUNT) -> bytes:
    """A file of Codex's, whose access token says itself when it expires and whose it is."""
    access = jwt(time.time() + in_s, **claims_of(account))
    tokens = {"id_token": "id-token", "access_token": access, "refresh_token": refresh}
    return json.dumps(
        {"tokens": {**tokens, "account_id": ACCOUNT}, "last_refresh": "then"}
    ).encode()


@pytest.mark.parametrize("login", [CLAUDE, CODEX], ids=["claude", "codex"])
@given(told=VALUES, raw=st.binary(max_size=64))
def test_whatever_stands_there_is_a_login_or_none(login: Login, told: Any, raw: bytes) -> None:
    """No content makes reading it fail in another way, and none of it is changed by lending."""
    for content in (json.dumps(told).encode(), raw):
        with pytest.raises(LoginError):
            logins.read(login, content)
        assert logins.lent(login, content) == content


def test_a_run_is_lent_all_but_the_refresh_token() -> None:
    """The rest of the file is there, of the form that its program takes."""
    own = codex(3600, "refresh-token-1")
    lent = json.loads(logins.lent(CODEX, own))

    assert lent["tokens"].pop("refresh_token") == ""
    told = json.loads(own)
    told["tokens"].pop("refresh_token")
    assert lent == told


def test_of_several_logins_in_a_file_each_is_withheld() -> None:
    """What renews one has no other's refresh token either; keys of other kinds are as they were."""
    expires = int((time.time() + 60) * 1000)
    own = {
        name: {"type": "oauth", "access": f"access-{name}", "refresh": f"refresh-{name}"}
        | {"expires": expires}
        for name in ("anthropic", "openai-codex", "github-copilot")
    }
    content = json.dumps({**own, "openai": {"type": "api_key", "key": "a-key-of-its-own"}}).encode()
    lent = json.loads(logins.all_lent(PI.logins, "auth.json", content))
    due = json.loads(logins.due(PI.logins[0], PI.logins, content))

    assert [lent[name]["refresh"] for name in own] == ["", "", "refresh-github-copilot"]
    assert lent["openai"] == {"type": "api_key", "key": "a-key-of-its-own"}
    assert [due[name]["refresh"] for name in own][:2] == ["refresh-anthropic", ""]
    assert [due[name]["expires"] for name in own] == [1, expires, expires]


def test_what_is_of_no_use_to_a_run_is_kept_out_of_it_too() -> None:
    """opencode's login with OpenAI: a run could but void it."""
    tokens = {"type": "oauth", "access": "access-token-1", "refresh": "refresh-token-1"}
    content = json.dumps({"openai": {**tokens, "expires": 1.8e12}}).encode()

    assert b"refresh-token-1" not in logins.all_lent((OPENCODE,), OPENCODE.path, content)


def test_a_renewed_login_brings_its_tokens_alone() -> None:
    """Also what goes with them, which a provider's own program would have changed."""
    own, back = codex(60, "refresh-token-1"), json.loads(codex(3600, "refresh-token-2"))
    back |= {"last_refresh": "now", "OPENAI_API_KEY": "planted", "hooks": ["planted"]}
    taken = json.loads(logins.renewed(CODEX, own, json.dumps(back).encode(), time.time()))

    assert taken == {"tokens": back["tokens"], "last_refresh": "now"}


@pytest.mark.parametrize("account", ["acct-0002", "", None])
def test_a_token_of_another_account_is_not_taken(account: Any) -> None:
    """Whose it is, the token says as well as the file."""
    own, back = codex(60, "refresh-token-1"), codex(3600, "refresh-token-2", account)
    with pytest.raises(LoginError, match="another account's"):
        logins.renewed(CODEX, own, back, time.time())


def test_secrets_are_known_by_the_names_of_their_members() -> None:
    """In JSON, TOML and lines of variables; words that are short, or of other members, are none."""
    key = "sk-0123456789abcdef"
    found = {
        "auth.json": {"anthropic": {"type": "oauth", "access": key, "expires": 1}},
        "models.json": {"providers": [{"apiKey": key, "name": "sk-no-secret-at-all"}]},
    }
    for path, told in found.items():
        content = json.dumps(told).encode()
        assert secrets_in(content, path, is_credential=path == "auth.json") == (key,)
    assert secrets_in(f'api_key = "{key}"'.encode(), "config.toml", is_credential=False) == (key,)
    assert secrets_in(f"export A_KEY='{key}'".encode(), ".env", is_credential=True) == (key,)
    assert secrets_in(b'{"key": "ctrl-shift-alt-p"}', "keys.json", is_credential=False) == ()
    assert secrets_in(b"\xff\x00[", "auth.json", is_credential=True) == ()
