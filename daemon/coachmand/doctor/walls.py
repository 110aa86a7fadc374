"""The kernel and bubblewrap: whether each kind of run can have its walls."""

import os
from collections.abc import Iterator

from coachman.diagnosis import failed, ok, warning
from coachman.results import Diagnosis
from coachman.wire import EXIT_BOUNDARY
from coachman_sandbox import causes, seccomp
from coachman_sandbox.probe import NEEDS, Need, Probe
from coachman_sandbox.profiles import Profile

from ..repos import landlock
from ..runs.boundary import Boundary, look
from ..runs.intake.network import configured_words
from ..runs.intake.profile import walls_of
from ..runs.services import Means

AREA = "boundary"
# Which runs have these needs, in words that follow "no" and "every".
RUNS: dict[tuple[Need, ...], str] = {
    NEEDS: "run",
    NEEDS[1:]: "isolated run",
    ("processes",): "run of profile host",
    ("walls",): "isolated run with the host's network",
    ("network",): "isolated run with a network of its own",
}
LANDLOCK_SINCE = "Linux 5.19"


def examined(means: Means) -> Iterator[Diagnosis]:
    """Look at the host anew, as a daemon with this environment does. Blocks."""
    boundary = look(means.environment)
    yield _machine(boundary)
    yield from _probes(boundary, default_need(means))
    yield _filter()
    yield confining(landlock.abi(), boundary.machine.kernel)


def default_need(means: Means) -> Need:
    """What a run needs that names neither profile nor network."""
    walls = configured_walls(means)
    if walls.native:
        return "processes"
    return "walls" if "host" in configured_words(walls, means) else "network"


def configured_walls(means: Means) -> Profile:
    """The profile of a run that names none, as it is configured."""
    walls = walls_of(means.config.profile, means)
    assert walls is not None, "the configuration was checked"
    return walls


def _machine(boundary: Boundary) -> Diagnosis:
    machine = boundary.machine
    told = [f"Linux {machine.kernel} on {os.uname().machine}", machine.named]
    told += causes.notes(machine)
    return ok(
        "machine",
        "machine",
        "; ".join(told),
        {
            "kernel": machine.kernel,
            "distribution": machine.distribution,
            "container": machine.container,
            "wsl": machine.wsl,
        },
    )


def _probes(boundary: Boundary, default: Need) -> Iterator[Diagnosis]:
    if (bwrap := boundary.bwrap) is not None:
        found = f"bubblewrap {bwrap.version}: {bwrap.why}"
        yield ok(AREA, "bubblewrap", found, {"path": bwrap.path, "source": bwrap.source})
    told: list[Probe] = []
    for need in NEEDS:
        found_so = boundary.probes[need]
        if found_so not in told:
            told.append(found_so)
            yield _probed(found_so, boundary, default)


def _probed(found: Probe, boundary: Boundary, default: Need) -> Diagnosis:
    """All needs that were answered alike, in one check."""
    needs: tuple[Need, ...] = tuple(need for need in NEEDS if boundary.probes[need] == found)
    about = {"needs": list(needs)}
    if found.ok:
        return ok(AREA, "walls", f"every {_named(needs)} can be walled in", about)
    besides = " but with -p host --native" if needs == NEEDS else ""
    cause = f"no {_named(needs)}{besides} can start: {found.cause}"
    if NEEDS.index(needs[0]) > NEEDS.index(default):
        return warning(AREA, "walls", cause, found.remedy or "", about)
    return failed(AREA, "walls", cause, found.remedy or "", about, exit=EXIT_BOUNDARY)


def _named(needs: tuple[Need, ...]) -> str:
    return RUNS.get(needs) or " or ".join(RUNS[(need,)] for need in needs)


def _filter() -> Diagnosis:
    try:
        digest = seccomp.digest("strict")
    except seccomp.FilterMissing as error:
        text = "run coachman on such a machine, or with --profile host"
        return failed(AREA, "filter", str(error), text, exit=EXIT_BOUNDARY)
    return ok(AREA, "filter", f"a system call filter for {seccomp.MACHINE}", {"sha256": digest})


def confining(abi: int, kernel: str) -> Diagnosis:
    """Whether git can be confined with this ABI of Landlock; pure."""
    if abi >= landlock.MIN_ABI:
        return ok(AREA, "landlock", f"Landlock ABI {abi} confines git", {"abi": abi})
    if abi == 0:
        cause = f"the kernel ({kernel}) has no Landlock, or it is switched off"
    else:
        cause = f"the kernel ({kernel}) has Landlock ABI {abi}, and {landlock.MIN_ABI} is needed"
    return failed(
        AREA,
        "landlock",
        f"git, inputs and artifacts cannot be confined: {cause}",
        f"boot {LANDLOCK_SINCE} or newer with landlock in the `lsm=` list"
        " (cat /sys/kernel/security/lsm)",
        {"abi": abi},
        exit=EXIT_BOUNDARY,
    )
