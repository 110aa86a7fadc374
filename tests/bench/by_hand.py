"""The same agent without coachman: its bwrap argv, a worktree that git adds, a few lines of ACP."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import evolve
from world import World, add_worktree, environment, remove_worktree

from coachman_adapters import ADAPTERS
from coachman_adapters import guest as guest_package
from coachman_sandbox.finder import find_bwrap
from coachman_sandbox.host import read_host
from coachman_sandbox.machine import Machine
from coachman_sandbox.probe import NEEDS, Probe
from coachmand.config import Config
from coachmand.config_file import ConfigFile
from coachmand.evidence.index import Index
from coachmand.evidence.rundir import RunDirectory
from coachmand.evidence.state import StateDirectory
from coachmand.repos.pool import GitWorkers
from coachmand.runs.admission import Admission
from coachmand.runs.boundary import Boundary, Outlook
from coachmand.runs.facts.clock import boot_id
from coachmand.runs.facts.record import Record
from coachmand.runs.preparing.launching import launch_record
from coachmand.runs.preparing.prepare import prepare
from coachmand.runs.preparing.worktree import admin_name
from coachmand.runs.services import Services
from coachmand.runs.tasks import TaskStore
from sandbox_launch import memfd

NAME = "hand"


class ByHand:
    """The sandbox of a run that has ended, as the daemon compiles it, over another worktree."""

    def __init__(self, world: World, run: str, number: int = 0) -> None:
        self._world = world
        state = StateDirectory.at(str(world.daemon.state))
        found = Record.of_json(RunDirectory(state.run(run)).read_request())
        self._speaks_acp = found.agent == "demo"
        self._has_tree = found.repository.is_there
        # The entry that git makes in the repository is named after the worktree's folder.
        name = f"{NAME}-{found.agent}-{number}"
        self.tree = world.root / admin_name(evolve(found, task=name))
        record = evolve(found, continuing=0)
        if self._has_tree:
            record = evolve(record, task=name, worktree=str(self.tree))
        directory = RunDirectory(world.root / name)
        for path in (directory.artifacts, directory.inputs, directory.scratch):
            path.mkdir(parents=True)
        self._launch = trio.run(_launch_record, world, state, record, directory)
        self._args: list[str] = self._launch["args"]
        if self._has_tree:
            remove_worktree(world.repo, self.tree)

    @contextmanager
    def worktree(self) -> Iterator[None]:
        """A fresh worktree where the argv expects it; none for a run that has no repository."""
        if not self._has_tree:
            yield
            return
        add_worktree(self._world.repo, self.tree)
        try:
            yield
        finally:
            remove_worktree(self._world.repo, self.tree)

    @property
    def binds(self) -> int:
        """How many places of the host its sandbox shows."""
        return sum(word.startswith(("--bind", "--ro-bind", "--dev-bind")) for word in self._args)

    def spawn(self) -> "subprocess.Popen[bytes]":
        """Start the agent in its sandbox."""
        data = [memfd(base64.b64decode(item)) for item in self._launch["data"]]
        tokens = {f"{{fd:{index}}}": str(fd) for index, fd in enumerate(data)}
        words = (os.fsencode(tokens.get(word, word)) for word in self._args)
        args = memfd(b"".join(word + b"\0" for word in words))
        try:
            return subprocess.Popen(
                [self._launch["bwrap"], "--args", str(args), "--", *self._launch["command"]],
                env={"PATH": os.environ["PATH"]},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(args, *data),
            )
        finally:
            for descriptor in (args, *data):
                os.close(descriptor)

    def bounded_run_s(self, prompt: str) -> float:
        """Worktree, sandbox, agent, its end: one run's time."""
        begun = time.perf_counter()
        with self.worktree():
            with self.spawn() as process:
                if self._speaks_acp:
                    converse(process, prompt)
                    process.communicate()
                else:
                    process.communicate(prompt.encode())
            taken = time.perf_counter() - begun
        if process.returncode:
            raise RuntimeError(f"the agent exited {process.returncode}")
        return taken

    def first_byte_s(self, prompt: str) -> float:
        """How long the agent alone takes to say something, its worktree being there."""
        with self.worktree():
            begun = time.perf_counter()
            with self.spawn() as process:
                assert process.stdin is not None
                assert process.stdout is not None
                if self._speaks_acp:
                    _send(process, 1, "initialize", protocolVersion=1, clientCapabilities={})
                else:
                    process.stdin.write(prompt.encode())
                    process.stdin.close()
                os.read(process.stdout.fileno(), 1)
                taken = time.perf_counter() - begun
                process.stdin.close()
                process.stdout.read()
        return taken


async def _launch_record(
    world: World, state: StateDirectory, record: Record, directory: RunDirectory
) -> dict[str, Any]:
    """What the daemon would hand to a keeper. Leaves the worktree that it makes for that."""
    env = environment(world.daemon)
    index = Index(world.root / "hand.db")
    index.close()
    walls = dict.fromkeys(NEEDS, Probe(True))
    boundary = Boundary(find_bwrap(env), walls, read_host(env), Machine())
    services = Services(
        state=state,
        config_file=ConfigFile.of(os.devnull),
        config=Config(),
        index=index,
        workers=GitWorkers(),
        adapters=ADAPTERS,
        outlook=Outlook(env, boundary),
        environment=env,
        generation=0,
        boot=boot_id(),
        python="",
        guest=str(Path(guest_package.__file__ or "").parent),
        admission=Admission(1),
    )
    if record.repository.is_there:
        tasks = TaskStore(state)
        tasks.add_run(tasks.get_or_new(record.repository, record.task), record.run)
    async with services.workers:
        launch = await prepare(record, directory, services, env)
    return launch_record(launch, services, "/", None)


def converse(process: "subprocess.Popen[bytes]", prompt: str) -> None:
    """One turn over ACP, then the end of stdin."""
    assert process.stdin is not None
    _ask(process, 1, "initialize", protocolVersion=1, clientCapabilities={})
    session = _ask(process, 2, "session/new", cwd="/workspace", mcpServers=[])["sessionId"]
    text = [{"type": "text", "text": prompt}]
    _ask(process, 3, "session/prompt", sessionId=session, prompt=text)


def _send(process: "subprocess.Popen[bytes]", number: int, method: str, **params: Any) -> None:
    assert process.stdin is not None
    document = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(document).encode() + b"\n")
    process.stdin.flush()


def _ask(process: "subprocess.Popen[bytes]", number: int, method: str, **params: Any) -> Any:
    _send(process, number, method, **params)
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == number:
            return message["result"]
    raise RuntimeError(f"the agent left before it answered {method}")
