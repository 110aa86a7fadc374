"""What a sandbox may take of the machine: the kernel's part and the keeper's."""

import pytest

from coachmand.keeper import caps
from keeper_attempts import Attempt, proc, until

pytest_plugins = ("keeper_fixtures",)

GREEDY = "import time; kept = bytearray(256 << 20); print('took', flush=True); time.sleep(600)"
# Five children share what their parent has.
SHARING = """
import os, time
kept = bytearray(48 << 20)
for _ in range(5):
    if os.fork() == 0:
        time.sleep(%d)
        os._exit(0)
for _ in range(5):
    os.wait()
print("shared")
"""


async def test_the_kernel_ends_an_agent_before_others(attempt: Attempt) -> None:
    """The score is the agent's and its children's, not the keeper's, and on record."""
    await attempt.shell("cat /proc/self/oom_score_adj; sleep 600", oom_score_adj=500)
    await until(lambda: attempt.stream("stdout") == b"500\n")
    assert proc(attempt.pid, "oom_score_adj") == b"0\n"
    assert attempt.state["caps"] == {"oom_score": True}


async def test_more_memory_than_may_be_taken_ends_the_tree(attempt: Attempt) -> None:
    """It is looked at where no cgroup holds it; the record says why the agent ended."""
    await attempt.python(GREEDY, memory_limit_bytes=64 << 20)
    record = await attempt.exit()
    assert (record["ended_by"], record["exit_code"]) == ("memory_limit", 137)
    assert attempt.stream("stdout") == b"took\n"


async def test_shared_memory_counts_once(attempt: Attempt) -> None:
    """Six processes with the same 48 MiB are no reason, though each has them resident."""
    script = SHARING % (3 * caps.LOOK_EVERY_S)
    await attempt.python(script, memory_limit_bytes=160 << 20)
    record = await attempt.exit()
    assert (record["ended_by"], attempt.stream("stdout")) == ("agent", b"shared\n")


async def test_more_tasks_than_may_be_there_end_the_tree(attempt: Attempt) -> None:
    """Root is exempt from the kernel's limit, so that the keeper counts; others cannot fork on."""
    script = "for _ in $(seq 40); do sleep 600 & done; echo all; wait"
    await attempt.shell(script, tasks_limit=20)
    record = await attempt.exit()
    held = attempt.state["caps"]["tasks"]
    assert record["ended_by"] == ("agent" if held else "task_limit")
    assert (attempt.stream("stdout") == b"all\n") is not held


@pytest.mark.parametrize("name", ["memory_limit_bytes", "tasks_limit", "oom_score_adj"])
async def test_a_limit_of_nothing_is_refused(attempt: Attempt, name: str) -> None:
    """A record with a limit that is no positive number starts nothing."""
    with pytest.raises(Exception, match=f"`{name}` must be a positive number"):
        await attempt.shell("true", **{name: 0})
