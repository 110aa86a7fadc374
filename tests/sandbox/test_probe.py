"""Naming why the walls cannot be built."""

import pytest

from coachman_sandbox.finder import Bwrap
from coachman_sandbox.probe import KernelFacts, classify, kernel_facts, probe

UID_MAP = "bwrap: setting up uid map: Permission denied"
LOOPBACK = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"
NAMESPACE = "bwrap: Creating new namespace failed: Operation not permitted"
NO_SPACE = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces"
PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"


@pytest.mark.parametrize(
    ("stderr", "facts", "cause", "remedy"),
    [
        (UID_MAP, KernelFacts(apparmor_restricts=True), "AppArmor", "bwrap-userns-restrict"),
        (LOOPBACK, KernelFacts(apparmor_restricts=True), "AppArmor", "/usr/bin/bwrap"),
        (NAMESPACE, KernelFacts(userns_clone=0), "unprivileged_userns_clone is 0", "sysctl -w"),
        (NO_SPACE, KernelFacts(max_user_namespaces=0), "max_user_namespaces is 0", "sysctl -w"),
        (PROC, KernelFacts(container=True), "/proc is masked", "unmask=ALL"),
        (NAMESPACE, KernelFacts(container=True), "system call filter", "seccomp"),
        (NAMESPACE, KernelFacts(), "security module", "kernel's log"),
        ("bwrap: something new", KernelFacts(), "something new", "doctor"),
        ("", KernelFacts(), "nothing", "doctor"),
    ],
)
def test_a_failure_is_named_with_its_remedy(
    stderr: str, facts: KernelFacts, cause: str, remedy: str
) -> None:
    """What bubblewrap said and what the kernel says together tell cause and remedy."""
    found = classify(stderr, facts)
    assert not found.ok
    assert cause in (found.cause or "")
    assert remedy in (found.remedy or "")
    assert stderr in (found.cause or "")


def test_a_bubblewrap_that_fails_is_not_ok() -> None:
    """The probe runs it for real and believes its exit status."""
    found = probe(Bwrap("/usr/bin/false", "0.8", "system", ""))
    assert not found.ok
    missing = probe(Bwrap("/nonexistent/bwrap", "0.8", "system", ""))
    assert "cannot be run" in (missing.cause or "")


def test_the_kernels_facts_can_be_read() -> None:
    """On any kernel they are numbers or absent."""
    assert kernel_facts().max_user_namespaces != 0
