"""One daemon's life: lock the state, find the runs again, listen, and let go of it all."""

import argparse
import ctypes
import json
import os
import resource
import secrets
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
import trio

from coachman import paths
from coachman.wire import (
    EXIT_BOUNDARY,
    EXIT_CONFIG,
    EXIT_INTERNAL,
    EXIT_OK,
    EXIT_STATE,
    EXIT_STORAGE,
)
from coachman_adapters import ADAPTERS
from coachman_adapters import guest as guest_package
from coachman_sandbox.environment import scrub

from . import durable, handover, logs, memory, report
from .agents import adapters_of
from .alone import answer_alone
from .build import build_digest, installed_version
from .config import Config
from .config_file import ConfigFile
from .config_reader import ConfigError, load
from .evidence.state import StateDirectory
from .indexing import open_index, order_of, reindex
from .lifetime import Lifetime, refused
from .methods import build_registry
from .methods.context import Context, Daemon
from .methods.delegates import Delegates
from .ownership import Fence, FencedError, Lock, LockHeldError, stand_behind
from .repos.pool import GitWorkers
from .rpc.listener import Listener, ListenError
from .runs.admission import Admission, default_active
from .runs.boundary import Outlook, look
from .runs.facts.clock import boot_id, epoch_ms
from .runs.keepers.scopes import Scopes
from .runs.services import Services
from .runs.storage import Storage
from .runs.supervisor import Supervisor
from .service import HandedError, Service, listening_socket
from .upgrade import Leaving, Left, Upgrades, reexecute

PR_SET_DUMPABLE = 4
DESCRIPTORS = 16384
# Whatever else would end it unseen and can be seen.
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

log = structlog.get_logger("daemon")


