"""What a file says that cannot be what was written: told by name, never guessed around."""

from pathlib import Path

from ..rpc.errors import RpcError


class DamagedError(RpcError, ValueError):
    """A durable file cannot be read; a client is told which one and why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            "Degraded",
            f"cannot read {path.parent.name}/{path.name}: {why}",
            hint="nothing was changed: the file may be put back from a copy",
            detail={"path": str(path)},
        )
