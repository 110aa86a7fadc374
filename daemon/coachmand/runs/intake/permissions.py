"""Who decides about what the agent of a new run asks: the rules, the mode, the handler."""

from collections.abc import Iterator

import trio
from attrs import evolve, frozen

from coachman.results import Permissions
from coachman_adapters.conversation import AgentSpec
from coachman_sandbox.profiles import Profile

from ...config import Config
from ...config_profiles import rules_of, writable
from ...permissions import handlers
from ...permissions.dead import dead
from ...permissions.handlers import Handler
from ...permissions.programs import UntrustedError
from ...permissions.rules import Rule, of_origin
from ...repos.records import Repository as FoundRepository
from ...rpc.errors import RpcError
from ..services import Services
from ..tidying.findings import Finding
from .request import StartRequest, usage

_TRUSTED = (
    "it has to be yours, to be writable by nobody else, and to lie outside of what agents reach"
)


@frozen
class Deciding:
    """``rules`` in the order in which they are judged, then the mode, then ``handlers``."""

    permissions: Permissions
    rules: tuple[Rule, ...]
    handlers: tuple[Handler, ...]


def check_asks(request: StartRequest, name: str, spec: AgentSpec) -> None:
    """What an agent never asks, nobody can decide. Raises RpcError."""
    given = {
        "--permissions": request.permissions in ("ask", "deny"),
        "--rule": bool(request.rules),
        "--permission-handler": request.permission_handler not in (None, handlers.NONE),
    }
    for option, wanted in given.items():
        if wanted and not spec.asks_permission:
            raise usage(f"agent {name} never asks for a permission", f"leave {option} out")
    for rule, why in dead(request.rules):
        raise usage(
            f"rule {rule.text!r} can never match: {why}",
            "leave it out, or say what it is to be about",
        )


async def deciding(
    request: StartRequest, walls: Profile, found: FoundRepository, worktree: str, services: Services
) -> Deciding:
    """What the request says, then what is configured. Raises RpcError."""
    config = services.config
    repo = config.of_repository(found.toplevel) if found.toplevel else None
    rules = (
        *of_origin(request.rules, "request"),
        *of_origin(repo.rules if repo else (), "repo"),
        *of_origin(rules_of(config, walls.name), "profile"),
        *of_origin(config.rules, "configuration"),
    )
    found_handlers = await _handlers(request, found, worktree, services)
    asks = bool(request.permission_handler) and bool(found_handlers)
    asks = asks or walls.native
    stated = request.permissions or walls.permissions or config.permissions
    mode = stated or ("ask" if asks else "allow")
    return Deciding(mode, rules, found_handlers)


async def _handlers(
    request: StartRequest, found: FoundRepository, worktree: str, services: Services
) -> tuple[Handler, ...]:
    origin, text = "request", request.permission_handler
    if text is None:
        origin, text = "configuration", services.config.permission_handler
    handler = handlers.parsed(text, origin) if text else None
    if handler is None:
        return ()
    return (await _trusted(handler, "permission handler", found, worktree, services),)


async def fed_program(
    request: StartRequest, found: FoundRepository, worktree: str, services: Services
) -> Handler | None:
    """The program that the run's events are fed to. Raises RpcError."""
    if request.on_event is None:
        return None
    program = Handler("command", request.on_event)
    return await _trusted(program, "program for events", found, worktree, services)


async def _trusted(
    handler: Handler, what: str, found: FoundRepository, worktree: str, services: Services
) -> Handler:
    own = map(str, (services.state.root, services.state.worktrees, services.state.sealed))
    shared = writable(services.config)
    # A run without a repository has no worktree either.
    trees = tuple(filter(None, (worktree, found.toplevel, found.common_dir, *own, *shared)))
    try:
        return await trio.to_thread.run_sync(_opened, handler, trees, services)
    except UntrustedError as error:
        raise RpcError(
            "Denied",
            f"cannot start: the {what} {handler.path} {error}",
            error.hint or _TRUSTED,
            detail={"handler": handler.text, "origin": handler.origin},
        ) from error


async def findings(services: Services) -> list[Finding]:
    """What is configured about permissions and has no effect, or keeps runs from starting."""
    return [*_dead_rules(services.config), *await _handler_findings(services)]


def _dead_rules(config: Config) -> Iterator[Finding]:
    lists = [("rules", config.rules)]
    lists += [(f'repo."{path}".rules', repo.rules) for path, repo in config.repo.items()]
    lists += [(f"profiles.{name}.rules", each.rules) for name, each in config.profiles.items()]
    for name, settings in lists:
        for rule, why in dead(of_origin(settings, "configuration")):
            told = f"the rule {rule.text!r} can never match: {why}"
            yield Finding("rule", name, told, "take it out of the configuration, or mend it")


async def _handler_findings(services: Services) -> list[Finding]:
    """The configured handler, where it cannot be used: runs that ask are refused."""
    text = services.config.permission_handler
    handler = handlers.parsed(text, "configuration") if text else None
    if handler is None:
        return []
    shared = writable(services.config)
    trees = (str(services.state.root), str(services.state.worktrees), *shared)
    try:
        await trio.to_thread.run_sync(_opened, handler, trees, services)
    except UntrustedError as error:
        why = f"the configured permission handler {error}: runs that it is for are refused"
        remedy = error.hint or f"{_TRUSTED}; or name none in the configuration"
        return [Finding("handler", handler.path, why, remedy)]
    return []


def _opened(handler: Handler, trees: tuple[str, ...], services: Services) -> Handler:
    """The handler once it is open. Blocks."""
    if handler.kind == "file":
        services.exchanges.open(handler.path, trees).check()
        return handler
    return evolve(handler, sha256=services.programs.pin(handler.path, trees).sha256)
