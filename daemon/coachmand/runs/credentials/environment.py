"""The variables that a run may use: in memory only, by name and source on record."""

from collections.abc import Collection, Mapping

from ..services import Means


def environment_of(
    lent: Mapping[str, str], agent: str, declared: Collection[str], services: Means
) -> tuple[dict[str, str], dict[str, str]]:
    """All values, and where each that the agent ``declared`` came from.

    What the caller ``lent`` goes before what is configured, and that before the daemon's own.
    """
    instance = services.config.agents.get(agent)
    layers = (
        ("daemon", services.environment),
        ("configuration", dict(instance.env) if instance else {}),
        ("request", lent),
    )
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        found.update(layer)
        sources.update({name: source for name in layer if name in declared})
    if instance and instance.home:
        found["HOME"] = instance.home
        # Elsewhere lie the files of those who have no home of their own.
        for name in services.adapters[instance.adapter_of(agent)].spec.locations:
            if name not in instance.env:
                found.pop(name, None)
    else:
        found["HOME"] = services.environment.get("HOME", "/")
    return found, sources
