"""Names that git never stores: each reads as .git on some file system."""

import re

# Code points that HFS+ leaves out when it compares names.
_HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SHORT_NAMES = (b".git", b"git~1")
_FIRST_BYTES = (b".", b"g", b"G", b"\xe2", b"\xef")


def is_git_dir_name(name: bytes) -> bool:
    """Whether git refuses a tree with this name because it could become a .git."""
    # Nearly every name ends here: only these can spell it.
    if name[:1] not in _FIRST_BYTES and b"\\" not in name:
        return False
    parts = (part.split(b":", 1)[0].rstrip(b". ").lower() for part in name.split(b"\\"))
    if any(part in _SHORT_NAMES for part in parts):
        return True
    return _HFS_IGNORED.sub("", name.decode("utf-8", "replace")).lower() == ".git"


def is_storable(name: bytes) -> bool:
    """Whether a tree may hold this name: one component that leads nowhere else."""
    return name not in (b"", b".", b"..") and b"/" not in name and not is_git_dir_name(name)
