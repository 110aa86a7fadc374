"""Logins whose refresh tokens rotate, as providers have them, behind a proxy on loopback.

The proxy ends TLS itself, with certificates of an authority of its own: an agent that is told of
both speaks to its provider by name. A refresh token serves once. One that comes a second time is
taken for stolen: everything of the login is void from then on, as if its user had logged out.
"""

import base64
import contextlib
import http.client
import json
import secrets
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

TOKEN_PATHS = ("/v1/oauth/token", "/oauth/token")
ACCOUNT = "acct-0001"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
_EXPIRED = {"type": "authentication_error", "message": "the token has expired"}


def jwt(expires_s: float, **claims: Any) -> str:
    """A token that nobody signed and whose owner can read."""
    parts = ({"alg": "none", "typ": "JWT"}, {"exp": int(expires_s), **claims})
    told = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join([*told, secrets.token_urlsafe(9).encode()]).decode()


def claims_of(account: str) -> dict[str, Any]:
    """What OpenAI's tokens say of whose they are."""
    auth = {"chatgpt_account_id": account, "chatgpt_plan_type": "pro"}
    return {"https://api.openai.com/auth": auth, "email": "me@example.test"}


class TokenServer:
    """One login, and what its model's API asks of who comes: a token that serves.

    ``lifetime_s`` is how long the next access tokens serve, ``pause_s`` how long a refresh takes.
    ``renewals`` counts those that were granted, ``reused`` those that came with a token of the
    past; ``refused`` are the requests with an access token that does not serve, ``asked`` all,
    ``served`` the tokens with which models were asked. While it ``is_down`` nothing is renewed.
    What is asked otherwise goes to the model server at ``model_port``.
    """

    def __init__(self, root: Path, model_port: int, lifetime_s: float = 3600.0) -> None:
        self.lifetime_s, self.pause_s = lifetime_s, 0.0
        self.renewals = self.reused = 0
        self.refused: list[str] = []
        self.asked: list[str] = []
        self.served: list[str] = []
        self.every: list[str] = []
        self.is_down = False
        self._model_port = model_port
        self._lock = threading.Lock()
        self._past: set[str] = set()
        self._serving: dict[str, float] = {}
        self._certificates = Certificates(root)
        self.authority = self._certificates.authority
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._rotate()

    # --- tokens ---

    def rotate(self) -> None:
        """As if the user's own program had renewed the login."""
        with self._lock:
            self._past.add(self.refresh)
            self._rotate()

    def _rotate(self) -> dict[str, Any]:
        self.expires_s = time.time() + self.lifetime_s
        self.refresh = f"rt-{secrets.token_hex(20)}"
        self.access = jwt(self.expires_s, **claims_of(ACCOUNT))
        self._serving[self.access] = self.expires_s
        self.every += (self.refresh, self.access)
        return {
            "access_token": self.access,
            "refresh_token": self.refresh,
            "id_token": jwt(self.expires_s, **claims_of(ACCOUNT)),
            "expires_in": int(self.lifetime_s),
            "token_type": "Bearer",
            "scope": "user:inference user:profile",
            "account": {"uuid": ACCOUNT, "email_address": "me@example.test"},
        }

    def renew(self, refresh: str) -> tuple[int, dict[str, Any]]:
        """What the provider answers to a refresh token: status and body."""
        time.sleep(self.pause_s)
        with self._lock:
            if self.is_down:
                return 503, {"error": "temporarily_unavailable"}
            if refresh in self._past:
                self.reused += 1
                self._serving.clear()
            if self.reused or refresh != self.refresh:
                return 400, {"error": "invalid_grant", "code": "refresh_token_reused"}
            self._past.add(refresh)
            self.renewals += 1
            return 200, self._rotate()

    def revoke(self, access: str) -> None:
        """Let an access token expire now."""
        with self._lock:
            self._serving.pop(access)

    def serves(self, access: str) -> bool:
        """Whether the provider takes an access token."""
        with self._lock:
            return self._serving.get(access, 0.0) > time.time()

    # --- as agents keep it ---

    def claude_login(self) -> str:
        """The file in which Claude Code has the login."""
        told = {
            "accessToken": self.access,
            "refreshToken": self.refresh,
            "expiresAt": int(self.expires_s * 1000),
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
        }
        return json.dumps({"claudeAiOauth": told, "kept": {"by": "the user"}})

    def codex_login(self) -> str:
        """The file in which Codex has it."""
        tokens = {
            "id_token": self.access,
            "access_token": self.access,
            "refresh_token": self.refresh,
            "account_id": ACCOUNT,
        }
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens}
        return json.dumps({**told, "last_refresh": at}, indent=2)

    def pi_login(self) -> str:
        """The file in which pi has it, with a key of another provider's."""
        told = {"type": "oauth", "access": self.access, "refresh": self.refresh}
        key = {"type": "api_key", "key": "key-of-another-provider"}
        told_ms = {**told, "expires": int(self.expires_s * 1000)}
        return json.dumps({"anthropic": told_ms, "other": key}, indent=2)

    # --- the proxy ---

    def __enter__(self) -> "TokenServer":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        # A client that hangs up is part of many tests.
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException), client:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := client.recv(1)):
                    return
                head += piece
            verb, target, *_ = head.decode("latin-1").split()
            if verb != "CONNECT":
                client.sendall(b"HTTP/1.1 405 CONNECT alone\r\ncontent-length: 0\r\n\r\n")
                return
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            host = target.rpartition(":")[0]
            context = self._certificates.context(host)
            later = {"server_side": True, "do_handshake_on_connect": False}
            with context.wrap_socket(client, **later) as secure:
                secure.do_handshake()
                with secure.makefile("rb") as stream:
                    while self._answer(host, secure, stream):
                        pass

    def _answer(self, host: str, secure: ssl.SSLSocket, stream: Any) -> bool:
        """Serve one request; whether there may be another."""
        line = stream.readline().decode("latin-1").split()
        if len(line) < 2:
            return False
        headers = http.client.parse_headers(stream)
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join(_chunks(stream))
        else:
            body = stream.read(int(headers.get("content-length") or 0))
        verb, path = line[0], line[1].partition("?")[0]
        self.asked.append(f"{verb} {host}{path}")
        if path in TOKEN_PATHS:
            _send(secure, *self.renew(_refresh_of(body)))
            return True
        bearer = (headers.get("authorization") or "").partition(" ")[2]
        access = bearer or headers.get("x-api-key") or ""
        if not self.serves(access):
            self.refused.append(f"{verb} {host}{path}")
            _send(secure, 401, {"type": "error", "error": _EXPIRED})
            return True
        if verb == "POST" and path.endswith(("/messages", "/responses")):
            self.served.append(access)
        self._forward(secure, verb, line[1], headers, body)
        return False

    def _forward(
        self, secure: ssl.SSLSocket, verb: str, path: str, headers: Message, body: bytes
    ) -> None:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._model_port)) as model:
            self._ask(model, secure, verb, path, headers, body)

    @staticmethod
    def _ask(
        model: http.client.HTTPConnection,
        secure: ssl.SSLSocket,
        verb: str,
        path: str,
        headers: Message,
        body: bytes,
    ) -> None:
        told = {"content-type": headers.get("content-type") or "application/json"}
        model.request(verb, path, body, {**told, "connection": "close"})
        answer = model.getresponse()
        kind = answer.getheader("content-type")
        head = f"HTTP/1.1 {answer.status} OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n"
        secure.sendall(head.encode())
        while data := answer.read1(65536):
            secure.sendall(data)


