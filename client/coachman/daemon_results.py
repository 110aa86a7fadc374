"""The shapes of what the daemon tells of itself. Members are only ever added."""

from typing import Any, Literal, NotRequired, TypedDict

from .records import BoundaryStatus, Capacity, Finding, ProviderLimit, ServerInfo, StorageStatus


class LastEnd(TypedDict):
    """How a daemon ended: stopped, signal, restarting, refused, fault, crashed, killed, reboot.

    ``at`` is when, as far as that is known; ``orderly``: somebody wanted it; ``message`` is all
    of it in words. ``by`` stopped it, ``signal`` ended it; ``why`` is an error's text;
    ``oom_kills`` counts what the kernel killed for want of memory since its last sign of life.
    """

    how: str
    pid: int
    at: int | None
    orderly: bool
    message: str
    mode: NotRequired[str]
    by: NotRequired[dict[str, Any]]
    signal: NotRequired[str]
    why: NotRequired[str]
    oom_kills: NotRequired[int]


class DaemonStatus(TypedDict):
    """The daemon at a glance: its load, and whether it may start runs.

    ``loop_tasks`` counts what is under way in its event loop: connections, requests,
    subscriptions, runs and their helpers. When all of these are over it is as small as before.
    ``before`` is how the daemon before it ended, where there was one. ``waiting`` counts the
    questions that wait for an answer.
    """

    version: str
    build: str
    instance: str
    pid: int
    uptime_s: float
    started_at: int
    before: NotRequired[LastEnd | None]
    socket: str
    state_dir: str
    runs: dict[str, int]
    loop_tasks: int
    capacity: Capacity
    limits: NotRequired[list[ProviderLimit]]
    storage: StorageStatus
    boundary: BoundaryStatus
    findings: list[Finding]
    waiting: NotRequired[int]


class Diagnosis(TypedDict):
    """One fact that was looked at: ``name`` of ``area``, and what was ``found``.

    ``warning``: runs start all the same. Where it is not ok, ``cause`` and ``remedy`` are in
    words, and ``next`` are commands that run verbatim. ``exit`` is the exit code of a failed one.
    """

    area: str
    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    cause: str | None
    remedy: str | None
    next: list[list[str]]
    exit: int | None
    detail: dict[str, Any]


class Examination(TypedDict):
    """What keeps runs from working: ``ok`` where none of it failed.

    ``version`` and ``build`` are those of the program that looked.
    """

    ok: bool
    version: str
    build: str
    diagnoses: list[Diagnosis]


class DaemonLeaving(TypedDict):
    """``going_on`` lists the handles of the runs that outlive the daemon.

    ``in_time`` says that it could wait for as much as its mode wants.
    """

    mode: str
    going_on: list[str]
    in_time: bool


class DaemonRestarting(TypedDict):
    """The daemon is about to come back in place; until it does, its ``instance`` is this one."""

    mode: str
    going_on: list[str]
    instance: str


class DaemonHello(TypedDict):
    """Who answers, what the connection speaks from here on, and the limits it keeps."""

    api: int
    server: ServerInfo
    features: list[str]
    limits: dict[str, int]
    instance: str
    uid: int
