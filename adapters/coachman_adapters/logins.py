"""Logins whose tokens rotate: which file holds one, what of it is what, how it is renewed.

A refresh token serves once; whoever uses it a second time is taken for a thief, and the user is
logged out. So it stays with the user: runs are lent the access token alone.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

# Members of a JSON object, from its top.
Path = tuple[str, ...]

MAX_BYTES = 256 * 1024
MIN_TOKEN_CHARACTERS, MAX_TOKEN_CHARACTERS = 8, 32 * 1024
MAX_LIFETIME_S = 400 * 86400.0
# What a token may be said to expire at so that its owner renews it now: long ago.
LONG_AGO_MS = 1


class LoginError(ValueError):
    """A login that is not taken; the text says why, and holds nothing of it."""


@frozen
class Renewal:
    """How the agent's own program renews a login, with neither a model nor a prompt.

    ``argv`` runs in a sandbox of its own, in whose home the whole login lies, and reaches
    ``hosts`` alone; "{executable}" is the first of ``executables``. ``native``: as in `AgentSpec`.
    """

    executables: tuple[str, ...]
    argv: tuple[str, ...]
    hosts: tuple[str, ...]
    native: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict)


@frozen
class Login:
    """One login, in the JSON file ``path`` below the directory of its `UserFiles`; where a file has
    several, ``provider`` tells them apart.

    ``access``, ``refresh`` and ``expires`` (milliseconds of the epoch; None where the access
    token itself says it, as a JWT) are where the tokens are, ``beside`` what comes and goes
    with them. ``account`` are members, ``claims`` members of the access token, by which two
    logins are of the same account. ``withheld`` stands for the refresh token in a run; None:
    nothing does. Without a ``renewal`` it is only kept out of runs. With one of the
    variables ``instead`` the agent does without the login.
    """

    path: str
    access: Path
    refresh: Path
    expires: Path | None
    renewal: Renewal | None
    account: tuple[Path, ...] = ()
    claims: tuple[Path, ...] = ()
    beside: tuple[Path, ...] = ()
    withheld: str | None = None
    instead: tuple[str, ...] = ()
    provider: str = ""


@frozen
class Tokens:
    """What of a login changes when it is renewed. ``expires_s`` is of the epoch."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_s: float


def read(login: Login, content: bytes) -> Tokens:
    """The tokens of a file. Raises LoginError for any that holds no such login."""
    return _tokens(login, _object(content))


def lent(login: Login, content: bytes) -> bytes:
    """The file as a run has it: without what could renew the login. As it is without a login."""
    try:
        told = _object(content)
        _tokens(login, told)
    except LoginError:
        return content
    _put(told, login.refresh, login.withheld)
    return json.dumps(told, indent=2).encode()


def all_lent(each: Iterable[Login], path: str, content: bytes) -> bytes:
    """The same of a file that may hold several."""
    for login in each:
        if login.path == path:
            content = lent(login, content)
    return content


def due(login: Login, each: Iterable[Login], content: bytes) -> bytes:
    """The file as its program finds it that is to renew one of ``each`` now. Raises LoginError."""
    told = _object(all_lent((other for other in each if other != login), login.path, content))
    _tokens(login, told)
    if login.expires is not None:
        _put(told, login.expires, LONG_AGO_MS)
    return json.dumps(told, indent=2).encode()


def renewed(login: Login, own: bytes, returned: bytes, now_s: float) -> bytes:
    """The user's ``own`` file with the tokens of what a program ``returned``, and nothing else.

    Raises LoginError for another account, an older token, or what is no login at all.
    """
    told, new = _object(own), _object(returned)
    before, after = _tokens(login, told), _tokens(login, new)
    if after.access == before.access:
        raise LoginError("its access token is the one from before")
    if not before.expires_s < after.expires_s < now_s + MAX_LIFETIME_S or after.expires_s < now_s:
        raise LoginError("what came back does not expire later than what is there")
    if _account(login, told, before) != _account(login, new, after):
        raise LoginError("what came back is another account's")
    for path in (login.access, login.refresh, *((login.expires,) if login.expires else ())):
        _put(told, path, _get(new, path))
    for path in login.beside:
        value = _get(new, path)
        if isinstance(value, str) and value.isprintable() and len(value) <= MAX_TOKEN_CHARACTERS:
            _put(told, path, value)
    return json.dumps(told, indent=2 if b"\n" in own.strip() else None).encode()


def _object(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_BYTES:
        raise LoginError(f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        raise LoginError("it is no JSON") from None
    if not isinstance(told, dict):
        raise LoginError("it is no JSON object")
    return told


def _tokens(login: Login, told: Mapping[str, Any]) -> Tokens:
    access, refresh = _get(told, login.access), _get(told, login.refresh)
    if not (_is_token(access) and _is_token(refresh)):
        raise LoginError("it holds no access and refresh token of this provider")
    expires_s = _expires_s(login, told, access)
    if expires_s is None:
        raise LoginError("it does not say when it expires")
    return Tokens(access, refresh, expires_s)


def _expires_s(login: Login, told: Mapping[str, Any], access: str) -> float | None:
    at_s = _claims(access).get("exp") if login.expires is None else _get(told, login.expires)
    # A number of many digits would be no float any more.
    if not isinstance(at_s, int | float) or isinstance(at_s, bool) or not 0 <= at_s < 1e15:
        return None
    return float(at_s) if login.expires is None else at_s / 1000


def _is_token(value: Any) -> bool:
    return (
        isinstance(value, str)
        and MIN_TOKEN_CHARACTERS <= len(value) <= MAX_TOKEN_CHARACTERS
        and value.isascii()
        and value.isprintable()
        and " " not in value
    )


def _account(login: Login, told: Mapping[str, Any], tokens: Tokens) -> list[Any]:
    claims = _claims(tokens.access)
    members = [_get(told, path) for path in login.account]
    return [*members, *(_get(claims, path) for path in login.claims)]


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says, unchecked: its provider checks it. Empty for what is none."""
    parts = token.split(".")
    try:
        told = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError, RecursionError, binascii.Error):
        return {}
    return told if isinstance(told, dict) else {}


def _get(told: Any, path: Path) -> Any:
    for name in path:
        told = told.get(name) if isinstance(told, Mapping) else None
    return told


def _put(told: dict[str, Any], path: Path, value: Any) -> None:
    """Set a member of an object that is there; None takes it away."""
    *above, last = path
    for name in above:
        told = told[name]
    if value is None:
        told.pop(last, None)
    else:
        told[last] = value