class Certificates:
    """An authority, and what it signs for each host that is asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._contexts: dict[str, ssl.SSLContext] = {}
        root.mkdir(parents=True, exist_ok=True)
        self.authority = root / "authority.pem"
        self._make("authority", "scripted authority")

    def context(self, host: str) -> ssl.SSLContext:
        """How to be ``host``."""
        with self._lock:
            if host not in self._contexts:
                name = f"host-{len(self._contexts)}"
                made_by = ("-CA", "authority.pem", "-CAkey", "authority.key")
                no_authority = ("-addext", "basicConstraints=critical,CA:FALSE")
                self._make(
                    name, host, "-addext", f"subjectAltName=DNS:{host}", *no_authority, *made_by
                )
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self._root / f"{name}.pem", self._root / f"{name}.key")
                self._contexts[host] = context
            return self._contexts[host]

    def _make(self, name: str, subject: str, *more: str) -> None:
        files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
        words = ["openssl", "req", "-x509", *_KEY, *files, "-subj", f"/CN={subject}", *more]
        subprocess.run(words, cwd=self._root, check=True, capture_output=True)


def _refresh_of(body: bytes) -> str:
    text = body.decode()
    if text.startswith("{"):
        return str(json.loads(text).get("refresh_token", ""))
    return parse_qs(text).get("refresh_token", [""])[0]


def _chunks(stream: Any) -> Iterator[bytes]:
    while size := int(stream.readline().split(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()


def _send(secure: ssl.SSLSocket, status: int, told: dict[str, Any]) -> None:
    data = json.dumps(told).encode()
    head = f"HTTP/1.1 {status} told\r\ncontent-type: application/json\r\n"
    secure.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
