"""What of the user's own files an agent has in its private home, as far as its profile goes."""

import os
from collections.abc import Mapping
from pathlib import Path

from coachman_adapters.conversation import Adapter, LaunchPlan, UserFiles
from coachman_adapters.logins import all_lent
from coachman_adapters.secret_values import secrets_in
from coachman_adapters.seeds import content_of, members_of

from ...evidence.seeds import copy_files, read_file, write_seed
from ..facts.record import Record
from ..intake.adopted import source_of

Environment = Mapping[str, str]


def copy(record: Record, adapter: Adapter, environment: Environment, home: Path) -> None:
    """Copy them as they are now. Blocks. Raises OSError.

    Of a login whose tokens rotate what could renew it stays behind.
    """
    for files in adapter.spec.user_files:
        source = source_of(files, environment)
        logins = dict.fromkeys(login.path for login in files.logins)
        whole = [name for name in _lent(files, record) if name not in logins]
        copy_files(source, whole, home, files.directory)
        for name in logins:
            if (content := read_file(os.path.join(source, name))) is not None:
                given = all_lent(files.logins, name, content)
                write_seed(home, os.path.join(files.directory, name), given)
        if not _inherits(record):
            for path in files.endpoints:
                if (content := _endpoint(files, path, environment)) is not None:
                    write_seed(home, os.path.join(files.directory, path), content)


def secrets_of(record: Record, adapter: Adapter, environment: Environment) -> tuple[str, ...]:
    """The values in them that nobody is to read, as they are now. Blocks. Raises OSError."""
    secret: list[str] = []
    for files in adapter.spec.user_files:
        source = source_of(files, environment)
        for name in (*_lent(files, record), *files.endpoints):
            secret += _secrets(os.path.join(source, name), name in files.credentials)
    return tuple(dict.fromkeys(secret))


def _secrets(path: str, is_credential: bool) -> tuple[str, ...]:
    content = read_file(path) if os.path.isfile(path) else None
    return secrets_in(content or b"", path, is_credential=is_credential)


def seed(
    plan: LaunchPlan, record: Record, adapter: Adapter, environment: Environment, home: Path
) -> None:
    """Write what coachman itself gives the agent, under what the user has. Blocks."""
    for each in plan.seeds:
        own = _users_own(each.path, record, adapter, environment) if each.defaults else None
        write_seed(home, each.path, content_of(each, own), each.mode)


def _inherits(record: Record) -> bool:
    return record.walls.inherits


def _lent(files: UserFiles, record: Record) -> tuple[str, ...]:
    """Those that the run's profile gives to the agent whole."""
    return (files.settings if _inherits(record) else ()) + files.credentials


def _endpoint(files: UserFiles, path: str, environment: Environment) -> bytes | None:
    """What of a file says where the model is that a credential is for."""
    content = read_file(os.path.join(source_of(files, environment), path))
    return None if content is None else members_of(content, path, files.endpoints[path])


def _users_own(
    path: str, record: Record, adapter: Adapter, environment: Environment
) -> bytes | None:
    """The user's own file that the agent has at ``path`` of its home; None where it has none."""
    for files in adapter.spec.user_files:
        relative = os.path.relpath(path, files.directory)
        if relative in _lent(files, record):
            return read_file(os.path.join(source_of(files, environment), relative))
        if relative in files.endpoints:
            return _endpoint(files, relative, environment)
    return None
