"""The runs that a storm of deaths is about: what each uses, and what must be true of it."""

import contextlib
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import define, field

import coachman
from daemon_process import DaemonProcess
from permission_desk import program

Kind = Callable[[coachman.Client, Path, str], "Watched"]
Result = dict[str, Any]

ENDS_WITHIN_S = 60.0
FED_WITHIN_S = 20.0
AT_ONCE = 3
WORK = ("chunks 30\nrun sleep 0.1\nsay {word}", "run sleep 0.2\nwrite {word}.txt x\nsay {word}")
AGAIN = WORK[0]
ASKS = "ask one\nchunks 20\nask two\nsay {word}"
# Enough said for a checkpoint.
LONG = "chunks 12000\nsay {word}"
HANDED = "run cat /inputs/spec.txt /inputs/parts/* > /output/report.txt\nsay {word}"
WONDERS = "run coachman ask Which? --option red --timeout 20s\nsay {word}"
BEARS = "run coachman run -q -d -a demo 'sleep 600'\nrun sleep 0.2\nsay {word}"
GIVEN = {"spec.txt": b"what is wanted\n", "parts/a": b"a\n", "parts/b": b"b\n"}
REPORT = b"".join(GIVEN.values())
# How every other repository has its worktrees set up.
COPIED, MADE = "copied.txt", "made.txt"


@define
class Watched:
    """One run: what its clients saw and were promised."""

    run: str
    word: str
    kept: bool = False
    handed: bool = False
    asks_in_words: bool = False
    has_family: bool = False
    seen: dict[int, dict[str, Any]] = field(factory=dict)
    answers: dict[str, str] = field(factory=dict)
    replies: set[str] = field(factory=set)
    prompts: dict[int, str] = field(factory=dict)
    words: set[str] = field(factory=set)

    def watch(self, path: str) -> None:
        """Read every event as it comes, over every death of the daemon."""
        ends = time.monotonic() + ENDS_WITHIN_S
        while time.monotonic() < ends:
            with contextlib.suppress(coachman.CoachmanError):
                stream = coachman.events.EventStream(
                    path, {"run": self.run}, reconnect_s=ENDS_WITHIN_S
                )
                with stream:
                    for event in stream:
                        self.seen[event["seq"]] = event
                return
            time.sleep(0.1)  # nobody listened yet

    def has_left(self, result: Result) -> bool:
        """Whether a success has all that its request made a condition of it."""
        if not self.handed:
            return True
        left = [(each["path"], each["sha256"]) for each in result["artifacts"]]
        names = [each["name"] for each in result["inputs"]]
        wanted = [("report.txt", hashlib.sha256(REPORT).hexdigest())]
        return left == wanted and names == ["spec.txt", "parts"] and result["check"]["exit"] == 0


