"""A session that the user began by hand: found in the user's own home, copied into the run's.

Exactly that one session is copied, its file or its rows of a database, and the user's are left as
they are: what the run adds is in its copy alone.
"""

import errno
import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

from coachman_adapters.conversation import AgentSpec, SessionFiles, SessionStore, UserFiles
from coachman_sandbox.profiles import Profile

from ...evidence.seeds import MAX_BYTES, exists_below, read_file, write_seed
from ...evidence.stores import StoreError, read_rows
from ...rpc.errors import RpcError
from .request import StartRequest, usage

# So much of a file tells whose it is.
HEAD_BYTES = 64 * 1024
# An id becomes a part of paths and of command lines.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,127}")


def source_of(files: UserFiles, environment: Mapping[str, str]) -> str:
    """Where the user has an agent's files."""
    own = environment.get("HOME", "/nonexistent")
    return environment.get(files.variable or "") or os.path.join(own, files.directory)


def find_session(
    request: StartRequest,
    agent: str,
    spec: AgentSpec,
    walls: Profile,
    environment: Mapping[str, str],
) -> None:
    """See that the session can be taken up. Blocks. Raises RpcError with the reason."""
    if request.session is None:
        return
    if spec.sessions is None:
        raise _refused(
            f"agent {agent} has no sessions that can be taken out of your home",
            "coachman resume goes on in the session of a run",
            "agent",
        )
    if not walls.inherits:
        raise _refused(
            f"a run of profile {walls.name} inherits nothing", "use another profile", "profile"
        )
    if not _ID.fullmatch(request.session):
        raise _refused(f"{request.session!r} is no session's id", "name it whole", "no_session")
    where = source_of(spec.sessions.below, environment)
    try:
        count = _count(spec.sessions, request.session, environment)
    except (StoreError, OSError) as error:
        raise _refused(
            f"the sessions of {agent} below {where} cannot be read: {error}",
            "another version of the agent may keep them otherwise; begin a new session",
            "store",
        ) from error
    if count != 1:
        many = f"{count} files claim to be" if count else "there is no"
        raise _refused(
            f"{many} session {request.session} of {agent} below {where}",
            "name it whole, as the agent itself tells it",
            "no_session",
        )


def _count(kept: SessionFiles | SessionStore, session: str, environment: Mapping[str, str]) -> int:
    if isinstance(kept, SessionFiles):
        return len(_found(kept, session, environment))
    return int(_document(kept, session, environment) is not None)


def copy_session(
    session: str,
    kept: SessionFiles | SessionStore,
    environment: Mapping[str, str],
    cwd: str,
    home: Path,
) -> None:
    """Put the session where the agent looks for it, unless a run had it before. Blocks."""
    if isinstance(kept, SessionFiles):
        _copy_file(session, kept, environment, cwd, home)
        return
    target = os.path.join(kept.below.directory, kept.place.replace("{session}", session))
    if not exists_below(home, target):
        try:
            document = _document(kept, session, environment)
        except StoreError as error:
            raise OSError(errno.EIO, f"session {session} cannot be read: {error}") from error
        if document is None:
            raise _gone(session)
        write_seed(home, target, document)


def _document(store: SessionStore, session: str, environment: Mapping[str, str]) -> bytes | None:
    """The session as the agent takes it in; None where there is none. Raises StoreError."""
    path = os.path.join(source_of(store.below, environment), store.database)
    rows = read_rows(path, store.queries, session)
    if not rows["session"]:
        return None
    try:
        return store.document(rows)
    except (KeyError, ValueError) as error:
        raise StoreError(f"it is of a form that is not known: {error!r}") from error


def _gone(session: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, f"session {session} is not there any more", session)


def _copy_file(
    session: str, files: SessionFiles, environment: Mapping[str, str], cwd: str, home: Path
) -> None:
    for path in _found(files, session, environment):
        relative = os.path.relpath(path, source_of(files.below, environment))
        target = os.path.join(files.below.directory, files.place(relative, cwd))
        if exists_below(home, target):
            return
        content = read_file(path)
        if content is None or len(content) > MAX_BYTES:
            raise OSError(errno.EFBIG, "the session is too large to copy, or no file", path)
        write_seed(home, target, files.rewrite(content, cwd))
        return
    raise _gone(session)


def _found(files: SessionFiles, session: str, environment: Mapping[str, str]) -> list[str]:
    """The files of the user that are the session, as a rule one."""
    top = source_of(files.below, environment)
    name = glob.escape(files.in_name(session))
    patterns = [pattern.replace("{session}", name) for pattern in files.patterns]
    paths = [path for pattern in patterns for path in glob.glob(pattern, root_dir=top)]
    return [
        path for path in (os.path.join(top, name) for name in paths) if _is_of(path, files, session)
    ]


def _is_of(path: str, files: SessionFiles, session: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return files.holds(file.read(HEAD_BYTES), session)


def _refused(why: str, hint: str, reason: str) -> RpcError:
    return usage(why, hint, reason=reason)
