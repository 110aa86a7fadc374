"""Records a real agent's side of its protocol into ``tests/adapters/fixtures/<part>``.

    python tests/agents/record.py AGENTS_DIRECTORY PART [SCENARIO...]

Runs the real CLI in scratch directories against the scripted model, driven by the
adapter's own conversation. Paths, ids and times are replaced, so that a recording
says nothing of the machine it was made on.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(ROOT / "adapters")]

from model_server import ModelServer  # noqa: E402
from parts import PARTS, Part  # noqa: E402

from agents_driver import Drive, choose, is_ask, is_event  # noqa: E402
from agents_replay import FIXTURES, Step, replay, request_of, stdin_of  # noqa: E402
from coachman_adapters.conversation import AgentRequest, SessionKnown  # noqa: E402
from coachman_adapters.seeds import content_of  # noqa: E402

GUEST = ROOT / "adapters" / "coachman_adapters" / "guest"
ALLOW, DENY = choose("allow_once"), choose("reject_once")
SCENARIOS: dict[str, dict[str, Any]] = {
    "say": {"prompts": ["SAY hello world"]},
    "write_allowed": {"prompts": ["WRITE notes.md hello"], "decide": ALLOW},
    "write_denied": {"prompts": ["WRITE notes.md hello"], "decide": DENY},
    "run": {"prompts": ["RUN echo hi && exit 3\nTHINK what now"], "decide": ALLOW},
    "cancel_stream": {
        "prompts": ["SLOW 20 one two three four five six seven eight nine ten"],
        "cancel_when": is_event("agent.message_chunk"),
    },
    "cancel_question": {"prompts": ["WRITE notes.md hello"], "cancel_when": is_ask},
    "cancel_tool": {
        "prompts": ["RUN sleep 30"],
        "decide": ALLOW,
        "cancel_when": is_event("tool.call_update", status="in_progress"),
    },
    "model_error": {"prompts": ["FAIL 400"]},
    "resume": {"prompts": ["WRITE again.md more\nSAY well"], "before": ["SAY first"]},
    "two_turns": {"prompts": ["SAY one", "SAY two"], "keep": True},
    "wrong_session": {"prompts": ["SAY never"], "session": True},
}
# What a scenario may ask for beside its part.
OTHER = ("model", "permissions", "words", "as_agent")
UUID = r"\b()[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
NOBODYS_UUID = "00000000-0000-4000-8000-"
# As a path, below another one, and as a directory's name.
FORMS: tuple[Callable[[str], str], ...] = (
    str,
    lambda path: path.lstrip("/"),
    lambda path: path.lstrip("/").replace("/", "-"),
)
ISO_TIME = r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"
EPOCH_MS = r"\b1[5-9]\d{11}\b"


def scenarios(part: Part) -> dict[str, dict[str, Any]]:
    """What ``part`` plays."""
    every = {**SCENARIOS, **part.scenarios}
    return {name: dict(scenario) for name, scenario in every.items() if scenario is not None}


class Bench:
    """One scratch home and workspace of a user of the agent, and a model."""

    def __init__(self, part: Part, agents: Path, scratch: Path, model: ModelServer) -> None:
        self.part, self.model = part, model
        self.adapter = part.agent
        self.bin = agents / "node_modules" / ".bin"
        self.executable = str(agents / "node_modules" / part.executable)
        self.home, self.work = scratch / "home", scratch / "work"
        self.work.mkdir()
        self.env = part.env(model)
        for name, text in part.files(model).items():
            self._put(name, text.encode())

    def _put(self, name: str, content: bytes) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def request(self, **members: Any) -> AgentRequest:
        """A request for this bench; ``members`` differ from the part's own."""
        own: dict[str, Any] = {"permissions": self.part.permissions, "model": self.part.model}
        own["env_names"] = frozenset(self.env) & frozenset(self.adapter.spec.environment)
        return AgentRequest(cwd=str(self.work), home=str(self.home), **{**own, **members})

    def drive(self, request: AgentRequest, scenario: dict[str, Any]) -> Drive:
        plan = self.adapter.plan(request)
        for seed in plan.seeds:
            own = self.part.files(self.model).get(seed.path)
            self._put(seed.path, content_of(seed, own.encode() if own else None))
        words = {"{executable}": self.executable, "{python}": sys.executable}
        # Outside a sandbox our own programs are where they are.
        argv = [words.get(w, w).replace("/run/coachman", str(GUEST)) for w in plan.argv]
        path = f"{self.bin}:{os.environ['PATH']}"
        own = {**self.env, **scenario.get("env", {})}
        env = {"HOME": str(self.home), "PATH": path, **own, **plan.env}
        hooks = {name: scenario[name] for name in ("decide", "cancel_when") if name in scenario}
        hooks.setdefault("decide", ALLOW if "cancel_when" not in scenario else None)
        drive = Drive(self.adapter.converse(request), argv, cwd=self.work, env=env, **hooks)

        def epilogue() -> str | None:
            known = [a.session for a in drive.actions if isinstance(a, SessionKnown)]
            if not plan.epilogue or not known:
                return None
            said = {**words, "{session}": known[0]}
            command = [said.get(word, word) for word in plan.epilogue]
            scratch = {**env, "TMPDIR": str(self.home)}
            done = subprocess.run(command, env=scratch, stdout=subprocess.PIPE, check=False)
            return done.stdout.decode() if done.returncode == 0 else None

        drive.run([self.part.prompt(text, request.cwd) for text in scenario["prompts"]], epilogue)
        finish = drive.steps[-1]["finish"]
        # Its stderr is source code of the build, of no use to anyone here.
        finish["stderr"] = finish["stderr"] if finish["exit_code"] else ""
        return drive


