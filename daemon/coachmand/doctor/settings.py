"""The configuration as it is on disk now, and the programs of this machine that coachman runs."""

import os

import trio

from coachman import paths
from coachman.diagnosis import failed, ok, warning
from coachman.results import Diagnosis
from coachman_adapters import ADAPTERS
from coachman_sandbox.causes import install
from coachman_sandbox.executables import ExecutableError
from coachman_sandbox.finder import CLEAN_ENV

from ..config_reader import ConfigError, load
from ..runs.preparing.shown import find_git
from ..runs.services import Means

GIT_LIMIT_S = 10.0


async def examined(means: Means) -> list[Diagnosis]:
    """Read the one anew, and ask the other for its version."""
    return [await trio.to_thread.run_sync(_configuration, means), await _git(means)]


def _configuration(means: Means) -> Diagnosis:
    env = means.environment
    path = paths.config_path(env)
    try:
        load(path, paths.home(env), ADAPTERS)
    except ConfigError as error:
        return failed("configuration", "valid", str(error), f"mend {path}", {"path": path})
    if means.config_file.has_changed():
        text = f"{path} was changed since the daemon started"
        steps = [("coachman", "daemon", "restart")]
        return warning("configuration", "current", text, "let it read that", next=steps)
    found = path if os.path.exists(path) else f"none at {path}, so that all is as by default"
    return ok("configuration", "valid", found, {"path": path})


async def _git(means: Means) -> Diagnosis:
    try:
        path = await trio.to_thread.run_sync(find_git, means)
    except ExecutableError as error:
        text = install("git", means.boundary.machine)
        return failed("git", "git", f"what runs see of a repository needs it: {error}", text)
    version = await _version(path)
    if version is None:
        return failed("git", "git", f"{path} does not tell its version", "install git again")
    return ok("git", "git", f"{version}, {path}", {"path": path})


async def _version(path: str) -> str | None:
    with trio.move_on_after(GIT_LIMIT_S):
        try:
            done = await trio.run_process(
                [path, "--version"], capture_stdout=True, check=False, env=CLEAN_ENV, cwd="/"
            )
        except OSError:
            return None
        said = done.stdout.decode(errors="replace").strip()
        return said if done.returncode == 0 and said.startswith("git version") else None
    return None
