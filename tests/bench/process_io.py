"""What a process and those below it have read and written, as the kernel counts it."""

from pathlib import Path

from attrs import frozen


@frozen
class Counted:
    """Bytes that read and write calls moved; None where the kernel does not tell us.

    A daemon closes itself to its user, so that only root is told.
    """

    read: int | None
    written: int | None

    def __sub__(self, other: "Counted") -> "Counted":
        if self.read is None or other.read is None:
            return Counted(None, None)
        assert self.written is not None
        assert other.written is not None
        return Counted(self.read - other.read, self.written - other.written)


def counted(pid: int) -> Counted:
    """Of ``pid`` and all that live below it; those that it has waited for count as its own."""
    try:
        found = [_members(each) for each in _family(pid)]
    except PermissionError:
        return Counted(None, None)
    return Counted(sum(m["rchar"] for m in found), sum(m["wchar"] for m in found))


def _family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _members(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
