"""What a keeper is told to start: a run's sandbox, or its agent without one."""

import base64
import os
from typing import Any

from ..services import Services
from .gating import orders
from .prepare import Launch


def launch_record(
    launch: Launch, services: Services, path: os.PathLike[str], deadline_s: float | None
) -> dict[str, Any]:
    """The keeper's launch record of the agent itself."""
    caps = launch.policy.caps
    limits = (
        {}
        if caps is None
        else {
            "memory_limit_bytes": caps.memory_bytes,
            "tasks_limit": caps.tasks,
            "oom_score_adj": caps.oom_score,
        }
    )
    return {
        "version": 1,
        "directory": os.fspath(path),
        **_started_by(launch, services),
        "command": list(launch.command),
        "stdin": "pipe",
        "wall_deadline_boottime_s": deadline_s,
        "boot_id": services.boot,
        "mask": list(launch.mask),
        "gate": orders(launch.policy.network, launch.upstream),
        **limits,
    }


def _started_by(launch: Launch, services: Services) -> dict[str, Any]:
    """The sandbox around the agent, or where it starts without one."""
    policy = launch.policy
    if policy.confinement == "none":
        return {"native": {"cwd": policy.cwd, "env": dict(policy.env)}}
    assert services.boundary.bwrap is not None
    return {
        "bwrap": services.boundary.bwrap.path,
        "args": list(launch.compiled.args),
        "data": [base64.b64encode(item).decode() for item in launch.compiled.data],
    }
