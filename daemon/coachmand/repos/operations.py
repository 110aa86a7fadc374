"""The operations a worker offers: a function, what it may touch, how long it may take."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from coachmand.repos import (
    artifacts,
    copies,
    deletion,
    discovery,
    entries,
    inputs,
    inspection,
    instructions,
    landlock,
    packing,
    patches,
    reading,
    salvage,
    snapshots,
    trimming,
    viewing,
    worktrees,
)

Params = Mapping[str, Any]
Grant = tuple[str, int]

_QUICK_S, _LONG_S = 60.0, 900.0


@frozen
class Operation:
    """``run`` gets the request's parameters by name, in a child confined to ``grants``.

    With ``scratch`` it also gets an empty directory of that name, deleted afterwards.
    """

    run: Callable[..., Any]
    grants: Callable[[Params], list[Grant]]
    limit_s: float = _QUICK_S
    scratch: bool = False


def _repository(params: Params) -> list[Grant]:
    common = params["common"]
    return [(path, landlock.READ) for path in (common, *discovery.object_directories(common))]


def _checkout(params: Params) -> list[Grant]:
    return [
        *_repository(params),
        (params["git_dir"], landlock.READ),
        (params["toplevel"], landlock.READ),
    ]


def _new_entry(params: Params) -> list[Grant]:
    parent = os.path.dirname(params["tree_path"])
    return [(params["common"], landlock.WRITE), (parent, landlock.WRITE)]


def _new_tree(params: Params) -> list[Grant]:
    return [
        *_repository(params),
        (params["admin_dir"], landlock.WRITE),
        (params["tree_path"], landlock.WRITE),
    ]


def _old_entry(params: Params) -> list[Grant]:
    return [(params["common"], landlock.WRITE)]


def _stored_tree(params: Params) -> list[Grant]:
    return [
        *_storing(params),
        (params["admin_dir"], landlock.WRITE),
        (params["tree_path"], landlock.READ),
    ]


def _salvaged_tree(params: Params) -> list[Grant]:
    tree = params["tree_path"]
    is_there = os.path.isdir(tree) and not os.path.islink(tree)
    return [*_storing(params), *([(tree, landlock.READ)] if is_there else [])]


def _storing(params: Params) -> list[Grant]:
    common = params["common"]
    own_refs = f"{common}/refs/coachman"
    os.makedirs(own_refs, exist_ok=True)
    written = [f"{common}/objects", own_refs, params["scratch"]]
    # Only there, and only used, where the repository keeps a log of every ref.
    written += [logs for logs in (f"{common}/logs",) if os.path.isdir(logs)]
    return [*_repository(params), *((path, landlock.WRITE) for path in written)]


def _copied(params: Params) -> list[Grant]:
    # What is missing, or a link by now, is refused by the copying itself.
    paths = [each["path"].rstrip("/") or "/" for each in params["sources"]]
    there = [path for path in paths if os.path.exists(path) and not os.path.islink(path)]
    return [(params["target"], landlock.WRITE), *((path, landlock.READ) for path in there)]


def _copied_beside(params: Params) -> list[Grant]:
    return [(params["top"], landlock.READ), (params["tree"], landlock.WRITE)]


def _moved(params: Params) -> list[Grant]:
    # The same to both: what is moved may not come to where more is granted.
    paths = [path for path in (params["source"], params["target"]) if os.path.isdir(path)]
    return [(path, landlock.WRITE) for path in paths]


def _new_view(params: Params) -> list[Grant]:
    written = (params["views_dir"], params["scratch"])
    return [*_repository(params), *packing.grants(params["git"], (), *written)]


def _shown_repository(params: Params) -> list[Grant]:
    written = (params["views_dir"], params["target"])
    return [*_repository(params), *((path, landlock.WRITE) for path in written)]


def _read_directory(params: Params) -> list[Grant]:
    return [(params["directory"], landlock.READ)]


def _perhaps(rights: int) -> Callable[[Params], list[Grant]]:
    """Those rights to a directory that need not be there."""

    def grants(params: Params) -> list[Grant]:
        directory = params["directory"]
        is_there = os.path.isdir(directory) and not os.path.islink(directory)
        return [(directory, rights)] if is_there else []

    return grants


def _deleted_directory(params: Params) -> list[Grant]:
    directory = params["directory"]
    if not os.path.isdir(directory) or os.path.islink(directory):
        return []
    # The directory itself goes last, when it is empty: no more is granted above it.
    return [(directory, landlock.REMOVE), (os.path.dirname(directory), landlock.REMOVE_DIR)]


OPERATIONS: Mapping[str, Operation] = {
    "inspect": Operation(inspection.inspect, _checkout),
    "resolve": Operation(inspection.resolve, _repository),
    "is_reachable": Operation(inspection.is_reachable, _repository),
    "create_entry": Operation(worktrees.create_entry, _new_entry),
    "check_out": Operation(worktrees.check_out, _new_tree, _LONG_S),
    "find_entry": Operation(entries.find, _repository),
    "remove_entry": Operation(worktrees.remove_entry, _old_entry),
    "snapshot": Operation(snapshots.snapshot, _stored_tree, _LONG_S, scratch=True),
    "salvage": Operation(salvage.salvage, _salvaged_tree, _LONG_S, scratch=True),
    "make_view": Operation(viewing.make_view, _new_view, _LONG_S, scratch=True),
    "show": Operation(viewing.show, _shown_repository),
    "tidy_views": Operation(viewing.tidy_views, _deleted_directory, _LONG_S),
    "measure": Operation(trimming.measure, _perhaps(landlock.READ), _LONG_S),
    "trim": Operation(trimming.trim, _perhaps(landlock.REMOVE), _LONG_S),
    "patch": Operation(patches.patch, _repository, _LONG_S),
    "changes": Operation(patches.changes, _repository),
    "hash_instructions": Operation(instructions.hash_instructions, _read_directory),
    "hash_tree": Operation(artifacts.hash_tree, _read_directory, _LONG_S),
    "copy_files": Operation(copies.copy_files, _copied_beside, _LONG_S),
    "copy_inputs": Operation(inputs.copy_inputs, _copied, _LONG_S),
    "read": Operation(reading.read, _read_directory),
    "archive": Operation(artifacts.archive, _moved, _LONG_S),
    "delete_tree": Operation(deletion.delete_tree, _deleted_directory, _LONG_S),
}
