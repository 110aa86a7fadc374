"""Whether the configuration on disk is still the one that this daemon read when it started."""

import os

from attrs import frozen


@frozen
class ConfigFile:
    """A configuration file that need not exist, as it was at one moment."""

    path: str
    identity: tuple[int, int, int] | None

    @classmethod
    def of(cls, path: str) -> "ConfigFile":
        """The file as it is now."""
        return cls(path, _identity(path))

    def has_changed(self) -> bool:
        """Whether somebody wrote, made or removed it since."""
        return _identity(self.path) != self.identity


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
