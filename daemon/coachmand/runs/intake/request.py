"""What a caller asks of a new run, and the refusal of it."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen
from attrs.validators import optional

from coachman.results import OnLimit, Permissions
from coachman.wire import DELEGATE_DESCRIPTORS

from ...permissions.handlers import FORM, is_handler, is_program
from ...permissions.rules import MAX_RULES, RuleRequest
from ...rpc.errors import RpcError
from ...rpc.params import must, must_each
from ..facts.grants import Delegate, Limits

MAX_LABELS = 64
MAX_DESTINATIONS = 200
MAX_INPUTS = 1000
MAX_KEY_CHARACTERS = 256
MOST_RETRIES = 20
MOST_PRIORITY = 10
MAX_TIMEOUT_S = 366 * 86400.0


def _is_path(path: str) -> bool:
    return path.startswith("/") and "\0" not in path


def is_plain_below(path: str) -> bool:
    """Whether a relative path is written plainly and leads nowhere else."""
    steps = path.split("/")
    return path.isprintable() and not {"", ".", ".."} & set(steps)


def are_words(words: Iterable[str]) -> bool:
    return not any("\0" in word for word in words)


def _is_network(words: tuple[str, ...]) -> bool:
    return 1 <= len(words) <= MAX_DESTINATIONS


def _is_key(key: str) -> bool:
    return 1 <= len(key) <= MAX_KEY_CHARACTERS


KEY = must(f"1 to {MAX_KEY_CHARACTERS} characters", _is_key)

_SECONDS = must(
    f"a number of seconds above 0 and at most {MAX_TIMEOUT_S:.0f}",
    lambda seconds: 0 < seconds <= MAX_TIMEOUT_S,
)


_RETRIES = must(f"0 to {MOST_RETRIES}", lambda retries: 0 <= retries <= MOST_RETRIES)
_PRIORITY = must(f"{-MOST_PRIORITY} to {MOST_PRIORITY}", lambda p: abs(p) <= MOST_PRIORITY)


_BYTES = must("a number of bytes above 0", lambda size: 0 < size < 1 << 60)


@frozen
class Timeouts:
    """Limits of this run in seconds; those of the configuration where left out.

    ``wall`` is for all of it, ``work`` for what its agent is busy, ``turn`` for each turn,
    ``stall`` for the agent's silence, ``queue`` for the time until it begins.
    """

    wall_s: float | None = field(default=None, validator=optional(_SECONDS))
    work_s: float | None = field(default=None, validator=optional(_SECONDS))
    stall_s: float | None = field(default=None, validator=optional(_SECONDS))
    turn_s: float | None = field(default=None, validator=optional(_SECONDS))
    queue_s: float | None = field(default=None, validator=optional(_SECONDS))
    permission_s: float | None = field(default=None, validator=optional(_SECONDS))
    parked_s: float | None = field(default=None, validator=optional(_SECONDS))
    check_s: float | None = field(default=None, validator=optional(_SECONDS))


@frozen
class InputRequest:
    """A file or directory that the run is handed, under its own name or another."""

    path: str = field(validator=must("an absolute path", _is_path))
    name: str | None = None


@frozen
class StartRequest:
    """What `run.start` takes. ``dir`` is the caller's directory, absolute.

    ``env`` lends the values of the variables that the agent declares; they stay in memory.
    ``as_agent`` names one of the CLI's own agents. ``session`` is one that the user began by hand:
    the run goes on in a copy of it. With ``keep`` the run takes more prompts.
    ``network`` has words (agent, registries, full, none, host) and HOST[:PORT], *.SUFFIX[:PORT]
    or HOST:PORT=ADDRESS.
    ``output_limit`` is how many bytes the agent may write.
    ``on_limit`` says what a provider's limit means, ``retries`` how often to try without knowing
    when it ends; a run of higher ``priority`` gets a place before those of lower.
    ``sentinel_file`` is a path at which a file says how the run ended, once it has.
    ``on_event`` is the path of a program that is fed the run's events, a line each, on its stdin.
    ``rules`` are judged before those of the configuration, and a question that none decides is
    shown to ``permission_handler`` as well: file:BASE or command:PATH; "none" for none at all.
    ``check`` is a shell command that decides at the end, "" for none where one is configured.
    ``inputs`` are copied before anything starts, ``input_data`` is base64 by name.
    ``input_descriptors`` name the descriptors of regular files, opened to be read only, that come
    along with the request's line over a run's own socket (SCM_RIGHTS).
    ``trust_tree`` lets it run on the host in a tree that a sandboxed agent wrote; ``native``
    takes from it there the namespace that its processes end with.
    ``artifacts`` are paths below /output at which it has to leave something.
    ``delegate`` gives it a socket of its own, over which it may start runs itself.
    """

    dir: str = field(validator=must("an absolute path", _is_path))
    prompt: str = ""
    agent: str | None = None
    argv: tuple[str, ...] = field(default=(), validator=must("words without NUL", are_words))
    model: str | None = None
    effort: str | None = None
    provider: str | None = None
    as_agent: str | None = None
    keep: bool = False
    session: str | None = None
    task: str | None = None
    profile: str | None = None
    network: tuple[str, ...] | None = field(
        default=None, validator=optional(must(f"1 to {MAX_DESTINATIONS} destinations", _is_network))
    )
    permissions: Permissions | None = None
    rules: tuple[RuleRequest, ...] = field(
        default=(), validator=must(f"at most {MAX_RULES}", lambda rules: len(rules) <= MAX_RULES)
    )
    permission_handler: str | None = field(default=None, validator=optional(must(FORM, is_handler)))
    base: str | None = None
    env: Mapping[str, str] = field(
        factory=dict,
        repr=lambda env: repr(sorted(env)),
        validator=must("names and values without NUL", lambda env: are_words(sum(env.items(), ()))),
    )
    timeouts: Timeouts = Timeouts()
    labels: Mapping[str, str] = field(
        factory=dict, validator=must(f"at most {MAX_LABELS}", lambda m: len(m) <= MAX_LABELS)
    )
    title: str | None = None
    request_key: str | None = field(
        default=None,
        validator=optional(KEY),
    )
    no_wait: bool = False
    dry_run: bool = False
    limits: Limits = field(factory=Limits)
    on_limit: OnLimit | None = None
    retries: int | None = field(default=None, validator=optional(_RETRIES))
    priority: int = field(default=0, validator=_PRIORITY)
    output_limit: int | None = field(default=None, validator=optional(_BYTES))
    sentinel_file: str | None = field(
        default=None, validator=optional(must("an absolute path", _is_path))
    )
    on_event: str | None = field(
        default=None, validator=optional(must("an absolute path to a program", is_program))
    )
    check: str | None = field(
        default=None, validator=optional(must("a command without NUL", lambda c: "\0" not in c))
    )
    delegate: Delegate | None = None
    inputs: tuple[InputRequest, ...] = field(
        default=(), validator=must(f"at most {MAX_INPUTS}", lambda given: len(given) <= MAX_INPUTS)
    )
    trust_tree: bool = False
    native: bool = False
    artifacts: tuple[str, ...] = field(
        default=(), validator=must_each("a plain path below /output", is_plain_below)
    )
    input_data: Mapping[str, str] = field(
        factory=dict,
        repr=lambda data: repr(sorted(data)),
        validator=must(f"at most {MAX_INPUTS}", lambda given: len(given) <= MAX_INPUTS),
    )
    input_descriptors: tuple[str, ...] = field(
        default=(),
        validator=must(f"at most {DELEGATE_DESCRIPTORS}", lambda n: len(n) <= DELEGATE_DESCRIPTORS),
    )


def usage(message: str, hint: str | None = None, **detail: Any) -> RpcError:
    """A refusal of what was asked."""
    return RpcError("InvalidParams", f"cannot start: {message}", hint, detail=detail or None)
