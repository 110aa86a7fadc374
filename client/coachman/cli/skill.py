"""``coachman skill``: what an agent has to know to drive this version."""

from .. import __version__
from ..wire import EXIT_OK
from .options import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "skill",
    "Print what an agent must know to drive this version of coachman: a page for its context.",
)
# Each line that begins with four blanks is a command, which a test runs as it stands.
TEXT = """\
# coachman {version}: run coding agents and lead them

Each run is one agent (Claude Code, Codex, OpenCode, ...) in a git worktree (its task) and a
sandbox of its own. Runs outlive you and the daemon, which starts by itself. You give work, wait,
read what came of it, steer. Your own checkout is never touched.

Rules
- Add --json for one JSON document on stdout, also on failure:
  {{"error": {{name, message, hint, next}}}}. `next` holds commands that run as they stand.
- Never poll, never sleep: `wait` and `-d` do it. Nothing ever asks you without a terminal.
- Name a run by handle, id, unique prefix or its task; @ is the newest of this repository.
- Uncommitted changes are not in what the agent sees: commit first.

Start
    coachman agents
    coachman run -d -t fix-parser -l job=demo "Fix the failing parser tests"
    coachman run -d --keep -t review "Read the code and wait for questions"
-d returns at once with run, handle, task, worktree, deadlines. --keep keeps the agent for more
prompts. Also -a AGENT, -m MODEL, -p PROFILE, --timeout 30m, --check "CMD" (decides over success),
--max-cost 2, --request-key KEY (sent twice it starts once), prompt from @FILE or -. One run at a
time works in a task; name another task to work side by side.

Wait
    coachman wait fix-parser --timeout 10m
    coachman wait fix-parser review --until turn --timeout 10m
    coachman wait fix-parser review --until attention --any --timeout 10m
Exit 10: a run needs you, see `attention`. 11: your own --timeout came first, the run goes on.

Look
    coachman list
    coachman list --attention
    coachman show fix-parser
    coachman result fix-parser
    coachman log review -n 50
    coachman diff fix-parser --stat
    coachman diff fix-parser
`diff` prints a whole patch: pipe it into `git apply --index` to take the work over. `result` has
outcome, final message, changed files and costs. Output is bounded: `truncated` and `next_cursor`
say that there is more.

Answer what an agent asks for
    coachman permissions
then coachman answer X allow|deny [-m TEXT, where the agent hears it]. What nobody answers is
denied after an hour. Over your own run's socket permissions are the user's; questions in words
(attention `question`) are yours to answer: coachman answer X "TEXT", and X goes on. Start such
runs with -d and wait for attention: one that you stay with in the foreground hears no answer.

Ask, when you are a run yourself (COACHMAN_SOCKET is set): coachman ask "Which one?" --option A
--option B --timeout 10m prints the answer of whoever started you, or of the user. Exit 11: nobody
answered in time; decide yourself and say so. Your shell's limit must be the longer one, else ask
again with the same --request-key.

Steer
    coachman prompt review "Which function is the slowest?" --wait
    coachman interrupt review "Stop that; only list the files"
    coachman wait review --until turn --timeout 10m
    coachman close review
    coachman resume fix-parser "Now add a test" -d
    coachman cancel fix-parser
prompt queues and never pre-empts; interrupt ends the turn and goes first; close ends a kept run
once it is through; resume goes on in the session of a run that has ended; cancel ends it now, and
what it changed is kept.

Afterwards
    coachman usage --since 1d --by agent,label
    coachman cleanup
    coachman status
cleanup alone only tells what could go.

Exit codes: 0 succeeded, 1 failed, 2 refused, 3 and 4 limits of tokens and turns, 5 blocked,
6 did nothing, 7 over budget, 8 check failed, 9 lost, 10 needs you, 11 still running, 64 usage,
66 not found, 69 no daemon, 71 no sandbox here, 75 limited or busy (retry_after_s), 76 wrong state,
77 denied, 124 timed out, 130 cancelled.

Exit 77 "blocks Unix sockets": your own shell's sandbox is in the way. Run coachman outside of it
(Codex: escalate; Claude Code: dangerouslyDisableSandbox); the error says how.
"""


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the page."""
    text = TEXT.format(version=__version__)
    if console.json:
        console.document({"skill": text})
    else:
        console.line(text.rstrip())
    return EXIT_OK
