"""Settings that an agent needs, under those that its user has."""

import json
from typing import Any

from coachman_adapters.conversation import Seed


def content_of(seed: Seed, own: bytes | None) -> bytes:
    """What to write for ``seed`` where the user's own file has ``own``.

    What is no plain JSON object (one with comments, say) stays as the user has it.
    """
    if not seed.defaults or own is None:
        return seed.content
    try:
        settings = json.loads(own)
    except (ValueError, RecursionError):
        return own
    if not isinstance(settings, dict):
        return own
    return json.dumps(_over(json.loads(seed.content), settings), indent=2).encode()


def _over(defaults: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **settings}
    for name, value in defaults.items():
        if isinstance(value, dict) and isinstance(merged[name], dict):
            merged[name] = _over(value, merged[name])
    return merged
