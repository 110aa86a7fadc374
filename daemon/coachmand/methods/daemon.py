"""``daemon.*`` and ``rpc.discover``: the daemon about itself."""

import os
import shutil
import time
from collections import Counter
from typing import Any, Literal

import trio
from attrs import asdict, field, frozen
from attrs.validators import optional

from coachman import results
from coachman.event_types import EVENT_TYPES
from coachman.records import ProviderLimit
from coachman.wire import API_VERSIONS, MAX_EVENT_BYTES, RUN_STATES

from ..rpc import openrpc
from ..rpc.errors import RpcError
from ..rpc.params import must
from ..rpc.registry import Registry
from ..runs.admission import Admission
from ..runs.boundary import Boundary
from ..runs.intake import permissions as requested_permissions
from ..runs.tidying.findings import Finding
from ..upgrade import BuildError, check_build
from . import daemon_storage
from .context import Context

FEATURES = ("cursors", "permissions", "survives-daemon")


@frozen
class ClientInfo:
    """Who the client says it is: shown to others as the one who answered."""

    name: str
    version: str | None = None


@frozen
class HelloParams:
    """``api`` are the versions that the client speaks."""

    client: ClientInfo | None = None
    api: tuple[int, ...] = API_VERSIONS


# Ending runs is a ladder of seconds; what is not over by then is left to its keeper.
STOP_LIMIT_S = 60.0


@frozen
class ShutdownParams:
    """``detach`` leaves every run to its keeper; ``drain`` waits for them; ``stop`` ends them.

    After ``timeout_s`` the daemon leaves all the same, and the rest goes on in its keepers: 60 s
    where it is to ``stop`` them; a drain lasts as long as the turns' own deadlines let them.
    """

    mode: Literal["detach", "drain", "stop"] = "detach"
    timeout_s: float | None = field(
        default=None, validator=optional(must("a number of seconds, at least 0", lambda s: s >= 0))
    )


def register(registry: Registry) -> None:
    """Add this noun's methods."""
    daemon_storage.register(registry)

    @registry.method(
        "daemon.hello",
        params=HelloParams,
        result=results.DaemonHello,
        summary="Agree on an API version.",
    )
    def hello(context: Context, params: HelloParams) -> results.DaemonHello:
        spoken = [version for version in params.api if version in API_VERSIONS]
        if not spoken:
            known = ", ".join(map(str, API_VERSIONS))
            raise RpcError("InvalidParams", f"cannot say hello: this daemon speaks API {known}")
        if params.client is not None:
            context.client = {"name": params.client.name, "version": params.client.version}
        daemon = context.daemon
        daemon.greeted()
        limits = {
            "request_line_bytes": context.peer.bounds.line_bytes,
            "requests_in_flight": context.peer.bounds.in_flight,
            "event_bytes": MAX_EVENT_BYTES,
        }
        return {
            "api": max(spoken),
            "server": {"name": "coachmand", "version": daemon.version, "build": daemon.build},
            "features": list(FEATURES),
            "limits": limits,
            "instance": daemon.instance,
            "uid": os.getuid(),
        }

    @registry.method("daemon.ping", result=results.Nothing, summary="Answer at once.")
    def ping(context: Context, params: Any) -> results.Nothing:
        return {}

    @registry.method(
        "daemon.status",
        result=results.DaemonStatus,
        summary="Version, runs, capacity, storage, boundary.",
    )
    async def status(context: Context, params: Any) -> results.DaemonStatus:
        services = context.services
        found = await requested_permissions.findings(services)
        return _status(context, await services.outlook.now(), found)

    @registry.method(
        "daemon.shutdown",
        params=ShutdownParams,
        result=results.DaemonLeaving,
        summary="End the daemon: its runs go on, are waited for, or are ended first.",
        action="shut down",
        waits=True,
    )
    async def shutdown(context: Context, params: ShutdownParams) -> results.DaemonLeaving:
        going_on, in_time = await _settled(context, params)
        context.daemon.stop(params.mode, context.who())
        return {"mode": params.mode, "going_on": going_on, "in_time": in_time}

    @registry.method(
        "daemon.restart",
        params=ShutdownParams,
        result=results.DaemonRestarting,
        summary="Come back as the build on disk, in place: connections wait, none is refused.",
        errors=("Conflict",),
    )
    async def restart(context: Context, params: ShutdownParams) -> results.DaemonRestarting:
        try:
            await check_build(context.services.environment)
        except BuildError as error:
            raise RpcError(
                "Conflict",
                f"cannot restart: the build on disk cannot start: {error}",
                hint="the daemon that runs was left alone",
            ) from error
        going_on, _ = await _settled(context, params)
        context.daemon.restart()
        instance = context.daemon.instance
        return {"mode": params.mode, "going_on": going_on, "instance": instance}

    @registry.method(
        "rpc.discover", result=dict[str, Any], summary="The OpenRPC document of this API."
    )
    def discover(context: Context, params: Any) -> dict[str, Any]:
        return openrpc.document(registry, EVENT_TYPES)


