"""Records opencode's side of the protocol into ``tests/adapters/fixtures/opencode``.

    python tests/agents/record.py OPENCODE_EXECUTABLE [SCENARIO...]

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
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(ROOT / "adapters")]

from model_server import ModelServer  # noqa: E402

from agents_driver import Drive, choose, is_ask, is_event  # noqa: E402
from agents_replay import TRANSCRIPTS, replay, stdin_of  # noqa: E402
from coachman_adapters import ADAPTERS  # noqa: E402
from coachman_adapters.conversation import AgentRequest, SessionKnown  # noqa: E402

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
    "two_turns": {"prompts": ["SAY one", "SAY two"], "keep": True, "model": "fake-small"},
    "wrong_model": {"prompts": ["SAY never"], "model": "fake/nothing"},
    "wrong_session": {"prompts": ["SAY never"], "session": "ses_nosuchsession0000000000"},
}
ADAPTER = ADAPTERS["opencode"]


class Bench:
    """One scratch home and workspace, and a model."""

    def __init__(self, executable: str, scratch: Path, model: ModelServer) -> None:
        self.executable = executable
        self.home, self.work = scratch / "home", scratch / "work"
        config = self.home / ".config" / "opencode" / "opencode.json"
        config.parent.mkdir(parents=True)
        self.work.mkdir()
        config.write_text(json.dumps(model.opencode_config()))

    def drive(self, request: AgentRequest, scenario: dict[str, Any]) -> Drive:
        plan = ADAPTER.plan(request)
        argv = [self.executable, *plan.argv[1:]]
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], **plan.env}
        hooks = {name: scenario[name] for name in ("decide", "cancel_when") if name in scenario}
        hooks.setdefault("decide", ALLOW if "cancel_when" not in scenario else None)
        drive = Drive(ADAPTER.converse(request), argv, cwd=self.work, env=env, **hooks)

        def export() -> str | None:
            known = [a.session for a in drive.actions if isinstance(a, SessionKnown)]
            if not known:
                return None
            words = {"{executable}": self.executable, "{session}": known[0]}
            command = [words.get(word, word) for word in plan.epilogue]
            scratch = {**env, "TMPDIR": str(self.home)}
            done = subprocess.run(command, env=scratch, stdout=subprocess.PIPE, check=False)
            return done.stdout.decode() if done.returncode == 0 else None

        drive.run(scenario["prompts"], export)
        finish = drive.steps[-1]["finish"]
        # Its stderr is source code of the build, of no use to anyone here.
        finish["stderr"] = finish["stderr"] if finish["exit_code"] else ""
        return drive


def record(executable: str, name: str) -> None:
    """Drive one scenario and write its transcript."""
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as scratch, ModelServer() as model:
        bench = Bench(executable, Path(scratch), model)
        session = scenario.get("session")
        if "before" in scenario:
            request = AgentRequest(cwd=str(bench.work), home=str(bench.home))
            before = bench.drive(request, {"prompts": scenario["before"]})
            session = next(a.session for a in before.actions if isinstance(a, SessionKnown))
            model.requests.clear()
        request = AgentRequest(
            cwd=str(bench.work),
            home=str(bench.home),
            model=scenario.get("model"),
            keep=scenario.get("keep", False),
            session=session,
        )
        drive = bench.drive(request, scenario)
        told = {
            "cwd": request.cwd,
            "model": request.model,
            "keep": request.keep,
            "session": session,
            "usage": model.totals(),
            "stdin": stdin_of(drive.actions).decode(),
            "steps": drive.steps,
        }
        text = clean(json.dumps(told, indent=1, ensure_ascii=False), Path(scratch))
    check(json.loads(text))
    TRANSCRIPTS.mkdir(parents=True, exist_ok=True)
    (TRANSCRIPTS / f"{name}.json").write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


def clean(text: str, scratch: Path) -> str:
    """``text`` without this machine's paths, times and the agent's random ids."""
    for path, known in ((scratch / "work", "/workspace"), (scratch / "home", "/home/agent")):
        for form in (str(path), str(path).lstrip("/")):
            text = text.replace(form, known if form.startswith("/") else known.lstrip("/"))
    text = re.sub(r"\b1[5-9]\d{11}\b", "1700000000000", text)
    seen: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        kind = match[1]
        count = sum(known.startswith(kind) for known in seen.values()) + 1
        return seen.setdefault(match[0], f"{kind}{count:04d}")

    return re.sub(r"\b(ses_|msg_|prt_|call_|per_)(?!nosuch)[0-9A-Za-z]{8,}", number, text)


def check(told: dict[str, Any]) -> None:
    """A cleaned transcript must still replay to its own stdin."""
    request = AgentRequest(
        cwd=told["cwd"],
        home="/home/agent",
        model=told["model"],
        keep=told["keep"],
        session=told["session"],
    )
    written = stdin_of(replay(ADAPTER.converse(request), told["steps"]))
    if written.decode() != told["stdin"]:
        raise SystemExit("cannot keep the recording: it does not replay to the same stdin")


if __name__ == "__main__":
    for chosen in sys.argv[2:] or SCENARIOS:
        record(sys.argv[1], chosen)
