"""``daemon.doctor``: what would keep runs from working, as the daemon sees it."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from coachman import results

from ..build import build_digest, installed_version
from ..doctor.examine import examine
from ..rpc.registry import Registry


@frozen
class DoctorParams:
    """One agent, or all; ``env`` is what a run would be lent of its caller's environment."""

    agent: str | None = None
    env: Mapping[str, str] = field(factory=dict, repr=lambda env: repr(sorted(env)))


def register(registry: Registry) -> None:
    """Add this method. Its context need not be a connection's: a program asks it as well."""

    @registry.method(
        "daemon.doctor",
        params=DoctorParams,
        result=results.Examination,
        summary="Look at this machine, the configuration and the agents: causes and remedies.",
        errors=("NotFound",),
        action="examine",
        waits=True,
    )
    async def doctor(context: Any, params: DoctorParams) -> results.Examination:
        diagnoses = await examine(context.services, params.agent, params.env)
        return {
            "ok": not any(each["status"] == "failed" for each in diagnoses),
            "version": installed_version(),
            "build": build_digest(),
            "diagnoses": diagnoses,
        }
