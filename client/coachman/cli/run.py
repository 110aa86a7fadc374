"""``coachman run``: start a run and, unless detached, stay with it to its end."""

import os

from ..environment import carried
from ..errors import UsageError
from ..wire import EXIT_OK, PERMISSION_MODES
from .durations import some_seconds
from .grants import granted
from .inputs import given_inputs
from .labels import labels_of
from .options import Command, Option
from .policy import compiled_lines, fact_lines
from .rules import handler_of, rule_of
from .sources import read_prompt
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..client import Client
    from ..results import Effective, RunStarted
    from .console import Console
    from .options import Arguments

COMMAND_AGENT = "command"
TIMEOUTS = (
    Option("--timeout", "end the run after this long", "DURATION"),
    Option("--work-timeout", "end it when its agent was busy for so long", "DURATION"),
    Option("--turn-timeout", "end it when a turn takes longer", "DURATION"),
    Option("--stall-timeout", "end it when its agent is silent for so long", "DURATION"),
    Option("--queue-timeout", "end it when it has not begun after so long", "DURATION"),
    Option("--permission-timeout", "deny what nobody answers in this time", "DURATION"),
    Option("--parked-timeout", "close a kept run that nobody prompts in this time", "DURATION"),
    Option("--check-timeout", "how long its check may take", "DURATION"),
)
COMMAND = Command(
    "run [OPTIONS] [PROMPT|@FILE|-] [-- PROGRAM ARG…]",
    "Start a run. The prompt comes from exactly one source; with none on a terminal an\n"
    "editor opens. PROGRAM is what the `command` agent runs, the prompt then its stdin.\n"
    "The exit code tells the run's outcome; losing the client only detaches.",
    Option("-d --detach", "return once the run is started"),
    Option("-a --agent", "the agent (COACHMAN_AGENT)", "AGENT"),
    Option("-m --model", "its model", "MODEL"),
    Option("-e --effort", "how hard it thinks", "EFFORT"),
    Option("--provider", "whose model it is, where the agent knows several", "PROVIDER"),
    Option("--as", "one of the agent's own agents", "NAME"),
    Option("--session", "go on in a copy of a session that you began by hand", "ID"),
    Option("--keep", "keep it for more prompts, until it is closed"),
    Option("-t --task", "the task, new or to be continued", "TASK"),
    Option("-p --profile", "what it may touch (COACHMAN_PROFILE)", "PROFILE"),
    Option(
        "--network",
        "what it may reach: agent, registries, full, none, host, HOST:PORT, *.SUFFIX",
        "NETWORK",
        repeat=True,
    ),
    Option("-l --label", "a label", "KEY=VALUE", repeat=True),
    Option("--batch", "the label batch: what was started together", "NAME"),
    Option(
        "--permissions", "allow, ask or deny what it asks for", "MODE", choices=PERMISSION_MODES
    ),
    Option("--rule", "DECISION KINDS [PATTERN]: allow execute git log *", "RULE", repeat=True),
    Option("--permission-handler", "file:BASE, command:PATH or none", "HANDLER"),
    *TIMEOUTS,
    Option(
        "--on-limit",
        "wait for the end of a provider's limit, or fail",
        "ACTION",
        choices=("wait", "fail"),
    ),
    Option("--max-tokens", "end it once it used more tokens", "N"),
    Option("--max-cost", "end it once it cost more", "USD"),
    Option("--retries", "how often to try again without knowing when it helps", "N"),
    Option("--output-limit", "end it once it wrote so much: 512MiB (1GiB)", "SIZE"),
    Option("--priority", "be queued before runs of a lower one (0)", "N"),
    Option("--check", "a shell command that decides once the agent is through", "COMMAND"),
    Option("--trust-tree", "with the profile host: run where a confined agent wrote"),
    Option("--native", "with the profile host: no namespace, and a weaker kill"),
    Option(
        "--delegate",
        "let it start runs itself, DEPTH levels below it, so many CHILDREN at once",
        "depth=N,children=N",
    ),
    Option("--input", "a file or directory for it to read in /inputs", "PATH[=NAME]", repeat=True),
    Option(
        "--artifact", "a path below /output at which it has to leave something", "PATH", repeat=True
    ),
    Option("--sentinel-file", "a file that says how the run ended, once it has", "PATH"),
    Option("--on-event", "a program that is fed the run's events, a line of JSON each", "PROGRAM"),
    Option("--base", "the commit to begin from", "REV"),
    Option("--prompt-file", "read the prompt from a file", "FILE"),
    Option("--title", "a title for lists", "TEXT"),
    Option("--request-key", "the same key starts the same run once", "KEY"),
    Option("--no-wait", "fail instead of queueing"),
    Option("--dry-run", "tell what would be done, down to policy and arguments; do nothing"),
    # Kept for a later version, and refused in this one.
    Option("--tied", ""),
    operands=(0, 1),
    surplus="quote what belongs together",
    trailing=True,
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Start the run; the exit code is 0 when detached, else the run's."""
    request = _request(console, arguments)
    client = console.client(autostart=True, introduced=True)
    request["env"] = _lent_with(console, client, request)
    started = client.run.start(**request)
    if arguments.has("dry-run"):
        report(console, started, facts=_facts(console, client, started))
        return EXIT_OK
    if arguments.has("detach"):
        report(console, started)
        return EXIT_OK
    return stay(console, client, started, keep=bool(started.get("keep")))


def stay(console: "Console", client: "Client", started: "RunStarted", *, keep: bool) -> int:
    """Watch a run that was just started: to its end, or to that of a kept one's first turn."""
    from .foreground import Foreground

    if not console.json and not console.quiet:
        for line in header(started):
            console.note(line)
    asking = started["effective"]["permissions"] == "ask"
    watched = Foreground(console, client, started["run"], started["handle"], asking=asking)
    return watched.stay_for_turn(1) if keep else watched.stay()


def _request(console: "Console", arguments: "Arguments") -> "dict[str, Any]":
    if arguments.has("tied"):
        raise UsageError(
            "cannot run --tied: this version always detaches when its client goes",
            hint="cancel the run yourself: coachman cancel HANDLE",
        )
    mode = arguments.text("permissions")
    if mode is not None and mode not in PERMISSION_MODES:
        raise UsageError(f"cannot run --permissions {mode!r}: choose {', '.join(PERMISSION_MODES)}")
    argv = arguments.trailing
    if argv is not None and not argv:
        raise UsageError("cannot run: no program stands after --")
    agent = arguments.text("agent") or console.env.get("COACHMAN_AGENT")
    if agent == COMMAND_AGENT and argv is None:
        raise UsageError(
            f"cannot run: the agent `{COMMAND_AGENT}` needs its program",
            hint="write it behind two dashes: coachman run -- PROGRAM ARG…",
        )
    operand = arguments.operands[0] if arguments.operands else None
    return {
        "prompt": read_prompt(
            console, operand, arguments.text("prompt-file"), has_program=argv is not None
        ),
        "dir": console.directory,
        "agent": COMMAND_AGENT if argv is not None and not arguments.has("agent") else agent,
        "argv": argv,
        "model": arguments.text("model"),
        "effort": arguments.text("effort"),
        "provider": arguments.text("provider"),
        "as_agent": arguments.text("as"),
        "session": arguments.text("session"),
        "keep": arguments.has("keep") or None,
        "task": arguments.text("task"),
        "profile": arguments.text("profile") or console.env.get("COACHMAN_PROFILE"),
        "network": destinations(arguments.texts("network")),
        "permissions": mode,
        "rules": [rule_of(text) for text in arguments.texts("rule")] or None,
        "permission_handler": handler_of(arguments.text("permission-handler")),
        "base": arguments.text("base"),
        "trust_tree": arguments.has("trust-tree") or None,
        "native": arguments.has("native") or None,
        "on_limit": arguments.text("on-limit"),
        "limits": _budget(arguments),
        "retries": arguments.integer("retries"),
        "priority": arguments.signed("priority"),
        "output_limit": arguments.size("output-limit"),
        "check": arguments.text("check"),
        "delegate": granted(arguments.text("delegate")),
        **given_inputs(arguments.texts("input"), is_run=console.is_run),
        "artifacts": [_below_output(path) for path in arguments.texts("artifact")] or None,
        "sentinel_file": _resolved(arguments, "sentinel-file"),
        "on_event": _resolved(arguments, "on-event"),
        "timeouts": timeouts(arguments, "run"),
        "labels": labels_of(arguments, "run"),
        "title": arguments.text("title"),
        "request_key": arguments.text("request-key"),
        "no_wait": arguments.has("no-wait") or None,
        "dry_run": arguments.has("dry-run") or None,
    }


def _below_output(path: str) -> str:
    """What a run has to leave, by its path below /output. Raises UsageError."""
    below = path.removeprefix("/output/").rstrip("/")
    if not below.isprintable() or {"", ".", ".."} & set(below.split("/")):
        raise UsageError(
            f"cannot run --artifact {path!r}: it is no plain path below /output",
            hint="name a file or a directory in it: --artifact figures, or /output/figures",
        )
    return below


def _resolved(arguments: "Arguments", option: str) -> str | None:
    """A path as the caller means it, from its own directory. Raises UsageError."""
    path = arguments.text(option)
    if path == "":
        raise UsageError(f"cannot run --{option} '': name a file")
    return None if path is None else os.path.abspath(path)


def timeouts(arguments: "Arguments", verb: str) -> dict[str, float] | None:
    """The limits that were given, in seconds by their names on the wire."""
    given = {
        "wall_s": "timeout",
        "work_s": "work-timeout",
        "turn_s": "turn-timeout",
        "stall_s": "stall-timeout",
        "queue_s": "queue-timeout",
        "permission_s": "permission-timeout",
        "parked_s": "parked-timeout",
        "check_s": "check-timeout",
    }
    limits = {
        name: some_seconds(text, f"{verb} --{option}")
        for name, option in given.items()
        if (text := arguments.text(option)) is not None
    }
    return limits or None


def _budget(arguments: "Arguments") -> dict[str, float] | None:
    tokens, cost = arguments.count("max-tokens"), arguments.text("max-cost")
    given: dict[str, float] = {} if tokens is None else {"tokens": tokens}
    if cost is not None:
        try:
            given["cost_usd"] = float(cost.removeprefix("$"))
        except ValueError:
            raise UsageError(f"cannot run --max-cost: {cost!r} is no number of dollars") from None
    return given or None


def _lent_with(
    console: "Console", client: "Client", request: "dict[str, Any]"
) -> dict[str, str] | None:
    """The same for all agents that the run may start."""
    environment = lent(console, client, request.get("agent"), request.get("profile"))
    for agent in (request.get("delegate") or {}).get("agents", ()):
        environment = {**(environment or {}), **(lent(console, client, agent) or {})}
    return environment


def lent(
    console: "Console", client: "Client", agent: str | None, profile: str | None = None
) -> dict[str, str] | None:
    """What of this process's environment the agent is to have; None: what the run has that asks.

    It is what the agent wants, and what the ``profile`` lets in besides.
    """
    if console.is_run:
        return None
    declared: set[str] = set()
    for entry in client.agent.list(agent, profile=profile)["agents"]:
        declared.update(entry["environment"], entry["credentials"], entry.get("locations", ()))
        declared.update(entry.get("profile_environment", ()))
    return carried(console.env, declared)


def _facts(console: "Console", client: "Client", started: "RunStarted") -> "Mapping[str, str]":
    """What its profile means, in words, where somebody reads it who may know of the host.

    Its network and permissions are in the header: those of this run, not what the profile has.
    """
    if console.json or console.quiet or "compiled" not in started:
        return {}
    facts = client.profile.explain(started["effective"]["profile"])["facts"]
    return {name: facts[name] for name in facts if name not in ("network", "permissions")}


def report(
    console: "Console", started: "RunStarted", *, facts: "Mapping[str, str] | None" = None
) -> None:
    """Tell of a run that nobody stays with; with ``facts``, of one that was only tried."""
    dry = facts is not None
    if console.json:
        console.document(started)
        return
    if console.quiet:
        console.line(visible(started.get("handle") or started.get("task")))
        return
    for line in header(started, dry=dry):
        console.line(line)
    for line in fact_lines(facts or {}):
        console.line(line)
    # A daemon of an earlier version tells no more.
    for line in compiled_lines(started["compiled"]) if "compiled" in started else ():
        console.line(line)
    if not dry:
        handle = visible(started["handle"])
        until = " --until attention" if started["effective"]["permissions"] == "ask" else ""
        console.line(f"  next: coachman wait {handle}{until}; coachman tail {handle}")


def header(started: "RunStarted", *, dry: bool = False) -> list[str]:
    """What was decided for a run, with the network stated."""
    effective = started["effective"]
    handle = "would start" if dry else visible(started["handle"])
    if not dry and started.get("new") is False:
        handle += ", already started"
    earlier = started.get("continuing") or 0
    runs = "run" if earlier == 1 else "runs"
    task = visible(started["task"])
    if before := started.get("resumed_from"):
        handle += f", resumed from {visible(before[-5:])}"
    where = f"continuing task {task} ({earlier} earlier {runs})" if earlier else f"task {task}"
    model = f" with {visible(effective['model'])}" if effective.get("model") else ""
    lines = [
        f"{handle}: {visible(effective['agent'])}{model}, {where}",
        f"  profile {_profile_of(effective)},"
        f" permissions {visible(effective['permissions'])},"
        f" network {_network_of(effective)}",
    ]
    if started.get("worktree"):
        lines.append(f"  worktree {visible(started['worktree'])}")
    lines += [f"  warning: {visible(warning)}" for warning in started.get("warnings") or ()]
    return lines


def destinations(texts: list[str]) -> list[str] | None:
    """The words of a network: each option may have several, with commas between them."""
    words = [word for text in texts for word in text.split(",") if word.strip()]
    if texts and not words:
        raise UsageError(
            "cannot run: --network names nothing", hint="leave it out, or say --network none"
        )
    return words or None


def _profile_of(effective: "Effective") -> str:
    name, base = visible(effective["profile"]), effective.get("inherits")
    made = f" (made of {visible(base)})" if base else ""
    return f"{name}{made}, native with a weaker kill" if effective.get("native") else name + made


def _network_of(effective: "Effective") -> str:
    if effective["network"] == "agent" and effective.get("hosts") == []:
        agent = visible(effective["agent"])
        return f"agent ({agent} has no hosts of its own: it reaches nothing)"
    return network(effective["network"])


def network(mode: str) -> str:
    """The network mode and what it means."""
    if mode in _NETWORKS:
        return f"{mode} ({_NETWORKS[mode]})"
    return visible(mode).replace(",", ", ")


_NETWORKS = {
    "host": "the machine's own: loopback services and the local network are in reach",
    "agent": "the hosts of its agent only",
    "full": "every public host, through the gate",
    "none": "nothing at all, and nobody notes what was tried",
}
