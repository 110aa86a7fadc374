"""The methods of the wire, grouped by noun: ``client.run.start`` is ``run.start``.

Optional arguments that are None are not sent, so that the daemon's defaults
apply. A run is named by its id, its handle, a unique prefix of either, its
task, or ``@`` for the newest of the repository that holds ``dir``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Protocol

    from . import records, results

    class Caller(Protocol):
        """What the nouns need of a client."""

        def call(
            self,
            method: str,
            params: Mapping[str, object] | None = None,
            *,
            timeout_s: float | None = ...,
            descriptors: Sequence[int] = ...,
        ) -> Any: ...


# A wait is bounded by its own timeout; this much longer the answer may take.
WAIT_GRACE_S = 10.0
# Starting checks out a tree, which on a large repository takes a while.
START_TIMEOUT_S = 600.0


def given(**params: object) -> dict[str, object]:
    return {name: value for name, value in params.items() if value is not None}


class Noun:
    """A group of methods on one client."""

    def __init__(self, caller: "Caller") -> None:
        self._caller = caller

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._caller!r}>"


class AgentMethods(Noun):
    """The agents that can be run."""

    def list(
        self, agent: str | None = None, *, path: str | None = None, profile: str | None = None
    ) -> "results.AgentPage":
        """What is installed, and which names of the environment each agent wants.

        ``path`` is the PATH to look on, by default the daemon's; ``profile`` the one whose own
        names are told, by default the configured one.
        """
        params = given(agent=agent, path=path, profile=profile)
        answer: results.AgentPage = self._caller.call("agent.list", params)
        return answer


class ProfileMethods(Noun):
    """The boundaries that a run can have."""

    def list(self) -> "results.ProfilePage":
        """Every profile with its facts."""
        answer: results.ProfilePage = self._caller.call("profile.list")
        return answer

    def explain(self, profile: str, agent: str | None = None) -> "results.ProfileExplained":
        """One profile down to the compiled policy."""
        params = given(profile=profile, agent=agent)
        answer: results.ProfileExplained = self._caller.call("profile.explain", params)
        return answer


class RunMethods(Noun):
    """Runs: one agent at work on one task."""

    def start(  # noqa: PLR0913 - the method's parameters, each by keyword
        self,
        prompt: str,
        *,
        dir: str | None,
        agent: str | None = None,
        argv: "Sequence[str] | None" = None,
        model: str | None = None,
        effort: str | None = None,
        provider: str | None = None,
        as_agent: str | None = None,
        session: str | None = None,
        keep: bool | None = None,
        task: str | None = None,
        profile: str | None = None,
        network: "Sequence[str] | None" = None,
        permissions: "results.Permissions | None" = None,
        rules: "Sequence[Mapping[str, Any]] | None" = None,
        permission_handler: str | None = None,
        base: str | None = None,
        env: "Mapping[str, str] | None" = None,
        timeouts: "Mapping[str, float] | None" = None,
        labels: "Mapping[str, str] | None" = None,
        title: str | None = None,
        check: str | None = None,
        delegate: "Mapping[str, Any] | None" = None,
        inputs: "Sequence[Mapping[str, str]] | None" = None,
        input_data: "Mapping[str, str] | None" = None,
        input_descriptors: "Mapping[str, int] | None" = None,
        artifacts: "Sequence[str] | None" = None,
        trust_tree: bool | None = None,
        native: bool | None = None,
        sentinel_file: str | None = None,
        on_event: str | None = None,
        on_limit: "results.OnLimit | None" = None,
        retries: int | None = None,
        limits: "Mapping[str, float] | None" = None,
        priority: int | None = None,
        output_limit: int | None = None,
        request_key: str | None = None,
        no_wait: bool | None = None,
        dry_run: bool | None = None,
    ) -> "results.RunStarted":
        """Start a run and return once it is durable, queued or further.

        ``dir`` is an absolute directory inside the repository. ``env`` holds what
        of the caller's environment the agent may see (`environment.carried`
        chooses it). ``timeouts`` has seconds under ``wall_s``, ``work_s``,
        ``stall_s``, ``turn_s``, ``queue_s``, ``permission_s``, ``parked_s`` and
        ``check_s``. With ``keep`` the run takes more prompts until it is closed;
        ``as_agent`` is one of the CLI's own agents, ``session`` one that you began
        by hand. ``network`` has words and destinations. ``rules`` have ``decide``
        (allow, always, deny or ask), ``tool`` (a list of kinds), ``command`` and
        ``path``; the ``permission_handler`` is file:BASE or command:PATH. ``check``
        is a shell command that decides at the end, ``delegate`` what it may start.
        ``inputs`` have ``path`` and ``name`` of what it is handed a copy of;
        ``input_data`` is bytes in base64 by name, and from inside a run ``input_descriptors``
        are descriptors of files, opened to be read. ``artifacts`` are paths below /output
        at which it has to leave something. ``sentinel_file`` is a file that says
        how it ended, ``on_event`` a program that is fed its events. ``on_limit`` is wait
        or fail, ``limits`` has ``tokens`` and ``cost_usd``; ``output_limit`` is in bytes.
        """
        # Each parameter has its name on the wire.
        params = given(**{name: value for name, value in locals().items() if name != "self"})
        along = input_descriptors or {}
        if along:
            params["input_descriptors"] = [*along]
        answer: results.RunStarted = self._caller.call(
            "run.start", params, timeout_s=START_TIMEOUT_S, descriptors=[*along.values()]
        )
        return answer

    def list(  # noqa: PLR0913 - the method's filters, each by keyword
        self,
        *,
        state: "Sequence[str] | None" = None,
        outcome: "Sequence[str] | None" = None,
        task: str | None = None,
        agent: str | None = None,
        labels: "Mapping[str, str] | None" = None,
        batch: str | None = None,
        here: str | None = None,
        since: int | None = None,
        attention: bool | None = None,
        parent: str | None = None,
        ancestor: str | None = None,
        all: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> "results.RunPage":
        """Summaries: the living and the last 12 hours, or ``all``.

        ``here`` is a directory whose repository the runs must belong to,
        ``since`` milliseconds since the epoch, ``parent`` the run that started them
        and ``ancestor`` one that they come from at any depth.
        """
        params = given(
            state=state if state is None else [*state],
            outcome=outcome if outcome is None else [*outcome],
            task=task,
            agent=agent,
            labels=labels,
            batch=batch,
            here=here,
            since=since,
            attention=attention,
            parent=parent,
            ancestor=ancestor,
            all=all,
            limit=limit,
            cursor=cursor,
        )
        answer: results.RunPage = self._caller.call("run.list", params)
        return answer

    def get(self, run: str, *, dir: str | None = None) -> "results.RunDetails":
        """Everything about one run."""
        answer: results.RunDetails = self._caller.call("run.get", given(run=run, dir=dir))
        return answer

    def policy(self, run: str, *, dir: str | None = None) -> "results.RunPolicy":
        """What the run's boundary was compiled to; a Conflict while nothing was."""
        answer: results.RunPolicy = self._caller.call("run.policy", given(run=run, dir=dir))
        return answer

    def result(self, run: str, *, dir: str | None = None) -> "results.RunResult":
        """How the run ended; a Conflict while it has not."""
        answer: results.RunResult = self._caller.call("run.result", given(run=run, dir=dir))
        return answer

    def wait(
        self,
        runs: "Sequence[str]",
        *,
        until: "results.WaitFor | None" = None,
        any: bool | None = None,
        timeout_s: float | None = None,
        idle: bool | None = None,
        dir: str | None = None,
    ) -> "results.Waited":
        """Wait for all ``runs`` (or ``any``) to end, or to need attention.

        ``timeout_s`` None waits for ever; running out of it is no error but
        ``met: timeout``. With ``idle`` it is over as well (``met: idle``) when all that
        has not ended is parked, with nothing to do.
        """
        params = given(runs=[*runs], until=until, any=any, timeout_s=timeout_s, idle=idle, dir=dir)
        patience = None if timeout_s is None else timeout_s + WAIT_GRACE_S
        answer: results.Waited = self._caller.call("run.wait", params, timeout_s=patience)
        return answer

    def diff(
        self,
        run: str | None = None,
        *,
        task: str | None = None,
        stat: bool | None = None,
        names: bool | None = None,
        offset: int | None = None,
        limit: int | None = None,
        dir: str | None = None,
    ) -> "results.Diff":
        """What a run changed, or a task since its base (name one); a page of the patch."""
        params = given(
            run=run, task=task, stat=stat, names=names, offset=offset, limit=limit, dir=dir
        )
        answer: results.Diff = self._caller.call("run.diff", params)
        return answer

    def log(
        self,
        run: str,
        *,
        lines: int | None = None,
        cursor: int | None = None,
        dir: str | None = None,
    ) -> "results.Log":
        """The transcript: merged text, one line a tool; its last ``lines``.

        The page's ``next_cursor`` leads to those before it.
        """
        params = given(run=run, lines=lines, cursor=cursor, dir=dir)
        answer: results.Log = self._caller.call("run.log", params)
        return answer

    def resume(  # noqa: PLR0913 - the method's parameters, each by keyword
        self,
        run: str,
        prompt: str,
        *,
        env: "Mapping[str, str] | None" = None,
        keep: bool | None = None,
        timeouts: "Mapping[str, float] | None" = None,
        title: str | None = None,
        request_key: str | None = None,
        no_wait: bool | None = None,
        agent: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        profile: str | None = None,
        dir: str | None = None,
    ) -> "results.RunStarted":
        """Start a run in the session of one that has ended: all else is as it was there.

        A Conflict says why the session cannot be gone on with exactly, for one because
        ``agent``, ``model``, ``provider`` or ``profile`` is another than it was.
        """
        params = given(
            run=run,
            prompt=prompt,
            env=env,
            keep=keep,
            timeouts=timeouts,
            title=title,
            request_key=request_key,
            no_wait=no_wait,
            agent=agent,
            model=model,
            provider=provider,
            profile=profile,
            dir=dir,
        )
        answer: results.RunStarted = self._caller.call(
            "run.resume", params, timeout_s=START_TIMEOUT_S
        )
        return answer

    def prompt(
        self,
        run: str,
        prompt: str,
        *,
        env: "Mapping[str, str] | None" = None,
        request_key: str | None = None,
        dir: str | None = None,
    ) -> "results.Prompted":
        """Give a kept run another prompt: it waits for its turn and never pre-empts.

        It is on disk before this returns. A run that has ended is resumed as a new one,
        which gets ``env``. The same ``request_key`` gives the same prompt once.
        """
        params = given(run=run, prompt=prompt, env=env, request_key=request_key, dir=dir)
        answer: results.Prompted = self._caller.call(
            "run.prompt", params, timeout_s=START_TIMEOUT_S
        )
        return answer

    def interrupt(
        self,
        run: str,
        prompt: str | None = None,
        *,
        keep_queue: bool | None = None,
        turn: int | None = None,
        request_key: str | None = None,
        dir: str | None = None,
    ) -> "results.Interrupted":
        """End the turn that runs (``turn``: this one or none), then go on with ``prompt``.

        Prompts that wait already are dropped, unless ``keep_queue``. The same
        ``request_key`` gives the same prompt once, and ends no other turn.
        """
        params = given(
            run=run,
            prompt=prompt,
            keep_queue=keep_queue,
            turn=turn,
            request_key=request_key,
            dir=dir,
        )
        answer: results.Interrupted = self._caller.call("run.interrupt", params)
        return answer

    def ask(
        self,
        question: str,
        options: "Sequence[str] | None" = None,
        *,
        timeout_s: float | None = None,
        request_key: str | None = None,
    ) -> "results.Asked":
        """Ask the parent, or whoever watches: for a run, over its own socket.

        It waits for the answer, ``timeout_s`` seconds at most (None: as long as the run's
        permissions wait). The same ``request_key`` asks once, and gets the answer again.
        """
        params = given(
            question=question,
            options=options if options is None else [*options],
            timeout_s=timeout_s,
            request_key=request_key,
        )
        answer: results.Asked = self._caller.call("run.ask", params, timeout_s=None)
        return answer

    def answer(
        self, question: str, answer: str, *, run: str | None = None, dir: str | None = None
    ) -> "results.QuestionAnswered":
        """Answer a run's question, named by its id, in words; the first answer wins."""
        params = given(question=question, answer=answer, run=run, dir=dir)
        answered: results.QuestionAnswered = self._caller.call("run.answer", params)
        return answered

    def lend(self, run: str, env: "Mapping[str, str]", *, dir: str | None = None) -> "results.Lent":
        """Give a run the variables that it lacks since the daemon was restarted."""
        params = given(run=run, env=env, dir=dir)
        answer: results.Lent = self._caller.call("run.lend", params)
        return answer

    def close(self, runs: "Sequence[str]", *, dir: str | None = None) -> "results.Closed":
        """End runs once their turn is over and no prompt waits; parked ones end at once."""
        params = given(runs=[*runs], dir=dir)
        answer: results.Closed = self._caller.call("run.close", params)
        return answer

    def cancel(self, runs: "Sequence[str]", *, dir: str | None = None) -> "results.Cancelled":
        """End runs now; those that have ended already are no error."""
        params = given(runs=[*runs], dir=dir)
        answer: results.Cancelled = self._caller.call("run.cancel", params)
        return answer


