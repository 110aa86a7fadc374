"""A session that the user began by hand: found in the user's own home, copied into the run's.

Exactly that one session's files are copied, and the user's are left as they are: what the run adds
is in its copy alone.
"""

import errno
import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

from coachman_adapters.conversation import AgentSpec, SessionFiles, UserFiles
from coachman_sandbox.profiles import PROFILES

from ..evidence.seeds import MAX_BYTES, exists_below, read_file, write_seed
from ..rpc.errors import RpcError
from .request import StartRequest, usage

# An id becomes a part of paths and of command lines.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,127}")


def source_of(files: UserFiles, environment: Mapping[str, str]) -> str:
    """Where the user has an agent's files."""
    own = environment.get("HOME", "/nonexistent")
    return environment.get(files.variable or "") or os.path.join(own, files.directory)


def find_session(
    request: StartRequest, agent: str, spec: AgentSpec, profile: str, environment: Mapping[str, str]
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
    if not PROFILES[profile].inherits:
        raise _refused("a sealed run inherits nothing", "use another profile", "profile")
    if not _ID.fullmatch(request.session):
        raise _refused(f"{request.session!r} is no session's id", "name it whole", "no_session")
    found = _found(spec.sessions, request.session, environment)
    if len(found) != 1:
        where = source_of(spec.sessions.below, environment)
        many = f"{len(found)} files claim to be" if found else "there is no"
        raise _refused(
            f"{many} session {request.session} of {agent} below {where}",
            "name it whole, as the agent itself tells it",
            "no_session",
        )


def copy_session(
    session: str, files: SessionFiles, environment: Mapping[str, str], cwd: str, home: Path
) -> None:
    """Put the session's file where the agent looks for it, unless a run had it before. Blocks."""
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
    raise FileNotFoundError(errno.ENOENT, f"session {session} is not there any more", session)


def _found(files: SessionFiles, session: str, environment: Mapping[str, str]) -> list[str]:
    """The files of the user that are the session, as a rule one."""
    top = source_of(files.below, environment)
    name = glob.escape(session)
    patterns = [pattern.replace("{session}", name) for pattern in files.patterns]
    paths = [path for pattern in patterns for path in glob.glob(pattern, root_dir=top)]
    return [path for path in (os.path.join(top, name) for name in paths) if os.path.isfile(path)]


def _refused(why: str, hint: str, reason: str) -> RpcError:
    return usage(why, hint, reason=reason)
