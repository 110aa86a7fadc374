"""What a run may reach: as asked, else as configured, else as its profile says."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import trio

from coachman_adapters import endpoints
from coachman_adapters.conversation import Adapter
from coachman_sandbox import network
from coachman_sandbox.network import NetworkError
from coachman_sandbox.profiles import Profile

from ...config_profiles import configured
from ...config_values import network_of
from ...evidence.seeds import read_file
from ..facts.record import Record
from ..preparing.gating import upstream_of
from ..services import Means, Services
from .adopted import source_of
from .request import StartRequest, usage


async def networked(
    request: StartRequest,
    record: Record,
    adapter: Adapter,
    services: Services,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """The record's members about its network. Raises RpcError."""
    if record.walls.native:
        if request.network not in (None, (network.HOST,)):
            raise usage("a run on the host has the host's network", "leave --network out")
        return {"network": network.HOST, "reaches": ()}
    words = _words(request, record, services)
    own = await trio.to_thread.run_sync(
        own_destinations, record.agent, record.walls.inherits, adapter, services, environment
    )
    try:
        checked = network_of(words)
        compiled = network.resolve(checked, own)
    except NetworkError as error:
        raise usage(f"its network: {error}", network.WORDS_IN_WORDS) from None
    try:
        if compiled.kind == "gate":
            upstream_of(environment)
    except NetworkError as error:
        raise usage(f"its network: {error}", "unset it, or give --network none or host") from None
    if compiled.kind == "gate" and not adapter.spec.honours_proxies:
        raise usage(
            f"agent {record.agent} goes around every proxy, so that it would reach nothing",
            "give it --network none or --network host",
        )
    uses_own = network.AGENT in checked or network.FULL in checked
    return {"network": ",".join(checked), "reaches": own if uses_own else ()}


def _words(request: StartRequest, record: Record, services: Services) -> tuple[str, ...]:
    if request.network is not None:
        return request.network
    custom = record.custom or configured(services.config, record.profile).custom
    return custom.network or services.config.network or record.walls.network


def configured_words(profile: Profile, means: Means) -> tuple[str, ...]:
    """The network of a run behind this profile that names none."""
    custom = configured(means.config, profile.name).custom
    return custom.network or means.config.network or profile.network


def own_destinations(
    agent: str, inherits: bool, adapter: Adapter, means: Means, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The agent's own destinations, as far as what is configured names one. Blocks.

    ``inherits``: what the user wrote for the agent crosses, and says where APIs are as well.
    """
    found = [
        *adapter.spec.hosts,
        *told_destinations(agent, adapter, means, environment),
        *endpoints.of_keys(adapter.spec.environment, environment),
        *_in_files(inherits, adapter, environment),
    ]
    return tuple(sorted({str(each) for text in found for each in _parsed(text)}))


def told_destinations(
    agent: str, adapter: Adapter, means: Means, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Where the user says in so many words that the agent's APIs are."""
    instance = means.config.agents.get(agent)
    told = endpoints.of_urls(adapter.spec.environment, environment)
    found = (*(instance.hosts if instance else ()), *told)
    return tuple(dict.fromkeys(str(each) for text in found for each in _parsed(text)))


def _parsed(text: str) -> Iterator[network.Destination]:
    try:
        yield network.parse(text)
    except NetworkError:
        return


def _in_files(inherits: bool, adapter: Adapter, environment: Mapping[str, str]) -> Iterator[str]:
    """What the files say that cross into the agent's home."""
    for files in adapter.spec.user_files:
        source = source_of(files, environment)
        for name in files.settings if inherits else files.endpoints:
            yield from endpoints.of_settings(_content(source, name))
        for name in files.credentials:
            yield from endpoints.of_credentials(_content(source, name))


def _content(source: str, name: str) -> bytes:
    path = os.path.join(source, name)
    return (read_file(path) if os.path.isfile(path) else None) or b""