class EventMethods(Noun):
    """Pages of events; ``client.events`` iterates over them instead."""

    def read(
        self,
        run: str,
        *,
        after_seq: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        wait_s: float | None = None,
        dir: str | None = None,
    ) -> "results.EventPage":
        """Events behind ``after_seq`` or ``cursor``; waits up to ``wait_s`` for the first."""
        params = given(
            run=run, after_seq=after_seq, cursor=cursor, limit=limit, wait_s=wait_s, dir=dir
        )
        patience = (wait_s or 0.0) + WAIT_GRACE_S
        answer: results.EventPage = self._caller.call("event.read", params, timeout_s=patience)
        return answer


class PermissionMethods(Noun):
    """What agents ask to be allowed."""

    def list(
        self, run: str | None = None, *, pending: bool | None = None, dir: str | None = None
    ) -> "results.PermissionPage":
        """Requests that wait, of one run or of all; ``pending`` False tells settled ones too."""
        params = given(run=run, pending=pending, dir=dir)
        answer: results.PermissionPage = self._caller.call("permission.list", params)
        return answer

    def answer(
        self,
        request: str,
        *,
        run: str | None = None,
        option: str | None = None,
        kind: "records.OptionKind | None" = None,
        message: str | None = None,
        dir: str | None = None,
    ) -> "results.Answered":
        """Settle a request by option id or by kind; the first answer wins.

        A later one gets a Conflict that says who answered.
        """
        params = given(request=request, run=run, option=option, kind=kind, message=message, dir=dir)
        answer: results.Answered = self._caller.call("permission.answer", params)
        return answer


class TaskMethods(Noun):
    """Tasks: a worktree that runs follow one another in."""

    def list(self, *, dir: str | None = None) -> "results.TaskPage":
        """Tasks of the repository that holds ``dir``, or of all."""
        answer: results.TaskPage = self._caller.call("task.list", given(dir=dir))
        return answer

    def get(self, task: str, *, dir: str | None = None) -> "dict[str, Any]":
        """One task and its runs."""
        answer: dict[str, Any] = self._caller.call("task.get", given(task=task, dir=dir))
        return answer
