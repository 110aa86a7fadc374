"""Names that git never stores: each reads as .git on some file system."""

import re

# Code points that HFS+ leaves out when it compares names.
_HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SHORT_NAMES = (b".git", b"git~1")


def is_git_dir_name(name: bytes) -> bool:
    """Whether git refuses a tree with this name because it could become a .git."""
    parts = (part.split(b":", 1)[0].rstrip(b". ").lower() for part in name.split(b"\\"))
    if any(part in _SHORT_NAMES for part in parts):
        return True
    return _HFS_IGNORED.sub("", name.decode("utf-8", "replace")).lower() == ".git"
