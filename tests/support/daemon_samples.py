"""What a daemon takes of the machine, sampled from outside, and whether any of it grows."""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

from attrs import asdict, fields, frozen

from coachmand.evidence.rundir import RunDirectory
from daemon_process import DaemonProcess

MIB = 1024 * 1024
# How much more of each there may be at the end of a life's measured time than at its beginning, as
# the line through the samples has it. Clients come and go, so numbers go up and down by as much.
GROWTH: Mapping[str, float] = {
    "rss_mib": 8,
    "pss_mib": 6,
    "private_mib": 6,
    "descriptors": 16,
    "sockets": 12,
    "threads": 6,
    "loop_tasks": 30,
    "children": 3,
    "workers_mib": 6,
    "keepers": 5,
    "keeper_mib": 0.5,
    "journal_kib": 16,
}
# What is left of the storm in a daemon that has nothing more to do.
LEFT: Mapping[str, float] = {
    "pss_mib": 12,
    "private_mib": 12,
    "descriptors": 0,
    "sockets": 0,
    "threads": 0,
    "loop_tasks": 0,
    "children": 0,
    "keepers": 0,
}
UNKNOWN = float("nan")


@frozen
class Sample:
    """One look at a daemon. ``children`` are its git workers, ``workers_mib`` their private
    memory; ``keeper_mib`` is that of one keeper, and ``journal_kib`` the bytes of one journal,
    each on average. What the kernel does not show to this user is not a number."""

    at_s: float
    instance: str
    living: int
    rss_mib: float
    pss_mib: float
    private_mib: float
    descriptors: float
    sockets: float
    threads: int
    loop_tasks: int
    children: int
    workers_mib: float
    keepers: int
    keeper_mib: float
    journal_kib: float


def take(daemon: DaemonProcess) -> Sample:
    """Look at ``daemon`` now."""
    with daemon.client() as client:
        status = client.daemon.status()
    pid = status["pid"]
    memory, open_files = memory_of(pid), descriptors_of(pid)
    children, keepers = children_of(pid), daemon.keepers()
    return Sample(
        at_s=time.monotonic(),
        instance=status["instance"],
        living=sum(status["runs"].values()),
        rss_mib=memory["Rss"],
        pss_mib=memory["Pss"],
        private_mib=memory["Private"],
        descriptors=UNKNOWN if open_files is None else len(open_files),
        sockets=UNKNOWN
        if open_files is None
        else sum(name.startswith("socket:") for name in open_files),
        threads=len(os.listdir(f"/proc/{pid}/task")),
        # The connection that asks is not the daemon's own.
        loop_tasks=status["loop_tasks"],
        children=len(children),
        workers_mib=sum(_private(children)),
        keepers=len(keepers),
        keeper_mib=_mean(_private(keepers)),
        journal_kib=_mean(_journals(daemon)) / 1024,
    )


def memory_of(pid: int) -> dict[str, float]:
    """MiB of a process. One that may not be dumped shows only root its exact numbers; to others
    its resident and anonymous pages, which is a little more."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except PermissionError:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
        anonymous = kib["RssAnon"] / 1024
        return {"Rss": kib["VmRSS"] / 1024, "Pss": anonymous, "Private": anonymous}
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    return {"Rss": kib["Rss"] / 1024, "Pss": kib["Pss"] / 1024, "Private": private / 1024}


def descriptors_of(pid: int) -> list[str] | None:
    """What each open descriptor of a process is; None where only root may know."""
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return None
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def children_of(pid: int) -> list[int]:
    """The living child processes of ``pid``, whichever of its threads started them."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _private(pids: Iterable[int]) -> list[float]:
    found = []
    for pid in pids:
        with contextlib.suppress(OSError, KeyError):
            found.append(memory_of(pid)["Private"])
    return found


def _journals(daemon: DaemonProcess) -> list[float]:
    sizes = []
    for path in (daemon.state / "runs").iterdir():
        with contextlib.suppress(FileNotFoundError):
            sizes.append(float(RunDirectory(path).journal.stat().st_size))
    return sizes


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def lives(samples: Sequence[Sample], warm_up_s: float) -> list[list[Sample]]:
    """The samples of each daemon that there was, without those of its first seconds."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.instance, []).append(sample)
    return [
        [sample for sample in life if sample.at_s - life[0].at_s >= warm_up_s]
        for life in found.values()
    ]


def growth(life: Sequence[Sample], name: str) -> float:
    """How much more of ``name`` there is at a life's end, by the median of the slopes between any
    two samples: neither one that is far off nor the last one decides."""
    points = [(sample.at_s, float(getattr(sample, name))) for sample in life]
    slopes = [(b - a) / (t - s) for (s, a), (t, b) in combinations(points, 2)]
    return median(slopes) * (points[-1][0] - points[0][0]) if slopes else 0.0


def grown(samples: Sequence[Sample], warm_up_s: float) -> list[str]:
    """What grew beyond its bound in any life."""
    return [
        f"{name} grew by {more:.1f} within {life[-1].at_s - life[0].at_s:.0f} s, at most {most}"
        for life in lives(samples, warm_up_s)
        for name, most in GROWTH.items()
        if (more := growth(life, name)) > most
    ]


def left_over(before: Sample, after: Sample, bounds: Mapping[str, float] = LEFT) -> list[str]:
    """What there is more of than before the storm, when all is quiet again."""
    return [
        f"{name} is {getattr(after, name):.1f}, it was {getattr(before, name):.1f}"
        for name, most in bounds.items()
        if getattr(after, name) - getattr(before, name) > most
    ]


def table(samples: Sequence[Sample], warm_up_s: float = 0.0) -> str:
    """Every sample, and under each life how much it grew and might have."""
    names = [f.name for f in fields(Sample) if f.name not in ("at_s", "instance")]
    rows = [_row("at s", names)]
    for life in lives(samples, 0.0):
        rows += [_row(f"{s.at_s - samples[0].at_s:.0f}", _shown(asdict(s), names)) for s in life]
        warm = [sample for sample in life if sample.at_s - life[0].at_s >= warm_up_s]
        if len(warm) > 1:
            more = {name: growth(warm, name) for name in GROWTH}
            rows += [_row("grew", _shown(more, names)), _row("may", _shown(GROWTH, names))]
    return "\n".join(rows)


def _shown(values: Mapping[str, object], names: Iterable[str]) -> list[str]:
    found = (values.get(name, "") for name in names)
    return [f"{x:.1f}" if isinstance(x, float) else str(x) for x in found]


def _row(first: str, cells: Iterable[str]) -> str:
    return f"{first:>6}" + "".join(f"{cell:>12}" for cell in cells)
