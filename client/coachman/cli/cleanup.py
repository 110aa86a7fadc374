"""``coachman cleanup``: what ended runs left, told or removed."""

from ..errors import UsageError
from ..wire import EXIT_OK, EXIT_STATE, OUTCOMES
from .console import command
from .durations import seconds
from .options import Command, Option
from .render import NOTHING, joined, size, table
from .sizes import size_bytes
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..results import CleanedTask, Cleanup
    from .console import Console
    from .options import Arguments

PARTS = ("worktrees", "logs")
FILTERS = ("older-than", "larger-than", "outcome", "only")
COLUMNS = ("TASK", "RUNS", "WORKTREE", "HOMES", "LOGS", "")
NUMBERS = frozenset({"RUNS", "WORKTREE", "HOMES", "LOGS"})
COMMAND = Command(
    "cleanup [X…]",
    "Remove worktrees, private homes and raw logs of runs that have ended. Requests, results,\n"
    "journals, messages and artifacts stay, and what no ref keeps is kept by one first. Without\n"
    "names, tasks or --all it only tells what could go, of all or of what filters leave.",
    Option("-t --task", "all runs of this task", "TASK", repeat=True),
    Option("--older-than", "runs that ended so long ago: 90, 90s, 30m, 1h30m or 2d", "DURATION"),
    Option("--larger-than", "tasks that give back so much: 512MiB or 2GiB", "SIZE"),
    Option("--outcome", "runs with these outcomes", "OUTCOME", repeat=True, choices=OUTCOMES),
    Option("-a --all", "everything that can go, or all that the filters leave"),
    Option("--only", "worktrees (with homes) or logs", "PART", choices=PARTS),
    Option("--dry-run", "only tell what would go"),
    operands=(0, None),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Clean up, or tell what could go; 76 where something that was named had to stay."""
    outcomes, only = arguments.words("outcome"), arguments.text("only")
    for word, known in ((only, PARTS), *((outcome, OUTCOMES) for outcome in outcomes or ())):
        if word is not None and word not in known:
            raise UsageError(f"cannot clean up {word!r}: choose {', '.join(known)}")
    older, larger = arguments.text("older-than"), arguments.text("larger-than")
    is_named = bool(arguments.operands or arguments.texts("task"))
    # Said anew, for a daemon of an earlier version took a filter for a choice.
    only_tell = arguments.has("dry-run") or not (is_named or arguments.has("all"))
    # Trees may be large: the daemon takes the time that it needs.
    cleanup = console.client(introduced=True).daemon.cleanup(
        arguments.operands or None,
        tasks=arguments.texts("task") or None,
        older_than_s=seconds(older, "read --older-than") if older is not None else None,
        larger_than=size_bytes(larger, "read --larger-than") if larger is not None else None,
        outcome=outcomes,
        all=True if arguments.has("all") else None,
        only=only,
        dry_run=True if only_tell else None,
        dir=console.directory,
    )
    if console.json:
        console.document(cleanup)
    elif console.quiet:
        for task in cleanup["tasks"]:
            if task["state"] == "removed" or (task["log_bytes"] and task["state"] != "kept"):
                console.line(visible(task["task"]))
    else:
        _print(console, cleanup, _filters(arguments))
    stays = [task for task in cleanup["tasks"] if task["state"] == "kept"]
    return EXIT_STATE if is_named and stays and not cleanup["dry_run"] else EXIT_OK


def _filters(arguments: "Arguments") -> list[str]:
    """The filters as they were given, for the command that removes what they leave."""
    given = []
    for name in FILTERS:
        for value in arguments.texts(name):
            given += [f"--{name}", value]
    return given


def _print(console: "Console", cleanup: "Cleanup", filters: list[str]) -> None:
    tasks, is_dry = cleanup["tasks"], cleanup["dry_run"]
    if tasks:
        padded = table(
            COLUMNS,
            [_row(task, is_dry) for task in tasks],
            numbers=NUMBERS,
            width=console.width() or 1000,
        )
        console.line(console.paint(joined(padded[0]), "bold"))
        for task, cells in zip(tasks, padded[1:], strict=True):
            console.line(joined(cells))
            for line in _notes(task, is_dry):
                console.line(f"  {line}")
    console.line(_footer(cleanup, filters))
    for finding in cleanup["findings"]:
        console.line(f"{visible(finding['kind'])} {visible(finding['path'])}: {finding['why']}")
        console.line(f"  {visible(finding['remedy'])}")


def _row(task: "CleanedTask", is_dry: bool) -> list[str]:
    fate = {
        "removed": "can go" if is_dry else "removed",
        "kept": f"stays: {visible(task['why'])}",
        "gone": "went before",
    }
    return [
        visible(task["task"]),
        str(len(task["runs"])),
        _bytes(task["worktree_bytes"]),
        _bytes(task["home_bytes"]),
        _bytes(task["log_bytes"]),
        fate.get(task["state"] or "", ""),
    ]


def _bytes(count: int) -> str:
    return size(count) if count else NOTHING


def _notes(task: "CleanedTask", is_dry: bool) -> "Iterator[str]":
    """What one has to know about a task beyond its numbers."""
    if task["hint"]:
        yield visible(task["hint"])
    if task["salvage"]:
        done = "would be kept" if is_dry else "kept"
        yield f"{done} in {visible(task['salvage'])}: {', '.join(task['differs'])}"
    if task["ignored_files"] and task["state"] == "removed":
        files = "1 ignored file" if task["ignored_files"] == 1 else "ignored files"
        count = "" if task["ignored_files"] == 1 else f"{task['ignored_files']} "
        go = "would go" if is_dry else "went"
        yield f"{count}{files} {go} for good ({size(task['ignored_bytes'])})"


def _footer(cleanup: "Cleanup", filters: list[str]) -> str:
    count = len(cleanup["tasks"])
    if not count:
        return "nothing to clean up"
    tasks = ("1 task" if count == 1 else f"{count} tasks") + (
        " and more" if cleanup["truncated"] else ""
    )
    if not cleanup["dry_run"]:
        return f"{size(cleanup['bytes'])} freed, {tasks}"
    kept = f" {command(filters)}" if filters else ""
    return f"{size(cleanup['bytes'])} can go, {tasks}: coachman cleanup{kept} TASK, or --all"
