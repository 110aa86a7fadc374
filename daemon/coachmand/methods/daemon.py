"""``daemon.*`` and ``rpc.discover``: the daemon about itself."""

import os
import shutil
import time
from collections import Counter
from typing import Any, Literal

from attrs import field, frozen

from coachman.wire import (
    API_VERSIONS,
    MAX_EVENT_BYTES,
    MAX_REQUEST_LINE_BYTES,
    MAX_REQUESTS_IN_FLIGHT,
    RUN_STATES,
)

from ..rpc import openrpc
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
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


@frozen
class ServerInfo:
    """The daemon's program."""

    name: str
    version: str
    build: str


@frozen
class Hello:
    """What the connection speaks from here on."""

    api: int
    server: ServerInfo
    features: tuple[str, ...]
    limits: dict[str, int]
    instance: str
    uid: int


@frozen
class Nothing:
    """An empty result."""


@frozen
class Capacity:
    """Runs that may be active at once, that are, and that wait for it."""

    max_active: int
    active: int
    queued: int


@frozen
class StorageStatus:
    """``state`` is ok or degraded; degraded, no run is started and ``reason`` says why."""

    state: str
    free_bytes: int
    reason: str | None = None


@frozen
class BoundaryStatus:
    """Whether sandboxes can be built here; where not, why and what to do."""

    ok: bool
    bwrap: dict[str, str] | None
    cause: str | None
    remedy: str | None


@frozen
class Status:
    """The daemon at a glance. Times are milliseconds since 1970."""

    version: str
    build: str
    instance: str
    pid: int
    uptime_s: float
    started_at: int
    socket: str
    state_dir: str
    runs: dict[str, int]
    capacity: Capacity
    storage: StorageStatus
    boundary: BoundaryStatus


@frozen
class ShutdownParams:
    """``detach`` leaves every run to its keeper; ``drain`` waits for them; ``stop`` ends them."""

    mode: Literal["detach", "drain", "stop"] = "detach"


@frozen
class Shutdown:
    """The daemon is leaving. ``going_on`` are the handles of the runs that live on."""

    mode: str
    going_on: tuple[str, ...] = field(factory=tuple)


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "daemon.hello", params=HelloParams, result=Hello, summary="Agree on an API version."
    )
    def hello(context: Context, params: HelloParams) -> Hello:
        spoken = [version for version in params.api if version in API_VERSIONS]
        if not spoken:
            known = ", ".join(map(str, API_VERSIONS))
            raise RpcError("InvalidParams", f"cannot say hello: this daemon speaks API {known}")
        if params.client is not None:
            context.client = {"name": params.client.name, "version": params.client.version}
        daemon = context.daemon
        limits = {
            "request_line_bytes": MAX_REQUEST_LINE_BYTES,
            "requests_in_flight": MAX_REQUESTS_IN_FLIGHT,
            "event_bytes": MAX_EVENT_BYTES,
        }
        server = ServerInfo("coachmand", daemon.version, daemon.build)
        return Hello(max(spoken), server, FEATURES, limits, daemon.instance, os.getuid())

    @registry.method("daemon.ping", result=Nothing, summary="Answer at once.")
    def ping(context: Context, params: Any) -> dict[str, Any]:
        return {}

    @registry.method(
        "daemon.status", result=Status, summary="Version, runs, capacity, storage, boundary."
    )
    def status(context: Context, params: Any) -> Status:
        return _status(context)

    @registry.method(
        "daemon.shutdown",
        params=ShutdownParams,
        result=Shutdown,
        summary="End the daemon: its runs go on, are waited for, or are ended first.",
        action="shut down",
    )
    async def shutdown(context: Context, params: ShutdownParams) -> Shutdown:
        supervisor = context.supervisor
        if params.mode != "detach":
            await supervisor.settle(context.who() if params.mode == "stop" else None)
        going_on = tuple(run.fixed.handle for run in supervisor.runs.values())
        context.daemon.stop(params.mode)
        return Shutdown(params.mode, going_on)

    @registry.method("rpc.discover", summary="The OpenRPC document of this API.")
    def discover(context: Context, params: Any) -> dict[str, Any]:
        return openrpc.document(registry)


def _status(context: Context) -> Status:
    daemon, services = context.daemon, context.services
    counts = Counter(run.view.state for run in context.supervisor.runs.values())
    admission, storage = services.admission, services.storage
    boundary = services.boundary
    bwrap = boundary.bwrap
    shown = None
    if bwrap is not None:
        shown = {"path": bwrap.path, "version": bwrap.version, "source": bwrap.source}
    return Status(
        daemon.version,
        daemon.build,
        daemon.instance,
        os.getpid(),
        round(time.monotonic() - daemon.started_s, 3),
        daemon.started_ms,
        daemon.socket,
        str(services.state.root),
        {state: counts.get(state, 0) for state in RUN_STATES if state != "ended"},
        Capacity(admission.limit, admission.active, admission.queued),
        StorageStatus(
            "ok" if storage.ok else "degraded",
            shutil.disk_usage(services.state.root).free,
            storage.reason,
        ),
        BoundaryStatus(boundary.probe.ok, shown, boundary.probe.cause, boundary.probe.remedy),
    )
