"""Inside a sandbox: which destinations are reached from here, told line by line on stdout.

``reach.py '["api.example.org:443", …]' SECONDS BUNDLE``. Each line is {"place", "ok", "stage",
"why"}: ``stage`` is how far it came, "proxy" (the gate or a proxy of the user's refused or could
not), "connect", "tls" or "done". Nothing is said to whoever answers but the beginning of TLS.
"""

import base64
import contextlib
import json
import os
import socket
import ssl
import sys
import threading
from urllib.parse import unquote, urlsplit
from urllib.request import proxy_bypass

TLS_PORTS = (443, 8443)
HEAD_BYTES = 64 * 1024
_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class Unreached(Exception):  # noqa: N818 - it names a finding
    """How far it came, and why no further."""

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(why)
        self.stage = stage


def main() -> None:
    """Try all at once, and tell of each when it is known."""
    places, limit_s, bundle = json.loads(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    threads = [
        threading.Thread(target=_tell, args=(place, limit_s, bundle), daemon=True)
        for place in places
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit_s)


def _tell(place: str, limit_s: float, bundle: str) -> None:
    said = {"place": place, "ok": True, "stage": "done", "why": None}
    try:
        _reach(place, limit_s, bundle)
    except Unreached as error:
        said.update(ok=False, stage=error.stage, why=str(error))
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _reach(place: str, limit_s: float, bundle: str) -> None:
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    with contextlib.closing(_connected(host, int(port), place, limit_s)) as channel:
        if int(port) in TLS_PORTS:
            _greet(channel, host, bundle)


def _connected(host: str, port: int, place: str, limit_s: float) -> socket.socket:
    proxy = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), None)
    # Its own loopback is asked for all the same: the gate says why it leads nowhere.
    is_gate = proxy is not None and urlsplit(proxy).hostname == "127.0.0.1"
    if proxy is None or (not is_gate and proxy_bypass(host)):
        return _plain(host, port, limit_s)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    channel = _plain(parts.hostname or "", parts.port or 80, limit_s, "proxy")
    try:
        _tunnel(channel, place, parts.username, parts.password)
    except OSError as error:
        channel.close()
        raise Unreached("proxy", _words(error)) from error
    except Unreached:
        channel.close()
        raise
    return channel


def _plain(host: str, port: int, limit_s: float, stage: str = "connect") -> socket.socket:
    try:
        return socket.create_connection((host, port), limit_s)
    except OSError as error:
        raise Unreached(stage, _words(error)) from error


def _tunnel(channel: socket.socket, place: str, user: str | None, password: str | None) -> None:
    login = ""
    if user:
        pair = f"{unquote(user)}:{unquote(password or '')}".encode()
        login = f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\r\n"
    channel.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{login}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES:
        chunk = channel.recv(4096)
        if not chunk:
            break
        head += chunk
    status, _, rest = head.partition(b"\r\n")
    if status.split(b" ")[1:2] != [b"200"]:
        body = rest.partition(b"\r\n\r\n")[2] or _rest(channel)
        said = (body or status).decode("utf-8", "replace").strip()
        raise Unreached("proxy", said.partition("\n")[0][:300] or "it hung up")


def _rest(channel: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return channel.recv(4096)
    return b""


def _greet(channel: socket.socket, host: str, bundle: str) -> None:
    context = ssl.create_default_context(cafile=bundle if os.path.exists(bundle) else None)
    try:
        context.wrap_socket(channel, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        raise Unreached("tls", f"its certificate is not trusted: {error.verify_message}") from error
    except OSError as error:
        raise Unreached("tls", _words(error)) from error


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error.strerror or error)


if __name__ == "__main__":
    main()
    # A name that nobody resolves holds its thread.
    os._exit(0)
