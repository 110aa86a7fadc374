"""Room on the disk: below the floor no run starts."""

import shutil

from ...rpc.errors import RpcError
from ..services import Services

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def check_room(services: Services) -> None:
    """Raise RpcError Degraded where state or worktrees have less room than configured."""
    floor = services.config.retention.free_space_floor
    for path in (services.state.root, services.state.worktrees):
        free = shutil.disk_usage(path).free
        if free < floor:
            raise RpcError(
                "Degraded",
                f"cannot start: {shown(free)} are free at {path}, and runs start from"
                f" {shown(floor)} on",
                hint="see what can go: coachman cleanup; or lower retention.free_space_floor",
                detail={"free_bytes": free, "floor_bytes": floor, "path": str(path)},
                next=[["coachman", "cleanup"]],
            )


def shown(size: int) -> str:
    """Bytes in the largest unit that they fill."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} B"
