"""The bench: run.py [NAME…] [--quick] [--json FILE] prints a table of figures.

Nothing is asserted here: a missed target is told, and the exit code is 0. Only a
row that could not be measured at all makes it 1.
"""

import argparse
import importlib
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from figures import ROWS, Figure, Row, as_json, table  # noqa: E402 - found through sys.path
from timing import machine  # noqa: E402
from world import Bench  # noqa: E402

MODULES = (
    "row_worktree",
    "row_command",
    "row_shell",
    "row_ping",
    "row_journal",
    "row_run",
    "row_first_event",
    "row_profiles",
    "row_inputs",
    "row_executable",
    "row_get",
    "row_streams",
    "row_restart",
    "row_fanout",
    "row_memory",
    "row_retained",
    "row_batch",
    "row_agents",
)
ROW_LIMIT_S = 240
BENCH_LIMIT_S = 360.0


def main(argv: list[str]) -> int:
    """Measure the named rows, all by default; print the table."""
    for module in MODULES:
        importlib.import_module(module)
    options = _options(argv)
    if options.list:
        print("\n".join(f"{row.name:12} {row.summary}" for row in ROWS.values()))
        return 0
    wanted = [row for row in ROWS.values() if _is_wanted(row, options)]
    found, failed = _measure(wanted, Bench(options.quick, options.dir))
    print(table(figure for figures in found.values() for figure in figures))
    _print_details(found)
    if options.json is not None:
        text = as_json(found, machine=machine(), quick=options.quick, failed=failed)
        Path(options.json).write_text(text)
    if failed:
        print(f"cannot measure: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _is_wanted(row: Row, options: argparse.Namespace) -> bool:
    if options.agents and not row.wanted:
        return True
    if options.names or options.agents:
        return row.name in options.names
    return row.wanted


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to measure (default: all)")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument(
        "--agents", action="store_true", help="measure the real agents that are installed"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, below 90 s")
    parser.add_argument("--json", metavar="FILE", help="write everything measured there")
    parser.add_argument(
        "--dir",
        default=tempfile.gettempdir(),
        help="where to make temporary state (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in ROWS]
    if unknown:
        parser.error(f"no row is named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return options


def _measure(rows: Iterable[Row], bench: Bench) -> tuple[dict[str, list[Figure]], list[str]]:
    found: dict[str, list[Figure]] = {}
    failed = []
    ends = time.monotonic() + BENCH_LIMIT_S
    for row in rows:
        left_s = int(min(ROW_LIMIT_S, ends - time.monotonic()))
        print(f"{row.name}: {row.summary}", file=sys.stderr, flush=True)
        found[row.name] = []
        try:
            _measure_row(row, bench, found[row.name], left_s)
        except Exception:
            failed.append(row.name)
            traceback.print_exc()
    return found, failed


def _measure_row(row: Row, bench: Bench, found: list[Figure], limit_s: int) -> None:
    if limit_s <= 0:
        raise TimeoutError(f"the bench is bounded by {BENCH_LIMIT_S:.0f} s")
    begun = time.monotonic()
    signal.alarm(limit_s)
    try:
        for figure in row.measure(bench):
            found.append(figure)
    finally:
        signal.alarm(0)
    print(f"  {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)


def _terminated(_number: int, _frame: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _out_of_time(_number: int, _frame: object) -> None:
    raise TimeoutError("the row is out of time")


def _print_details(found: dict[str, list[Figure]]) -> None:
    for figures in found.values():
        for figure in figures:
            if figure.detail:
                told = ", ".join(f"{name} {value}" for name, value in figure.detail.items())
                print(f"\n{figure.what}:\n  {told}")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(main(sys.argv[1:]))
