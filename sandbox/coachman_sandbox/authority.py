"""Whether one policy grants more than another: a pure comparison of what was compiled."""

from .policy import Bind, Caps, Mount, Policy, access, contains

# What stands between an agent and the host, where no walls do.
_OPEN = {"processes": "a boundary of processes alone", "none": "no boundary at all"}
# What may be done at a place, by how much that is.
_ACCESS = ("read-only", "memory", "read-write")


def exceeding(child: Policy, parent: Policy) -> str | None:
    """What ``child`` grants beyond ``parent``, in words; None where it grants no more.

    Names of profiles say nothing: only what is in the policies counts. Where a run's own
    directories lie on the host differs from run to run; what it may do in them does not.
    """
    if (more_network := child.network.beyond(parent.network)) is not None:
        return f"network {more_network}"
    if child.confinement not in (parent.confinement, "walls"):
        return _OPEN[child.confinement]
    if parent.system_calls not in (child.system_calls, "none"):
        return f"system calls {child.system_calls}"
    if cap := _loosened(child.caps, parent.caps):
        return f"caps on {cap}"
    if child.user_namespaces and not parent.user_namespaces:
        return "user namespaces"
    if lent := sorted(child.credentials - parent.credentials):
        return f"credentials {', '.join(lent)}"
    if more_names := sorted(child.admitted - parent.admitted):
        return f"variables {', '.join(more_names)}"
    if child.instructions and not parent.instructions:
        return "instructions of the user's"
    more = (mount for mount in child.mounts if not _is_granted(mount, parent))
    return next((f"{access(mount)} {mount.destination}" for mount in more), None)


def _loosened(child: Caps | None, parent: Caps | None) -> str | None:
    """The cap of the parent that the child does not have, or has further up."""
    if parent is None:
        return None
    if child is None:
        return "everything"
    bounds = ("memory_bytes", "tasks", "disk_bytes")
    return next((name for name in bounds if getattr(child, name) > getattr(parent, name)), None)


def _is_granted(mount: Mount, parent: Policy) -> bool:
    if mount.role == "mask" or not _touches_more_than_memory(mount):
        return True
    return any(_covers(given, mount) for given in parent.mounts)


def _touches_more_than_memory(mount: Mount) -> bool:
    """Files, links and directories of the sandbox's own root show nothing of the host."""
    return isinstance(mount, Bind) or access(mount) == "read-write"


def _covers(given: Mount, wanted: Mount) -> bool:
    if _ACCESS.index(access(wanted)) > _ACCESS.index(access(given)):
        return False
    if wanted.role == "place" and given.role == "place":
        return wanted.destination == given.destination
    if not (isinstance(wanted, Bind) and isinstance(given, Bind)):
        return False
    # The same path of the host, or one below it.
    return given.role != "place" and contains(given.source, wanted.source)
