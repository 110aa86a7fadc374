"""A tiny launcher: executes what the compiler made, as the keeper does, and waits."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, frozen

from coachman_sandbox import bubblewrap, host, profiles
from coachman_sandbox.finder import CLEAN_ENV
from coachman_sandbox.policy import AgentAccess, GitView, Place, Policy

LAUNCH_LIMIT_S = 60.0


def memfd(content: bytes) -> int:
    """A descriptor that reads ``content`` from its start."""
    descriptor = os.memfd_create("sandbox-test")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def spawn(
    bwrap: str,
    policy: Policy,
    command: Sequence[str],
    env: dict[str, str] | None = None,
    uid: int | None = None,
) -> "subprocess.Popen[str]":
    """Start ``command`` inside; its output is piped, its descriptors are closed on our side.

    ``uid`` is whom bubblewrap runs as, where that is not we.
    """
    compiled = bubblewrap.compile_policy(policy)
    data = [memfd(content) for content in compiled.data]
    tokens = {f"{{fd:{index}}}": str(descriptor) for index, descriptor in enumerate(data)}
    args = memfd(b"".join(os.fsencode(tokens.get(arg, arg)) + b"\0" for arg in compiled.args))
    try:
        return subprocess.Popen(
            [bwrap, "--args", str(args), "--", *command],
            env=CLEAN_ENV if env is None else env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=(args, *data),
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )
    finally:
        for descriptor in (args, *data):
            os.close(descriptor)


def run(
    bwrap: str, policy: Policy, command: Sequence[str], uid: int | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` inside to its end."""
    with spawn(bwrap, policy, command, uid=uid) as process:
        try:
            out, err = process.communicate(timeout=LAUNCH_LIMIT_S)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@frozen
class Box:
    """A run's directories below one root, and the sandbox over them.

    ``uid`` is whom bubblewrap runs as, where that is not we.
    """

    root: Path
    bwrap: str
    place: Place
    host: host.Host
    uid: int | None = None

    def belonging_to(self, uid: int) -> "Box":
        """The same for another user, who owns the run's directories."""
        for path in sorted(self.root.glob("state/*")):
            os.chown(path, uid, uid)
        return evolve(self, host=evolve(self.host, uid=uid, gid=uid), uid=uid)

    def spawn(self, *command: str, access: AgentAccess | None = None) -> "subprocess.Popen[str]":
        return spawn(self.bwrap, self.policy(access), command, uid=self.uid)

    def policy(self, access: AgentAccess | None = None) -> Policy:
        return profiles.edit(self.place, access or AgentAccess(), self.host)

    def run(
        self, *command: str, access: AgentAccess | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return run(self.bwrap, self.policy(access), command, self.uid)

    def sh(self, script: str, access: AgentAccess | None = None) -> str:
        """What a shell script prints inside, both streams; it may fail."""
        done = self.run("/bin/sh", "-c", script, access=access)
        return done.stdout + done.stderr


def make_box(root: Path, bwrap: str, git: GitView | None = None, workspace: str = "tree") -> Box:
    """A place below ``root``/state, with empty directories where nothing is yet."""
    state = root / "state"
    made = {
        name: state / name for name in ("tree", "home", "scratch", "artifacts", "inputs", "guest")
    }
    for directory in made.values():
        directory.mkdir(parents=True, exist_ok=True)
    place = Place(
        workspace=str(root / workspace) if git else str(made["tree"]),
        subfolder="",
        git=git,
        home=str(made["home"]),
        scratch=str(made["scratch"]),
        output=str(made["artifacts"]),
        inputs=str(made["inputs"]),
        guest=str(made["guest"]),
        state_dir=str(state),
    )
    return Box(root, bwrap, place, host.read_host({}))