def record(part: Part, agents: Path, name: str) -> None:
    """Drive one scenario and write its transcript."""
    scenario = scenarios(part)[name]
    with tempfile.TemporaryDirectory(dir=Path.home()) as scratch, ModelServer() as model:
        bench = Bench(part, agents, Path(scratch), model)
        session = part.wrong_session if scenario.get("session") else None
        counters = None
        if "before" in scenario:
            before = bench.drive(bench.request(), {"prompts": scenario["before"]})
            session = next(a.session for a in before.actions if isinstance(a, SessionKnown))
            told_counters = before.session_counters
            counters = dict(told_counters) if told_counters else None
            model.requests.clear()
        kept = {"keep": scenario.get("keep", False), "session": session}
        other = {key: scenario[key] for key in OTHER if key in scenario}
        request = bench.request(**kept, session_counters=counters, **other)
        drive = bench.drive(request, scenario)
        told = {
            "cwd": request.cwd,
            "permissions": request.permissions,
            **({"words": True} if request.words else {}),
            "model": request.model,
            "as_agent": request.as_agent,
            "env_names": sorted(request.env_names),
            **kept,
            "session_counters": counters,
            "usage": model.totals(),
            "stdin": stdin_of(drive.actions).decode(),
            "steps": shortened(drive.steps, part),
        }
        text = clean(json.dumps(told, indent=1, ensure_ascii=False), Path(scratch), model, part)
    check(part, json.loads(text))
    directory = FIXTURES / part.name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


def shortened(steps: list[Step], part: Part) -> list[Step]:
    """``steps`` with whole lines, each as the part shortens it; as they are where it does not."""
    if part.shorten is None:
        return steps
    found: list[Step] = []
    held = ""
    for step in steps:
        if "stdout" not in step:
            found.append(step)
            continue
        *lines, held = (held + step["stdout"]).split("\n")
        frames = [part.shorten(json.loads(line)) for line in lines]
        text = "".join(json.dumps(frame, ensure_ascii=False) + "\n" for frame in frames)
        found += [{"stdout": text}] if text else []
    return found


def clean(text: str, scratch: Path, model: ModelServer, part: Part) -> str:
    """``text`` without this machine's paths, times and the agent's random ids."""
    for path, known in ((scratch / "work", "/workspace"), (scratch / "home", "/home/agent")):
        for form in FORMS:
            text = text.replace(form(str(path)), form(known))
    text = text.replace(f"127.0.0.1:{model.port}", "127.0.0.1:8080")
    text = re.sub(EPOCH_MS, "1700000000000", text)
    text = re.sub(ISO_TIME, "2023-11-14T22:13:20.000Z", text)
    for pattern in (*part.ids, UUID):
        text = _numbered(text, pattern, part.wrong_session)
    return text


def _numbered(text: str, pattern: str, kept: str) -> str:
    seen: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        if match[0] == kept or match[0].startswith(NOBODYS_UUID):
            return match[0]
        kind = match[1]
        count = sum(known.startswith(kind) for known in seen.values()) + 1
        new = f"{kind}{count:04d}" if kind else f"{NOBODYS_UUID}{count:012d}"
        return seen.setdefault(match[0], new)

    return re.sub(pattern, number, text)


def check(part: Part, told: dict[str, Any]) -> None:
    """A cleaned transcript must still replay to its own stdin."""
    conversation = part.agent.converse(request_of(told))
    written = stdin_of(replay(conversation, told["steps"]))
    if written.decode() != told["stdin"]:
        raise SystemExit("cannot keep the recording: it does not replay to the same stdin")


if __name__ == "__main__":
    agents_directory, part_name, *chosen = sys.argv[1:]
    for scenario_name in chosen or scenarios(PARTS[part_name]):
        record(PARTS[part_name], Path(agents_directory).resolve(), scenario_name)