class StartError(Exception):
    """The daemon cannot start. ``exit_code`` is one of ``coachman.wire``."""

    def __init__(self, name: str, message: str, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.exit_code = exit_code
        self.hint = hint


def run_daemon(argv: list[str]) -> int:
    """Run in the foreground until SIGTERM, SIGINT or ``daemon.shutdown``; the exit code."""
    options = _options(argv)
    logs.configure()
    service = Service()
    os.umask(0o077)
    os.chdir("/")
    _allow_descriptors()
    memory.share_arenas()
    # Same-uid processes shall read neither our memory nor our environment.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    # Before any other program is started, which would have it as well.
    lent = handover.take(os.environ)
    if options.answer:
        sys.stdout.buffer.write(answer_alone(scrub(os.environ), sys.stdin.buffer.readline()))
        return EXIT_OK
    try:
        service = _service()
        env = scrub(os.environ)
        if options.check:
            _configuration(env)
            return EXIT_OK
        with _state(env, options.lock_fd) as (config, state, lock):
            if options.reindex:
                _tell(sys.stdout.fileno(), reindex(state))
                return EXIT_OK
            left = _run(config, state, env, service, options, lent)
            if left is not None:
                _come_back(left, lock, service)
    except StartError as error:
        log.error("cannot_start", reason=str(error), hint=error.hint)
        failure = {
            "name": error.name,
            "message": str(error),
            "hint": error.hint,
            "exit": error.exit_code,
        }
        service.tell(STATUS=str(error))
        refused(Path(paths.state_dir(os.environ)), str(error))
        asked = options.check or options.reindex
        _tell(sys.stdout.fileno() if asked else options.ready_fd, {"error": failure})
        return error.exit_code
    return EXIT_OK


def _run(
    config: Config,
    state: StateDirectory,
    env: dict[str, str],
    service: Service,
    options: argparse.Namespace,
    lent: handover.Lent,
) -> Left | None:
    """Serve to the end; what is left to the daemon where it is to come back."""
    left = None
    try:
        try:
            left = trio.run(_serve, config, state, env, service, options, lent)
        except* FencedError:
            # Whatever came to write first: the runs are the other's, and nothing is amiss here.
            log.warning("left_to_another_daemon", state=str(state.root))
    except StartError:
        raise
    except Exception as error:
        refused(state.root, f"an internal error ({type(error).__name__})", how="fault")
        raise
    return left


def _allow_descriptors() -> None:
    """Each run, and each that waits in the queue, takes some; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="coachmand", description=__doc__)
    parser.add_argument("--ready-fd", type=int, help="a descriptor to tell readiness on")
    parser.add_argument(
        "--check", action="store_true", help="only read the configuration: 0, or 78 and why"
    )
    parser.add_argument(
        "--reindex", action="store_true", help="only make the index of runs anew, and tell of it"
    )
    parser.add_argument(
        "--answer",
        action="store_true",
        help="only answer one request on stdin, of those that need no daemon",
    )
    parser.add_argument("--version", action="version", version=installed_version())
    # What a daemon that re-executes itself leaves open for its successor.
    parser.add_argument("--listener-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lock-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _service() -> Service:
    try:
        return Service.take(os.environ)
    except HandedError as error:
        raise StartError("Configuration", str(error), EXIT_CONFIG) from error


def _come_back(left: Left, lock: Lock, service: Service) -> None:
    try:
        reexecute(left, lock.fd, service)
    except OSError as error:
        text = f"cannot restart: {sys.executable}: {error.strerror}"
        raise StartError("InternalError", text, EXIT_INTERNAL, "install coachman again") from error


def _tell(fd: int | None, message: dict[str, Any]) -> None:
    if fd is None:
        return
    try:
        os.write(fd, json.dumps(message).encode() + b"\n")
    except OSError as error:
        log.warning("nobody_waits_for_readiness", error=str(error))
    os.close(fd)


def _configuration(env: Mapping[str, str]) -> Config:
    try:
        return load(paths.config_path(env), paths.home(env), ADAPTERS)
    except ConfigError as error:
        raise StartError("Configuration", str(error), EXIT_CONFIG) from error


@contextmanager
def _state(
    env: dict[str, str], lock_fd: int | None
) -> Iterator[tuple[Config, StateDirectory, Lock]]:
    """Configuration and state directory, the latter locked for us alone."""
    config = _configuration(env)
    logs.configure(config.log.level)
    root = os.path.realpath(paths.state_dir(env))
    state = StateDirectory.at(root, config.storage.worktrees, config.storage.sealed)
    holder = f"pid {os.getpid()} on {socket.gethostname()}"
    try:
        durable.make_directory(state.root)
        os.chmod(state.root, durable.DIRECTORY_MODE)
        lock = (
            Lock.take(state.root / "lock", holder)
            if lock_fd is None
            else Lock.inherit(state.root / "lock", lock_fd)
        )
        state.create()
    except LockHeldError as error:
        text = f"cannot start: {root} is held by the daemon with {error}"
        raise StartError("Conflict", text, EXIT_STATE, "talk to that one, or stop it") from error
    except OSError as error:
        text = f"cannot start: {error.strerror} ({error.filename})"
        raise StartError("Degraded", text, EXIT_STORAGE) from error
    try:
        yield config, state, lock
    finally:
        lock.release()


async def _serve(
    config: Config,
    state: StateDirectory,
    env: dict[str, str],
    service: Service,
    options: argparse.Namespace,
    lent: handover.Lent,
) -> Left | None:
    """Serve until told to leave; what is left to the daemon where it is to come back."""
    workers = GitWorkers()
    try:
        services = await trio.to_thread.run_sync(_services, config, state, env, workers)
    except (durable.DiskError, sqlite3.Error) as error:
        text = f"cannot start: {error}"
        raise StartError("Degraded", text, EXIT_STORAGE, "make room on the disk") from error
    trees = (str(state.root), str(state.worktrees))
    await trio.to_thread.run_sync(services.notices.open, services.programs, trees)
    services.scopes = Scopes.of(env, is_service=service.notify_path is not None)
    lifetime = Lifetime(state.root, installed_version())
    await trio.to_thread.run_sync(lifetime.begin)
    registry = build_registry()
    build = await trio.to_thread.run_sync(build_digest)
    with _listener(paths.socket_path(env), service, options.listener_fd) as listener:
        async with services.workers, trio.open_nursery() as nursery:
            supervisor = Supervisor(services, nursery)
            delegates = Delegates(registry, lambda peer, run: Context(daemon, peer, run))
            services.offer = delegates.offer
            doors = (listener, delegates)
            leaving = Leaving(nursery.cancel_scope, doors, supervisor, service, lifetime)
            upgrades = Upgrades(env, lambda: nursery.start_soon(leaving.restart))
            daemon = Daemon(
                supervisor,
                services,
                registry,
                installed_version(),
                build,
                secrets.token_hex(8),
                listener.path,
                epoch_ms(),
                lambda mode, by: nursery.start_soon(leaving.stop, mode, by),
                lambda: nursery.start_soon(leaving.restart),
                upgrades.look,
                lifetime.before,
            )
            nursery.start_soon(_detach_on_signal, leaving)
            services.storage.on_fenced = leaving.fenced
            nursery.start_soon(lifetime.keep)
            nursery.start_soon(report.keep_alive, service)
            nursery.start_soon(services.storage.keep)
            nursery.start_soon(services.notices.keep)
            nursery.start_soon(services.sentinels.keep)
            await supervisor.recover(lent)
            nursery.start_soon(services.feeds.keep, supervisor)
            nursery.start_soon(services.logins.keep)
            await nursery.start(listener.serve, registry, lambda peer: Context(daemon, peer))
            nursery.start_soon(report.tell_status, service, supervisor)
            nursery.start_soon(upgrades.watch)
            nursery.start_soon(memory.give_back)
            _tell(options.ready_fd, {"ready": True, "socket": listener.path, "pid": os.getpid()})
            log.info(
                "ready", socket=listener.path, state=str(state.root), runs=len(supervisor.runs)
            )
        services.index.close()
        log.info("detached", going_on=len(supervisor.runs), comes_back=leaving.restarts)
        return Left(*listener.detach(), supervisor.lent) if leaving.restarts else None


def _listener(path: str, service: Service, inherited_fd: int | None) -> Listener:
    """The service manager's socket, the one we had before we re-executed, or a new one."""
    try:
        if service.listener is not None:
            return Listener(service.listener.getsockname(), service.listener, owned=False)
        passed = listening_socket(inherited_fd) if inherited_fd is not None else None
        return Listener(path, passed)
    except (ListenError, HandedError) as error:
        raise StartError("Conflict", str(error), EXIT_STATE) from error


async def _detach_on_signal(leaving: Leaving) -> None:
    with trio.open_signal_receiver(*ENDING_SIGNALS) as signals:
        async for number in signals:
            log.info("signal", name=signal.Signals(number).name)
            leaving.end("signal", signal=signal.Signals(number).name)


def _services(
    config: Config, state: StateDirectory, env: dict[str, str], workers: GitWorkers
) -> Services:
    storage = Storage(state.root, config.storage.reserve)
    generation = _next_generation(state.root / "generation", storage)
    stand_behind(Fence.of(state.root / "generation"))
    with ThreadPoolExecutor(1) as beside:
        # The one waits for processes, the other reads all of a file.
        outlook = beside.submit(_outlook, env)
        index = open_index(state)
    return Services(
        state=state,
        config=config,
        config_file=ConfigFile.of(paths.config_path(env)),
        index=index,
        order=order_of(state, index),
        workers=workers,
        adapters=adapters_of(config),
        outlook=outlook.result(),
        environment=env,
        generation=generation,
        boot=boot_id(),
        python=sys.executable,
        guest=str(Path(guest_package.__file__ or "").parent),
        admission=Admission(
            config.capacity.max_active or default_active(), config.capacity.max_queued
        ),
        storage=storage,
    )


def _outlook(env: dict[str, str]) -> Outlook:
    found = look(env)
    if not found.probe.ok:
        cause, remedy = found.probe.cause, found.probe.remedy
        log.error("boundary_unavailable", exit=EXIT_BOUNDARY, cause=cause, remedy=remedy)
    return Outlook(env, found)


def _next_generation(path: Path, storage: Storage) -> int:
    """A number greater than that of any daemon before: keepers refuse lower ones."""
    # A counter that was lost or torn must not fall behind what keepers have seen: the clock is
    # ahead of it.
    number = int(time.time())
    with suppress(FileNotFoundError, ValueError):
        number = max(number, int(path.read_text()) + 1)
    text = f"{number}\n".encode()
    try:
        durable.replace(path, text)
    except durable.FullError:
        durable.remove(storage.reserve)
        durable.replace(path, text)
    return number
