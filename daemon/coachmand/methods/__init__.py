"""The methods of the wire: one module per noun, each registers its own."""

from ..rpc.registry import Registry
from . import agent, daemon, doctor, event, lease, permission, profile, run, task

NOUNS = (daemon, doctor, agent, profile, run, event, permission, task, lease)


def build_registry() -> Registry:
    """All methods of this version."""
    registry = Registry()
    for noun in NOUNS:
        noun.register(registry)
    return registry
