"""Whether an agent's APIs are reached from inside: through the gate, in a real sandbox."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from coachman.diagnosis import failed, ok, warning
from coachman.results import Diagnosis
from coachman_sandbox.network import Network, parse

from ..runs.preparing.program import Program
from ..runs.services import Means
from .rehearsal import rehearse

if TYPE_CHECKING:
    from .agents import Patient

NAME = "reaches"


@frozen
class Destinations:
    """Where an agent goes: its ``own`` hosts, of which its user named those ``told``."""

    network: Network
    own: tuple[str, ...]
    told: tuple[str, ...]


async def reached(
    means: Means, patient: "Patient", program: Program, destinations: Destinations
) -> Diagnosis:
    """Try each destination that can be tried.

    Those that the user named have to be there; without any, one of the agent's usual ones.
    """
    network = destinations.network
    if network.kind == "none":
        return ok(patient.area, NAME, "nothing, as is configured: network none")
    if network.kind == "gate" and not patient.adapter.spec.honours_proxies:
        text = "it goes around every proxy, so that it would reach nothing through the gate"
        return _bad(patient, text, "configure network host or none for it", {})
    places, told = _places(destinations.own), _places(destinations.told)
    if not places:
        text = "it declares no hosts, and no login or base URL says where its API is"
        return warning(patient.area, NAME, text, "log in, or set its base URL or `hosts`")
    if means.boundary.bwrap is None:
        return warning(patient.area, NAME, "not tried: there is no bubblewrap", "see above")
    tried = await rehearse(means, patient.environment, network, program.access, places)
    if tried.why is not None and not tried.lines:
        return _bad(patient, f"no sandbox could be tried: {tried.why}", "see the boundary", {})
    return judged(patient, places, {line["place"]: line for line in tried.lines}, told)


def _places(destinations: tuple[str, ...]) -> tuple[str, ...]:
    """What can be tried: no suffixes, and each by its name."""
    names = (f"{each.host}:{each.port}" for each in map(parse, destinations))
    return tuple(sorted({name for name in names if not name.startswith("*.")}))


def judged(
    patient: "Patient",
    places: tuple[str, ...],
    tried: Mapping[str, Mapping[str, Any]],
    told: tuple[str, ...],
) -> Diagnosis:
    """What it means that some were reached and others not; pure."""
    missed = {place: _why(tried.get(place)) for place in places if not _is_ok(tried.get(place))}
    there = [place for place in places if place not in missed]
    about: dict[str, Any] = {"reached": there, "not_reached": missed}
    needed = [place for place in told if place in missed]
    if not missed:
        return ok(patient.area, NAME, f"from inside: {', '.join(there)}", about)
    text = "; ".join(f"{place} ({why})" for place, why in missed.items())
    stages = {str((tried.get(place) or {}).get("stage")) for place in missed}
    remedy = remedies(stages, " ".join(missed.values()), next(iter(missed)))
    if needed or not there:
        return _bad(patient, f"not reached from inside: {text}", remedy, about)
    if told:
        # Where the user named another place, the usual ones are not asked.
        found = f"from inside: {', '.join(there)} (not reached, nor needed: {', '.join(missed)})"
        return ok(patient.area, NAME, found, about)
    text = f"some hosts are not reached from inside: {text}"
    return warning(patient.area, NAME, text, remedy, about)


def _is_ok(line: Mapping[str, Any] | None) -> bool:
    return line is not None and line["ok"] is True


def _why(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return "no answer in time"
    # As the gate puts it for an agent, of which the reason is said already.
    return str(line["why"]).removeprefix("coachman's gate: ").removesuffix(" (unreachable)")


def remedies(stages: set[str], whys: str, place: str) -> str:
    """What helps against these, of which ``place`` is one; pure."""
    if "not allowed to this run" in whys:
        return "add `agent`, or these hosts, to the configured `network`"
    if "tls" in stages and "not trusted" in whys:
        return (
            "name the certificate authority of your network in SSL_CERT_FILE or"
            " NODE_EXTRA_CA_CERTS, in the shell that starts runs: it crosses"
        )
    return (
        "behind a proxy set HTTPS_PROXY (http:// only) in the shell that starts runs; for another"
        " endpoint set the agent's base URL, or `hosts` of [agents.NAME]; and look at name servers"
        f" and firewall: curl -v https://{place}"
    )


def _bad(patient: "Patient", text: str, remedy: str, about: Mapping[str, Any]) -> Diagnosis:
    if patient.wanted:
        return failed(patient.area, NAME, text, remedy, about)
    return warning(patient.area, NAME, text, remedy, about)
