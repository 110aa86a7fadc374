"""The daemon's program without a daemon: it answers one request that needs none, and leaves.

Nothing is locked, written or started, so that it may be asked at any time, also beside a daemon.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import frozen
from jsonrpcserver.request import Request

from coachman import paths
from coachman_adapters import ADAPTERS
from coachman_adapters import guest as guest_package

from .agents import adapters_of
from .config import Config
from .config_file import ConfigFile
from .config_reader import ConfigError, load
from .evidence.state import StateDirectory
from .methods import build_registry
from .rpc.envelope import Refusal, encode_error, encode_result, parse
from .rpc.errors import RpcError, as_rpc_error
from .runs.boundary import Outlook, look
from .runs.facts.clock import boot_id
from .runs.services import Means

# What is read off the host and the configuration. The doctor looks at the latter by itself.
ANSWERED = frozenset({"agent.list", "daemon.doctor", "profile.explain", "profile.list"})
FORGIVES = frozenset({"daemon.doctor"})


@frozen
class Alone:
    """What handlers get in place of a connection's context."""

    services: Means


def answer_alone(env: Mapping[str, str], line: bytes) -> bytes:
    """The line of the wire that answers one, for a program with this environment. Blocks."""
    parsed = parse(line)
    if isinstance(parsed, Refusal):
        return encode_error(parsed.id, parsed.error)
    try:
        return encode_result(parsed.id, trio.run(_answered, env, parsed))
    except Exception as error:
        return encode_error(parsed.id, as_rpc_error(error, parsed.method))


async def _answered(env: Mapping[str, str], request: Request) -> Any:
    if request.method not in ANSWERED:
        raise RpcError("MethodNotFound", f"cannot call {request.method} without a daemon")
    registry = build_registry()
    context = Alone(means_of(env, forgiving=request.method in FORGIVES))
    if registry.find(request.method).inline:
        return registry.call(context, request)
    return await registry.call_async(context, request)


def means_of(env: Mapping[str, str], *, forgiving: bool) -> Means:
    """What a daemon with this environment would have. Raises RpcError.

    ``forgiving``: a configuration that cannot be read is taken for an empty one.
    """
    try:
        config = load(paths.config_path(env), paths.home(env), ADAPTERS)
    except ConfigError as error:
        if not forgiving:
            raise RpcError("AgentFailed", str(error), next=[("coachman", "doctor")]) from error
        config = Config()
    root = os.path.realpath(paths.state_dir(env))
    return Means(
        state=StateDirectory.at(root, config.storage.worktrees, config.storage.sealed),
        config=config,
        config_file=ConfigFile.of(paths.config_path(env)),
        adapters=adapters_of(config),
        outlook=Outlook(env, look(env)),
        environment=env,
        boot=boot_id(),
        python=sys.executable,
        guest=str(Path(guest_package.__file__ or "").parent),
    )