async def _settled(context: Context, wanted: ShutdownParams) -> tuple[list[str], bool]:
    """The handles of the runs that go on, and whether there are as few as the mode wants."""
    supervisor, mode, in_time = context.supervisor, wanted.mode, True
    limit_s = STOP_LIMIT_S if mode == "stop" and wanted.timeout_s is None else wanted.timeout_s
    if mode != "detach":
        in_time = await supervisor.settle(context.who() if mode == "stop" else None, limit_s)
    return [run.fixed.handle for run in supervisor.runs.values()], in_time


def _limit(admission: Admission, account: str, until_ms: int) -> ProviderLimit:
    agent, _, provider = account.partition("/")
    waiting = admission.waiting(account)
    return {"agent": agent, "provider": provider, "until": until_ms, "queued": waiting}


def _status(context: Context, boundary: Boundary, handlers: list[Finding]) -> results.DaemonStatus:
    daemon, services = context.daemon, context.services
    counts = Counter(run.view.state for run in context.supervisor.runs.values())
    admission, storage = services.admission, services.storage
    found = [
        *services.survivors.findings(),
        *services.feeds.findings(),
        *services.notices.findings(),
        *handlers,
        *context.supervisor.retention.findings,
    ]
    findings: list[Any] = [asdict(finding) for finding in found]
    bwrap = boundary.bwrap
    shown = None
    if bwrap is not None:
        shown = {"path": bwrap.path, "version": bwrap.version, "source": bwrap.source}
    return {
        "version": daemon.version,
        "build": daemon.build,
        "instance": daemon.instance,
        "pid": os.getpid(),
        "uptime_s": round(time.monotonic() - daemon.started_s, 3),
        "started_at": daemon.started_ms,
        "before": daemon.before,
        "socket": daemon.socket,
        "state_dir": str(services.state.root),
        "runs": {state: counts.get(state, 0) for state in RUN_STATES if state != "ended"},
        "loop_tasks": trio.lowlevel.current_statistics().tasks_living,
        "capacity": {
            "max_active": admission.limit,
            "active": admission.active,
            "queued": admission.queued,
        },
        "limits": [_limit(admission, *each) for each in sorted(admission.held().items())],
        "storage": {
            "state": storage.state,
            "free_bytes": shutil.disk_usage(services.state.root).free,
            "reason": storage.reason,
            "floor_bytes": services.config.retention.free_space_floor,
        },
        "findings": findings,
        "waiting": sum(
            len(run.view.pending) + len(run.view.questions)
            for run in context.supervisor.runs.values()
        ),
        "boundary": {
            "ok": boundary.probe.ok,
            "bwrap": shown,
            "cause": boundary.probe.cause,
            "remedy": boundary.probe.remedy,
            "needs": {
                need: {"ok": found.ok, "cause": found.cause, "remedy": found.remedy}
                for need, found in boundary.probes.items()
            },
        },
    }
