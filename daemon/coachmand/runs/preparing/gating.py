"""A run's network: what its keeper is told to open, and what its agent is told of it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from attrs import evolve

from coachman_sandbox.environment import PROXY_NAMES
from coachman_sandbox.network import Destination, Network, NetworkError, loopback
from coachman_sandbox.policy import Policy

from ...gate import PROXY_ADDRESS, PROXY_PORT

# Its own services, and those of this machine that it may reach, are there without the proxy.
DIRECT = "localhost,127.0.0.1,::1"
# In the order in which programs ask for them.
UPSTREAM_NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
HTTP_PORT = 80
# Node asks its variables only when it is told to.
NODE_VARIABLES = {"NODE_USE_ENV_PROXY": "1"}


def connected(policy: Policy, network: Network) -> Policy:
    """The policy with its network: the agent is told of the gate, and of nobody else's proxy."""
    if network.kind == "host":
        return evolve(policy, network=network)
    env = {name: value for name, value in policy.env.items() if name not in PROXY_NAMES}
    told = proxy_variables(network) if network.kind == "gate" else {}
    return evolve(policy, network=network, env={**env, **told})


def proxy_variables(network: Network) -> Mapping[str, str]:
    """The gate under all names that programs look for it, in both cases."""
    where = f"http://{PROXY_ADDRESS}:{proxy_port(network)}"
    both = {"HTTP_PROXY": where, "HTTPS_PROXY": where, "ALL_PROXY": where, "NO_PROXY": DIRECT}
    return {**both, **{name.lower(): value for name, value in both.items()}, **NODE_VARIABLES}


def proxy_port(network: Network) -> int:
    """Where the proxy listens inside: at a port that no service of this machine is reached by."""
    taken = {each.port for each in loopback(network)}
    return next(
        port for port in range(PROXY_PORT, PROXY_PORT + len(taken) + 1) if port not in taken
    )


def orders(network: Network, upstream: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The launch record's `gate`: None for a network that has none."""
    if network.kind != "gate":
        return None
    destinations = [
        {"host": each.host, "port": each.port, "address": each.address} for each in network.allowed
    ]
    proxy = {"address": PROXY_ADDRESS, "at": proxy_port(network)}
    pipes = [_pipe(each, network) for each in loopback(network)]
    return {
        "policy": {
            "public": network.public,
            "destinations": destinations,
            "upstream": upstream,
        },
        "listeners": [proxy, *pipes],
    }


def upstream_of(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The user's own proxy, which the gate goes through. Raises NetworkError.

    Its login goes to the gate in memory, and nowhere else.
    """
    url = next((environment[name] for name in UPSTREAM_NAMES if environment.get(name)), None)
    if url is None:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or HTTP_PORT
    except ValueError:
        host, parts = None, None
    if parts is None or not host or parts.scheme != "http":
        raise NetworkError(
            "the proxy of your environment cannot be gone through: only one of http:// can be"
        )
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    without = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    direct = [each.strip() for each in without.split(",") if each.strip()]
    return {"host": host, "port": port, "login": login, "direct": direct}


def _pipe(place: Destination, network: Network) -> dict[str, Any]:
    """Inside, a service of this machine is at its own address."""
    by_name = Destination("localhost", place.port)
    host = by_name.host if by_name in network.allowed else place.host
    return {"address": place.host.strip("[]"), "at": place.port, "host": host, "port": place.port}