class House:
    """What runs of one daemon are handed, fed to and tell of their end in."""

    def __init__(self, daemon: DaemonProcess) -> None:
        root = daemon.root
        self._given, self._fed, self._told = root / "given", root / "fed", root / "told"
        for path in (self._given / "parts", self._fed, self._told):
            path.mkdir(parents=True)
        for name, content in GIVEN.items():
            (self._given / name).write_bytes(content)
        loop = 'while IFS= read -r line; do printf "%s\\n" "$line"; done'
        self._feed = program(root / "feed", f"{loop} >> {self._fed}/$COACHMAN_RUN")
        self._passes = program(root / "passes", "exit 0")
        self._needs: dict[str, Kind] = {
            "inputs.": self._handing,
            "feed.": self._handing,
            "sentinel.": self._handing,
            "question.": self._wondering,
            "family.": self._bearing,
            "permission.": self._asking,
            "prompt.": self._keeping,
            "interrupt.": self._keeping,
            "turn.": self._keeping,
            "run.": self._keeping,
        }

    def kinds_for(self, target: str, chance: random.Random) -> list[Kind]:
        """Some kinds of runs, among them one that comes to where it is to strike."""
        kinds = list(dict.fromkeys([*self._needs.values(), self._bounded]))
        first = [kind for name, kind in self._needs.items() if target.startswith(name)]
        others = [kind for kind in kinds if kind not in first]
        return first + chance.sample(others, AT_ONCE - len(first))

    # --- kinds: told by the word, so that a key means the same request again ---

    def _bounded(self, client: coachman.Client, repo: Path, word: str) -> Watched:
        prompt = (*WORK, LONG)[_number(word) % 3]
        return Watched(_run(client, repo, prompt, word), word)

    def _asking(self, client: coachman.Client, repo: Path, word: str) -> Watched:
        hook = f"command:{self._passes}"
        options = {"permissions": "ask", "permission_handler": hook}
        return Watched(_run(client, repo, ASKS, word, **options), word)

    def _keeping(self, client: coachman.Client, repo: Path, word: str) -> Watched:
        run = _run(client, repo, WORK[_number(word) % 2], word, keep=True)
        return Watched(run, word, kept=True, prompts={1: word})

    def _handing(self, client: coachman.Client, repo: Path, word: str) -> Watched:
        run = _run(
            client,
            repo,
            HANDED,
            word,
            inputs=[{"path": str(self._given / name)} for name in ("spec.txt", "parts")],
            artifacts=["report.txt"],
            # What was copied and made in the worktree is there, where that is configured.
            check=f"test -s {MADE}" if (repo / COPIED).exists() else "true",
            on_event=str(self._feed),
            sentinel_file=str(self._told / word),
        )
        return Watched(run, word, handed=True)

    def _wondering(self, client: coachman.Client, repo: Path, word: str) -> Watched:
        run = _run(client, repo, WONDERS, word, delegate={"depth": 0, "children": 0})
        return Watched(run, word, asks_in_words=True)

    def _bearing(self, client: coachman.Client, repo: Path, word: str) -> Watched:
        run = _run(client, repo, BEARS, word, delegate={"depth": 1, "children": 2})
        return Watched(run, word, has_family=True)

    # --- what must be true ---

    def broken_promises(
        self, run: Watched, events: list[dict[str, Any]], result: Result
    ) -> list[str]:
        """What was taken on and not done."""
        answered = {event["request"] for event in events if event["type"] == "question.answered"}
        told = [f"{run.run} reply"] if not run.replies <= answered else []
        if run.handed:
            told += [] if self._is_told(run, result) else [f"{run.run} sentinel"]
            told += [] if self._is_fed(run, events) else [f"{run.run} feed"]
        return told

    def _is_told(self, run: Watched, result: Result) -> bool:
        """The file that says how a run ended is there once it has, and says so."""
        path = self._told / run.word
        return _soon(lambda: path.exists() and f"{result['outcome']}\n" in path.read_text())

    def _is_fed(self, run: Watched, events: list[dict[str, Any]]) -> bool:
        """Its program has read every event in order; some again, behind a death."""
        return _soon(lambda: list(self._read(run.run).values()) == events)

    def _read(self, run: str) -> dict[int, dict[str, Any]]:
        path = self._fed / run
        lines = path.read_bytes().splitlines() if path.exists() else []
        found = (json.loads(line) for line in lines if line.endswith(b"}"))
        return {event["seq"]: event for event in found}


def set_up(daemon: DaemonProcess, repos: Iterable[Path]) -> None:
    """Have the worktrees of these repositories set up by command and copy."""
    texts = (
        f'[repo."{repo}"]\ncopy = ["{COPIED}"]\nsetup = "cat {COPIED} > {MADE}"\n' for repo in repos
    )
    config = daemon.home / ".config" / "coachman" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("".join(texts))


def _number(word: str) -> int:
    return int(word.rpartition("-")[2])


def _run(client: coachman.Client, repo: Path, prompt: str, word: str, **options: Any) -> str:
    told = client.run.start(
        prompt.format(word=word), dir=str(repo), agent="demo", request_key=word, **options
    )
    return str(told["run"])


def _soon(holds: Callable[[], bool]) -> bool:
    ends = time.monotonic() + FED_WITHIN_S
    while not (held := holds()) and time.monotonic() < ends:
        time.sleep(0.05)
    return held
