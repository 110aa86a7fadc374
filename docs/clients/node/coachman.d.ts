// Made by scripts/openrpc from docs/openrpc.json.

/** An agent that this version knows, installed or not; `note` says why not.
 *
 * `environment` and `credentials` are the names of variables that it wants of its caller;
 * `profile_environment` has those that a profile lets in besides. */
export type Agent = {
  "adapter": string;
  "credentials": Array<string>;
  "efforts": Array<string>;
  "environment": Array<string>;
  "installed": boolean;
  "keeps": boolean;
  "locations"?: Array<string>;
  "name": string;
  "note": string | null;
  "path": string | null;
  "profile_environment"?: Array<string>;
  "resumes": boolean;
  "sha256": string | null;
  "takes_agent": boolean;
  "takes_argv": boolean;
  "takes_model": boolean;
  "title": string;
  "version": string | null;
};

/** How the agent ended. */
export type AgentExit = {
  "code": number | null;
  "signal": number | null;
};

/** Agents by name. */
export type AgentPage = {
  "agents": Array<Agent>;
};

/** The option that now stands. */
export type Answered = {
  "kind": string;
  "option": string;
  "request": string;
  "run": string;
};

/** A file that the agent put in `/output`; one too large to be read has no digest.
 *
 * `partial`: its run did not succeed, so that it may not be whole. */
export type Artifact = {
  "partial"?: boolean;
  "path": string;
  "sha256": string | null;
  "size": number;
};

/** What came of a run's own question; where nobody answered, `answer` is null. */
export type Asked = {
  "answer": string | null;
  "by": Record<string, unknown>;
  "outcome": "answered" | "expired" | "withdrawn";
  "request": string;
  "run": string;
};

/** What a run needs from a person.
 *
 * `kind` permission has a `request` to be answered, the `tool` call that it is about and
 * `options`; question has a `request`, and `options` where the run named any: it is asked
 * and answered in words (`run.answer`). storage is a full disk, stall an agent that was silent
 * for so long that it is about to be ended, which happens at `deadline`. credentials are
 * variables that the run's shell has to lend again (`run.lend`), since the daemon was restarted
 * before a process had them. */
export type Attention = {
  "deadline": number | null;
  "kind": string;
  "options": Array<Option>;
  "question": string;
  "request": string | null;
  "tool": Record<string, unknown> | null;
};

/** Whether sandboxes can be built here; where not, why and what to do.
 *
 * `needs` tells it for each kind of run: `processes` is what profile host needs, `walls`
 * an isolated run with the host's network, `network` one with a network of its own; `ok`
 * is the last. */
export type BoundaryStatus = {
  "bwrap": Record<string, string> | null;
  "cause": string | null;
  "needs"?: Record<string, Probed>;
  "ok": boolean;
  "remedy": string | null;
};

/** The program that makes sandboxes. */
export type Bubblewrap = {
  "path": string;
  "version": string;
};

/** Who decided something: a client, a rule, the mode, a handler, a deadline, the agent itself.
 *
 * `mode` is that of "policy"; `rule` and `origin` are those of "rule"; `path` is the
 * BASE of "file" or the program of "hook". */
export type By = {
  "client"?: string | null;
  "mode"?: string;
  "origin"?: string;
  "path"?: string;
  "pid"?: number;
  "resolver"?: string;
  "rule"?: string;
  "uid"?: number;
  "user"?: string;
};

/** What a run took on disk when it ended: all of its directory, and of that the raw logs. */
export type Bytes = {
  "all": number;
  "logs": number;
};

/** One entry for each run that was named. */
export type Cancelled = {
  "runs": Array<CancelledRun>;
};

/** `already` says that the run had ended, or was being cancelled, before. */
export type CancelledRun = {
  "already": boolean;
  "handle": string;
  "run": string;
  "state": string;
};

/** What a run may take of the machine.
 *
 * `by` is who sees to it: the `kernel` refuses more; it is `watched`, and the run is ended
 * once it was found to have more; `nobody`; null as long as nobody can say. */
export type Cap = {
  "by": "kernel" | "nobody" | "watched" | null;
  "cap": string;
  "limit": number;
};

/** Runs that may be active at once, that are, and that wait for a place. */
export type Capacity = {
  "active": number;
  "max_active": number;
  "queued": number;
};

/** How much a run changed, in files and lines. */
export type Changes = {
  "added": number;
  "files": number;
  "removed": number;
};

/** What came of a run's check. `exit` is null where it came to no end of its own. */
export type Check = {
  "command": string;
  "duration_s"?: number | null;
  "error"?: string;
  "exit"?: number | null;
  "output"?: string;
  "signal"?: number | null;
  "truncated"?: boolean;
};

/** An ended run that was chosen; `log_bytes` is what its raw logs took. */
export type CleanedRun = {
  "ended_at": number;
  "handle": string;
  "log_bytes": number;
  "outcome": string;
  "run": string;
};

/** What became of a task's worktree, its agents' homes and the raw logs of `runs`.
 *
 * `state` is of worktree and homes: "removed", "kept" for the reason `why`, "gone" since
 * an earlier time, None where they were not asked about. `commit` holds what the worktree
 * held. `differs` says what no run had recorded; the ref `salvage` keeps that. The files
 * counted as ignored go for good. */
export type CleanedTask = {
  "bytes": number;
  "commit": string | null;
  "differs": Array<string>;
  "hint": string | null;
  "home_bytes": number;
  "ignored_bytes": number;
  "ignored_files": number;
  "log_bytes": number;
  "repo": string;
  "runs": Array<CleanedRun>;
  "salvage": string | null;
  "state": "gone" | "kept" | "removed" | null;
  "task": string;
  "toplevel": string | null;
  "why": string | null;
  "worktree": string | null;
  "worktree_bytes": number;
};

/** What was removed, or with `dry_run` what would be, and how many `bytes` that gives back.
 *
 * `findings` belong to no record: nothing removes them by itself. */
export type Cleanup = {
  "bytes": number;
  "dry_run": boolean;
  "findings": Array<Finding>;
  "tasks": Array<CleanedTask>;
  "truncated": boolean;
};

/** Who the client says it is: shown to others as the one who answered. */
export type ClientInfo = {
  "name": string;
  "version"?: string | null;
};

/** One entry for each run that was named; `already`: there was nothing to do. */
export type Closed = {
  "runs": Array<CancelledRun>;
};

/** The commits before and after a run; null where there is none. */
export type Commits = {
  "from": string | null;
  "to": string | null;
};

/** What a boundary was compiled to: policy, arguments without values, and digests.
 *
 * `instructions` and `inputs` are null where nobody has looked yet. */
export type Compiled = {
  "bwrap": Bubblewrap | null;
  "caps": Array<Cap>;
  "command": Array<string>;
  "executable": Executable;
  "inputs": Array<Artifact> | null;
  "instructions": Array<Artifact> | null;
  "policy": Record<string, unknown>;
};

/** What a run cost. `source`: reported by the agent, or calculated at `price_version`. */
export type Cost = {
  "billing": string;
  "price_version": string | null;
  "source": string;
  "usd": number;
};

/** Who answers, what the connection speaks from here on, and the limits it keeps. */
export type DaemonHello = {
  "api": number;
  "features": Array<string>;
  "instance": string;
  "limits": Record<string, number>;
  "server": ServerInfo;
  "uid": number;
};

/** `going_on` lists the handles of the runs that outlive the daemon.
 *
 * `in_time` says that it could wait for as much as its mode wants. */
export type DaemonLeaving = {
  "going_on": Array<string>;
  "in_time": boolean;
  "mode": string;
};

/** The daemon is about to come back in place; until it does, its `instance` is this one. */
export type DaemonRestarting = {
  "going_on": Array<string>;
  "instance": string;
  "mode": string;
};

/** The daemon at a glance: its load, and whether it may start runs.
 *
 * `loop_tasks` counts what is under way in its event loop: connections, requests,
 * subscriptions, runs and their helpers. When all of these are over it is as small as before.
 * `before` is how the daemon before it ended, where there was one. `waiting` counts the
 * questions that wait for an answer. */
export type DaemonStatus = {
  "before"?: LastEnd | null;
  "boundary": BoundaryStatus;
  "build": string;
  "capacity": Capacity;
  "findings": Array<Finding>;
  "instance": string;
  "limits"?: Array<ProviderLimit>;
  "loop_tasks": number;
  "pid": number;
  "runs": Record<string, number>;
  "socket": string;
  "started_at": number;
  "state_dir": string;
  "storage": StorageStatus;
  "uptime_s": number;
  "version": string;
  "waiting"?: number;
};

/** A run's own socket, and what it may start over it.
 *
 * `depth` levels below it, `children` at once on all of them together, in all for so many
 * `tokens` and dollars. `agents` are those that it may start beside its own. */
export type Delegate = {
  "depth": number;
  "children": number;
  "tokens"?: number | null;
  "cost_usd"?: number | null;
  "agents"?: Array<string>;
};

/** What was denied, why, and how often; without a host the request named none. */
export type DeniedHost = {
  "count": number;
  "host": string | null;
  "port": number | null;
  "reason": string;
};

/** One fact that was looked at: `name` of `area`, and what was `found`.
 *
 * `warning`: runs start all the same. Where it is not ok, `cause` and `remedy` are in
 * words, and `next` are commands that run verbatim. `exit` is the exit code of a failed one. */
export type Diagnosis = {
  "area": string;
  "cause": string | null;
  "detail": Record<string, unknown>;
  "exit": number | null;
  "found": string;
  "name": string;
  "next": Array<Array<string>>;
  "remedy": string | null;
  "status": "failed" | "ok" | "warning";
};

/** One page of a patch; `patch_b64` replaces `patch` where it is not UTF-8.
 *
 * `source` and `target` are the commits that were compared. */
export type Diff = {
  "files": Array<FileChange>;
  "next_offset": number | null;
  "patch": string | null;
  "patch_b64": string | null;
  "source": string;
  "target": string;
  "truncated": boolean;
};

/** What was decided for a run, defaults included.
 *
 * `hosts` are its agent's own destinations, where its network has them; `inherits` is the
 * built-in profile that one of the user's own is made of; `native`: on the host, without a
 * namespace that its processes end with. */
export type Effective = {
  "agent": string;
  "agent_version": string | null;
  "effort": string | null;
  "executable": string | null;
  "hosts"?: Array<string>;
  "inherits"?: string | null;
  "model": string | null;
  "native"?: boolean;
  "network": string;
  "permissions": "allow" | "ask" | "deny";
  "profile": string;
};

/** The subscription is over, and why.
 *
 * `run_ended`; or `interrupted`: there is more behind the cursor; or `given_up`: the disk
 * refused the journal, and a later daemon goes on with the run. */
export type EndNotification = {
  "subscription": string;
  "cursor": string;
  "reason": string;
};

/** What callers switch on: `name` is stable, `next` holds commands that run verbatim. */
export type ErrorData = {
  "name": string;
  "hint": string | null;
  "retryable": boolean;
  "retry_after_s": number | null;
  "detail": Record<string, unknown> | null;
  "next": Array<Array<string>>;
};

/** One line of a run's journal, by its `type`. */
export type Event = EventAgentCommands | EventAgentInput | EventAgentMessageChunk | EventAgentNoise | EventAgentNotice | EventAgentPlan | EventAgentSession | EventAgentStatus | EventAgentThoughtChunk | EventAgentUnknown | EventAttemptEnded | EventAttemptStarted | EventBudgetExceeded | EventCheckEnded | EventCheckStarted | EventDeadlineExpired | EventDeadlineWarned | EventError | EventFeedFailed | EventHostSuspended | EventLimitReached | EventNetworkCounted | EventNetworkDecided | EventPermissionPassed | EventPermissionRequested | EventPermissionResolved | EventPromptDropped | EventPromptQueued | EventQuestionAnswered | EventQuestionAsked | EventRunClosing | EventRunEnded | EventRunQueued | EventRunRecovered | EventRunStarted | EventRunState | EventSetupEnded | EventSetupStarted | EventToolCall | EventToolCallUpdate | EventTurnEnded | EventTurnInterrupted | EventTurnRecorded | EventTurnStarted | EventUsageUpdated | EventUserMessageChunk;

/** The commands that the agent offers, in its own terms. */
export type EventAgentCommands = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.commands";
  "commands": Array<unknown>;
};

/** What the conversation was told, at which offset of the agent's output; replay needs it.
 *
 * `kind` is start, prompt, answer, cancel, timer or finish, each with members of its own. */
export type EventAgentInput = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.input";
  "at": number;
  "by"?: By;
  "epilogue"?: boolean;
  "epilogue_error"?: string;
  "exit_code"?: number | null;
  "file"?: PromptFile;
  "kind": string;
  "message"?: string;
  "name"?: string;
  "of_turn"?: number;
  "option"?: string | null;
  "option_kind"?: string | null;
  "outcome"?: string;
  "prompt"?: number;
  "prompt_turn"?: number;
  "request"?: string;
  "signal"?: number | null;
};

/** A piece of a text; pieces of one message share its `message_id` where the agent has one. */
export type EventAgentMessageChunk = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.message_chunk";
  "message_id"?: string;
  "text": string;
};

/** Output that was not protocol: its first line, and how much there was. */
export type EventAgentNoise = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.noise";
  "bytes": number;
  "lines"?: number;
  "text"?: string;
};

/** A remark of the agent, or of its conversation, about itself. */
export type EventAgentNotice = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.notice";
  "severity"?: string;
  "text": string;
};

/** What the agent means to do, in its own terms. */
export type EventAgentPlan = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.plan";
  "entries": Array<unknown>;
};

/** The agent named its session, which is this event's `session`. */
export type EventAgentSession = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.session";
  "agent_version": string | null;
};

/** The agent's phase: thinking, working, waiting or done. */
export type EventAgentStatus = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.status";
  "label"?: string;
  "phase": string;
};

/** A piece of a text; pieces of one message share its `message_id` where the agent has one. */
export type EventAgentThoughtChunk = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.thought_chunk";
  "message_id"?: string;
  "text": string;
};

/** Protocol that this version does not know, as it came. */
export type EventAgentUnknown = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "agent.unknown";
  "raw": unknown;
};

/** It is over; `exit` is its keeper's record, or says why there is none. */
export type EventAttemptEnded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "attempt.ended";
  "exit": Record<string, unknown> | null;
};

/** One life of the agent's process begins; `start` is the commit that it starts from.
 *
 * `asked` is how many questions the attempts before it asked: those of this one count on. */
export type EventAttemptStarted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "attempt.started";
  "admin": string;
  "asked"?: number;
  "resumes"?: string;
  "start": string | null;
  "subfolder": string;
  "why": string;
};

/** The run used more than it may: `which` is tokens or cost_usd.
 *
 * After `delegate.` it is what all the runs below one of its ancestors may use together. */
export type EventBudgetExceeded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "budget.exceeded";
  "limit": number;
  "used": number;
  "which": string;
};

/** It is over. `output` is the end of what it wrote, `error` why it came to no end. */
export type EventCheckEnded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "check.ended";
  "duration_s": number | null;
  "error"?: string;
  "exit": number | null;
  "output": string;
  "signal": number | null;
  "truncated"?: boolean;
};

/** The agent is through, and the run's check begins. */
export type EventCheckStarted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "check.started";
  "command": string;
};

/** A deadline was reached and enforced. */
export type EventDeadlineExpired = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "deadline.expired";
  "request"?: string;
  "which": string;
};

/** A deadline is near: `left_s` are left until `deadline`. */
export type EventDeadlineWarned = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "deadline.warned";
  "deadline": number;
  "left_s": number;
  "request"?: string;
  "which": string;
};

/** What went wrong, in words; agents may add a code and data of their own. */
export type EventError = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "error";
  "code"?: unknown;
  "data"?: unknown;
  "message": string;
};

/** The program that the run's events are fed to does not do well.
 *
 * `after_seq` is the last event that it read; `then`: waits, again (it is run again) or
 * given_up. */
export type EventFeedFailed = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "feed.failed";
  "after_seq"?: number;
  "program": string;
  "reason": string;
  "then": string;
};

/** The machine slept for so long, which counts neither as work nor as silence. */
export type EventHostSuspended = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "host.suspended";
  "clock": Record<string, unknown>;
  "seconds": number;
};

/** The provider takes no more for now; `action` is wait or fail, `resets_at` is ms. */
export type EventLimitReached = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "limit.reached";
  "action": string;
  "provider": string;
  "resets_at": number | null;
};

/** What the gate denied in an attempt that is over, and how often. */
export type EventNetworkCounted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "network.counted";
  "denied": Array<DeniedHost>;
};

/** The gate allowed a destination, or denied a host, for the first time in the run.
 *
 * What is allowed and could not be reached has the reason `unreachable`, and `why` says more. */
export type EventNetworkDecided = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "network.decided";
  "allowed": boolean;
  "host": string | null;
  "port": number | null;
  "reason"?: string;
  "why"?: string;
};

/** A rule or a handler left a question to the others, for `reason`. */
export type EventPermissionPassed = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "permission.passed";
  "by": By;
  "reason": string;
  "request": string;
};

/** The agent asks; `deadline` is when it is denied, where somebody is waited for. */
export type EventPermissionRequested = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "permission.requested";
  "deadline"?: number;
  "deadline_boot"?: string;
  "deadline_boottime_s"?: number;
  "options": Array<Option>;
  "question": string;
  "request": string;
  "tool": Record<string, unknown>;
};

/** The one answer; `option` null: nothing was chosen, and `outcome` says why. */
export type EventPermissionResolved = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "permission.resolved";
  "by": By;
  "kind"?: string | null;
  "message"?: string;
  "option": string | null;
  "outcome": string;
  "request": string;
};

/** A prompt will not be given to the agent: `why` is interrupt, run_ended or damaged. */
export type EventPromptDropped = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "prompt.dropped";
  "prompt": number;
  "title": string;
  "why": string;
};

/** A prompt waits for its turn; `first`: before all others. */
export type EventPromptQueued = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "prompt.queued";
  "by": By;
  "file"?: PromptFile;
  "first"?: boolean;
  "key"?: string;
  "prompt": number;
  "title": string;
};

/** The one answer; null where nobody gave one: `outcome` is expired or withdrawn then. */
export type EventQuestionAnswered = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "question.answered";
  "answer": string | null;
  "by": By;
  "outcome": string;
  "request": string;
};

/** A run asks its parent, or whoever watches, until `deadline`. */
export type EventQuestionAsked = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "question.asked";
  "deadline": number;
  "deadline_boot": string;
  "deadline_boottime_s": number;
  "key"?: string;
  "options": Array<string>;
  "question": string;
  "request": string;
};

/** The run ends once it has nothing more to do. */
export type EventRunClosing = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "run.closing";
  "by": By;
};

/** The outcome; this line decides. */
export type EventRunEnded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "run.ended";
  "changes": Changes;
  "commits": Commits;
  "cost": Cost | null;
  "error": Failure | null;
  "exit": AgentExit;
  "final_message": string;
  "final_message_truncated": boolean;
  "outcome": string;
  "resets_at"?: number | null;
  "stop_reason": string | null;
  "tree"?: string | null;
  "usage": Record<string, number> | null;
};

/** The run was accepted; `file` is that of its prompt. */
export type EventRunQueued = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "run.queued";
  "file"?: PromptFile;
  "policy_digest": string;
};

/** A daemon found the run alive and goes on; `cut_bytes` of a torn line were dropped. */
export type EventRunRecovered = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "run.recovered";
  "cut_bytes": number;
  "generation": number;
  "resumed_after": number;
  "state": string;
};

/** The agent's process is there. */
export type EventRunStarted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "run.started";
  "agent_version": string | null;
  "keeper_pid": number | null;
  "policy_digest": string;
};

/** A state followed another. */
export type EventRunState = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "run.state";
  "by"?: By;
  "clock"?: Record<string, unknown>;
  "error"?: string;
  "from": string;
  "reason": string | null;
  "to": string;
  "until"?: Record<string, unknown>;
};

/** It is over. `output` is the end of what it wrote, `error` why it came to no end. */
export type EventSetupEnded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "setup.ended";
  "duration_s": number | null;
  "error"?: string;
  "exit": number | null;
  "output": string;
  "signal": number | null;
  "truncated"?: boolean;
};

/** The command that sets a new worktree up begins. */
export type EventSetupStarted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "setup.started";
  "command": string;
};

/** A tool is used. `content` is what it shows besides its output. */
export type EventToolCall = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "tool.call";
  "content"?: Array<unknown>;
  "input"?: unknown;
  "kind": string;
  "locations"?: Array<unknown>;
  "name"?: string;
  "output"?: unknown;
  "status": string;
  "title": string;
  "tool_call_id": string;
};

/** What changed about a tool call; the other members stand as they were. */
export type EventToolCallUpdate = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "tool.call_update";
  "content"?: Array<unknown>;
  "input"?: unknown;
  "kind"?: string;
  "locations"?: Array<unknown>;
  "name"?: string;
  "output"?: unknown;
  "status"?: string;
  "title"?: string;
  "tool_call_id": string;
};

/** The agent's terminal record for a prompt. */
export type EventTurnEnded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "turn.ended";
  "error"?: Failure;
  "resets_at"?: number | null;
  "stop_reason": string;
  "transient"?: boolean;
};

/** Somebody ends the turn before the agent does. */
export type EventTurnInterrupted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "turn.interrupted";
  "by": By;
};

/** The tree at a turn's end was recorded, or a warning says why not. */
export type EventTurnRecorded = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "turn.recorded";
  "changes": Changes;
  "commits": Commits;
  "tree"?: string;
  "warnings"?: Array<string>;
};

/** The agent has a prompt: the `prompt`th of this run. */
export type EventTurnStarted = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "turn.started";
  "clock"?: Record<string, unknown>;
  "prompt"?: number;
  "title"?: string;
};

/** Tokens of this run so far; its cost where the agent tells one. */
export type EventUsageUpdated = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "usage.updated";
  "cost_usd": number | null;
  "model"?: string;
  "provider"?: string;
  "session_counters"?: Record<string, number>;
  "usage": Record<string, number>;
};

/** A piece of a text; pieces of one message share its `message_id` where the agent has one. */
export type EventUserMessageChunk = {
  "attempt"?: number;
  "cut"?: Record<string, unknown>;
  "g"?: number;
  "late"?: boolean;
  "n"?: number;
  "run": string;
  "seq": number;
  "session"?: string;
  "ts": number;
  "turn"?: number;
  "type": "user.message_chunk";
  "message_id"?: string;
  "text": string;
};

/** An event of a subscription; the cursor resumes after it. */
export type EventNotification = {
  "subscription": string;
  "cursor": string;
  "event": Event;
};

/** Events behind a cursor; `ended`: there will be none beyond `head`, the newest seq. */
export type EventPage = {
  "cursor": string;
  "ended": boolean;
  "events": Array<Event>;
  "head": number;
};

/** What keeps runs from working: `ok` where none of it failed.
 *
 * `version` and `build` are those of the program that looked. */
export type Examination = {
  "build": string;
  "diagnoses": Array<Diagnosis>;
  "ok": boolean;
  "version": string;
};

/** The agent's program on the host. */
export type Executable = {
  "path": string;
  "sha256": string | null;
  "version": string | null;
};

/** How the agent's process ended; null where that is not known. */
export type Exit = {
  "ended_by": string | null;
  "exit_code": number | null;
  "signal": number | null;
};

/** What went wrong, in words; agents may add a code and data of their own. */
export type Failure = {
  "code"?: unknown;
  "data"?: unknown;
  "message": string;
};

/** A changed path; `status` is A, M, D or T (its type changed). */
export type FileChange = {
  "added": number;
  "binary": boolean;
  "path": string;
  "removed": number;
  "status": string;
};

/** Runs that have all of these facts, which are fixed at their start.
 *
 * `batch` is the label of that name; `here` is a directory: the runs of its repository.
 * `runs` names runs as everywhere else, `parent` the run that started them. */
export type Filter = {
  "runs"?: Array<string>;
  "task"?: string | null;
  "agent"?: string | null;
  "labels"?: Record<string, string>;
  "batch"?: string | null;
  "here"?: string | null;
  "parent"?: string | null;
};

/** Something that is not as it should be, and what to do.
 *
 * What belongs to no record is a keeper, process, worktree, home or run; a program or a file of
 * the user's that cannot be used is on_event, notify or handler. */
export type Finding = {
  "kind": string;
  "path": string;
  "remedy": string;
  "why": string;
};

/** Since when a run's raw logs, and its task's worktree with the agents' homes, are gone. */
export type GoneSince = {
  "logs_at": number | null;
  "worktree_at": number | null;
};

/** A file or directory that a run was handed; `path` is None for what came as bytes. */
export type Input = {
  "kind": string;
  "name": string;
  "path": string | null;
  "sha256": string;
  "size": number;
};

/** A file or directory that the run is handed, under its own name or another. */
export type InputRequest = {
  "path": string;
  "name"?: string | null;
};

/** `turn` is told to end, None where none runs; `prompt` is the number of the next one. */
export type Interrupted = {
  "already": boolean;
  "dropped": Array<WaitingPrompt>;
  "handle": string;
  "prompt": number | null;
  "run": string;
  "state": string;
  "turn": number | null;
};

/** How a daemon ended: stopped, signal, restarting, refused, fault, crashed, killed, reboot.
 *
 * `at` is when, as far as that is known; `orderly`: somebody wanted it; `message` is all
 * of it in words. `by` stopped it, `signal` ended it; `why` is an error's text;
 * `oom_kills` counts what the kernel killed for want of memory since its last sign of life. */
export type LastEnd = {
  "at": number | null;
  "by"?: Record<string, unknown>;
  "how": string;
  "message": string;
  "mode"?: string;
  "oom_kills"?: number;
  "orderly": boolean;
  "pid": number;
  "signal"?: string;
  "why"?: string;
};

/** The run is this connection's until `expires_at` (ms); `new` is false where it was. */
export type LeaseClaimed = {
  "expires_at": number;
  "handle": string;
  "new": boolean;
  "run": string;
};

/** `released` is false where this connection had no lease of the run. */
export type LeaseReleased = {
  "handle": string;
  "released": boolean;
  "run": string;
};

/** The daemon restarts. What it has not answered it will not carry out: connect, ask again. */
export type LeavingNotification = {
  "reason": string;
};

/** The `names` that a run lacked and has again, and the state that it goes on in. */
export type Lent = {
  "handle": string;
  "names": Array<string>;
  "run": string;
  "state": string;
};

/** How many tokens and dollars a run may use, with all below it; None: as many as it likes. */
export type Limits = {
  "tokens"?: number | null;
  "cost_usd"?: number | null;
};

/** A page of the transcript; `next_cursor` leads to what is before it. */
export type Log = {
  "lines": Array<LogLine>;
  "next_cursor": number | null;
  "truncated": boolean;
};

/** A line of the transcript. */
export type LogLine = {
  "kind": string;
  "seq": number;
  "text": string;
  "ts": number;
};

/** An empty result. */
export type Nothing = Record<string, never>;

/** One way to answer a permission request, or of kind answer a question in words. */
export type Option = {
  "id": string;
  "kind": "allow_always" | "allow_once" | "reject_always" | "reject_once" | "answer";
  "name": string;
  "requires_message"?: boolean;
  "takes_message"?: boolean;
};

/** Who left a question to the others, and why. */
export type Passed = {
  "by": Record<string, unknown>;
  "reason": string;
};

/** A permission request and, once it is answered, who did; `passed`: who was asked before. */
export type Permission = {
  "agent": string;
  "deadline"?: number | null;
  "handle": string;
  "options"?: Array<Option>;
  "passed"?: Array<Passed>;
  "question"?: string;
  "request": string;
  "requested_at"?: number;
  "resolved": Resolution | null;
  "run": string;
  "state": "pending" | "resolved";
  "task": string;
  "tool"?: Record<string, unknown> | null;
};

/** What was asked for: requests of agents' own, and `questions` of runs in words. */
export type PermissionPage = {
  "permissions": Array<Permission>;
  "questions": Array<Question>;
};

/** Whether the kernel gives what some runs need; where not, why and what to do. */
export type Probed = {
  "cause": string | null;
  "ok": boolean;
  "remedy": string | null;
};

/** A profile in eight facts.
 *
 * One of the configuration `inherits` another; `trusted`: it may give more than that one. */
export type Profile = {
  "facts": Record<string, string>;
  "inherits"?: string | null;
  "name": string;
  "trusted"?: boolean;
};

/** A profile in facts, and its compiled policy: mounts, names of variables, arguments. */
export type ProfileExplained = {
  "facts": Record<string, string>;
  "policy": Record<string, unknown>;
  "profile": string;
};

/** Profiles by name. */
export type ProfilePage = {
  "profiles": Array<Profile>;
};

/** Nothing new matched, and the cursor moved. */
export type ProgressNotification = {
  "subscription": string;
  "cursor": string;
};

/** What a prompt's file held when it was written; `sha256` in lower-case hex. */
export type PromptFile = {
  "bytes": number;
  "sha256": string;
};

/** A prompt that is on disk.
 *
 * `turn` is the one that it will be unless somebody interrupts, and None where a prompt that
 * is sent again has had its turn. `ahead` counts the turns before it, `waits_for` is "turn",
 * "place" (too many runs are active) or None. `resumed` says that the run had ended: `run`
 * is a new one, on its session. `new` is false where its request key had given it before. */
export type Prompted = {
  "ahead": number;
  "handle": string;
  "new": boolean;
  "prompt": number;
  "resumed": boolean;
  "run": string;
  "state": string;
  "turn": number | null;
  "waits_for": "place" | "turn" | null;
};

/** An agent's provider that takes no more `until` then; `queued` runs wait for it. */
export type ProviderLimit = {
  "agent": string;
  "provider": string;
  "queued": number;
  "until": number;
};

/** What a run asks its parent, or whoever watches, and what came of it once it is settled. */
export type Question = {
  "agent": string;
  "asked_at": number;
  "deadline": number;
  "handle": string;
  "options": Array<string>;
  "question": string;
  "request": string;
  "resolved": Reply | null;
  "run": string;
  "state": "pending" | "resolved";
  "task": string;
};

/** The question that the answer went to. */
export type QuestionAnswered = {
  "handle": string;
  "request": string;
  "run": string;
};

/** How many runs the index holds now, and those that it had to leave out in part or whole. */
export type Reindexed = {
  "runs": number;
  "unreadable": Array<UnreadableRun>;
};

/** What came of a question: `answer` is null where there was none. */
export type Reply = {
  "answer": string | null;
  "by": Record<string, unknown>;
  "outcome": "answered" | "expired" | "withdrawn";
};

/** How a request was settled and by whom; `resolved`: everybody was told. */
export type Resolution = {
  "by": Record<string, unknown> | null;
  "kind": string | null;
  "option": string | null;
  "outcome": string;
  "resolved": boolean;
};

/** Whether `run.resume` could go on in a run's session; where not, why. */
export type Resumable = {
  "ok": boolean;
  "why": string | null;
};

/** Decides what it matches. `tool` has kinds of tools, none meaning all of them.
 *
 * `command` is a pattern of words, `path` one of paths below the worktree's top; an
 * absolute one is of paths outside, which no allow ever matches. */
export type RuleRequest = {
  "decide": "allow" | "always" | "ask" | "deny";
  "tool"?: Array<string>;
  "command"?: string | null;
  "path"?: string | null;
};

/** Everything about one run.
 *
 * `request` is what was recorded before it began, `prompt` the beginning of its text. */
export type RunDetails = {
  "agent": string;
  "ancestors"?: Array<string>;
  "attempts": number;
  "attention": Attention | null;
  "bytes"?: number;
  "changes": Changes | null;
  "cleaned"?: boolean;
  "cost_usd": number | null;
  "created_at": number;
  "deadlines": Record<string, number>;
  "dir": string;
  "effort": string | null;
  "ended_at": number | null;
  "error": Failure | null;
  "evidence_dir": string;
  "first_g"?: number;
  "handle": string;
  "held_until"?: number | null;
  "keep"?: boolean;
  "labels": Record<string, string>;
  "last_event_at": number;
  "last_g"?: number;
  "last_seq": number;
  "log_bytes"?: number;
  "model": string | null;
  "network": string;
  "now": string | null;
  "outcome": string | null;
  "parent"?: string | null;
  "permissions": "allow" | "ask" | "deny";
  "profile": string;
  "prompt": string;
  "queue": Array<WaitingPrompt>;
  "queued_prompts"?: number;
  "reason": string | null;
  "repo": string;
  "request": Record<string, unknown>;
  "result": RunResult | null;
  "resumable": Resumable | null;
  "resumed_from": string | null;
  "resumes_at"?: number | null;
  "run": string;
  "session": string | null;
  "started_at": number | null;
  "state": string;
  "stop_reason": string | null;
  "task": string;
  "title": string;
  "tokens": number | null;
  "turn"?: number;
  "turn_stop_reason"?: string | null;
  "usage": Record<string, number> | null;
  "worktree": string;
};

/** A page of summaries, what needs someone first, then the newest.
 *
 * `older` counts the runs that ended more than 12 h ago, where that is why they are out. */
export type RunPage = {
  "next_cursor": string | null;
  "older": number;
  "runs": Array<RunSummary>;
};

/** The same of one run, as it was before the agent of its newest `attempt` started. */
export type RunPolicy = {
  "attempt": number;
  "bwrap": Bubblewrap | null;
  "caps": Array<Cap>;
  "command": Array<string>;
  "executable": Executable;
  "handle": string;
  "inputs": Array<Artifact> | null;
  "instructions": Array<Artifact> | null;
  "policy": Record<string, unknown>;
  "run": string;
};

/** How a run ended and what it left, in this `format` of the record.
 *
 * `tree` is git's hash of the tree as the run left it, `message_sha256` the digest of the
 * whole final message: what two runs have in both, the later one came no further.
 * `network_decided` counts the hosts that were denied, and the places that were `unreachable`.
 * A record of an earlier version may lack members. */
export type RunResult = {
  "agent": string;
  "agent_version"?: string | null;
  "artifacts"?: Array<Artifact>;
  "attempts"?: number;
  "base"?: string;
  "bytes"?: Bytes;
  "changed_files"?: Array<FileChange>;
  "changes"?: Changes;
  "check"?: Check | null;
  "cleaned"?: GoneSince;
  "commits"?: Commits;
  "cost"?: Cost | null;
  "durations"?: Record<string, number | null>;
  "effort"?: string | null;
  "ended_at"?: number | null;
  "environment"?: Record<string, string>;
  "error"?: Failure | null;
  "evidence_dir"?: string;
  "executable"?: Executable | null;
  "exit"?: Exit | null;
  "final_message"?: string;
  "final_message_truncated"?: boolean;
  "final_path"?: string;
  "format"?: number;
  "handle": string;
  "inputs"?: Array<Input>;
  "message_sha256"?: string;
  "model"?: string | null;
  "network"?: string;
  "network_decided"?: Record<string, number>;
  "outcome": string;
  "parent"?: string | null;
  "permissions"?: "allow" | "ask" | "deny";
  "permissions_decided"?: Record<string, number>;
  "policy_digest"?: string;
  "profile"?: string;
  "resets_at"?: number | null;
  "resumable"?: Resumable;
  "resumed_from"?: string | null;
  "run": string;
  "session"?: string | null;
  "session_counters"?: Record<string, number> | null;
  "started_at"?: number | null;
  "stop_reason": string | null;
  "summary"?: RunSummary;
  "task": string;
  "tree"?: string | null;
  "turns"?: number;
  "usage"?: Record<string, number> | null;
  "warnings"?: Array<string>;
  "worktree"?: string;
};

/** A run that was accepted; `new` is false where its request key had started it before.
 *
 * `compiled` comes with a dry run alone. */
export type RunStarted = {
  "base": string;
  "compiled"?: Compiled;
  "continuing": number;
  "deadlines": Record<string, number>;
  "dry_run": boolean;
  "effective": Effective;
  "evidence_dir": string;
  "handle": string;
  "keep": boolean;
  "new": boolean;
  "policy_digest": string;
  "resumed_from": string | null;
  "run": string;
  "state": string;
  "task": string;
  "uncommitted_left_out": number;
  "warnings": Array<string>;
  "worktree": string;
};

/** One row of `run.list`. */
export type RunSummary = {
  "agent": string;
  "ancestors"?: Array<string>;
  "attention": Attention | null;
  "bytes"?: number;
  "changes": Changes | null;
  "cleaned"?: boolean;
  "cost_usd": number | null;
  "created_at": number;
  "dir": string;
  "effort": string | null;
  "ended_at": number | null;
  "error": Failure | null;
  "first_g"?: number;
  "handle": string;
  "held_until"?: number | null;
  "keep"?: boolean;
  "labels": Record<string, string>;
  "last_event_at": number;
  "last_g"?: number;
  "last_seq": number;
  "log_bytes"?: number;
  "model": string | null;
  "network": string;
  "now": string | null;
  "outcome": string | null;
  "parent"?: string | null;
  "permissions": "allow" | "ask" | "deny";
  "profile": string;
  "queued_prompts"?: number;
  "reason": string | null;
  "repo": string;
  "resumes_at"?: number | null;
  "run": string;
  "started_at": number | null;
  "state": string;
  "stop_reason": string | null;
  "task": string;
  "title": string;
  "tokens": number | null;
  "turn"?: number;
  "turn_stop_reason"?: string | null;
};

/** The daemon's program. */
export type ServerInfo = {
  "build": string;
  "name": string;
  "version": string;
};

/** `state` is ok, full or degraded; other than ok, no run is started and `reason` says why.
 *
 * Full, runs are held until there is room. No run is started with less than `floor_bytes` free. */
export type StorageStatus = {
  "floor_bytes": number;
  "free_bytes": number;
  "reason": string | null;
  "state": string;
};

/** Events follow as `event.event` notifications; `event.end` closes them. */
export type Subscribed = {
  "cursor": string;
  "subscription": string;
};

/** A task and the runs that worked in it; `holder` is the run that does so now. */
export type Task = {
  "admin": string | null;
  "base": string;
  "common_dir": string;
  "created_at": number;
  "holder": string | null;
  "repo": string;
  "runs": Array<string>;
  "task": string;
  "toplevel": string;
  "worktree": string;
};

/** Tasks of one repository, or of all. */
export type TaskPage = {
  "tasks": Array<Task>;
};

/** Limits of this run in seconds; those of the configuration where left out.
 *
 * `wall` is for all of it, `work` for what its agent is busy, `turn` for each turn,
 * `stall` for the agent's silence, `queue` for the time until it begins. */
export type Timeouts = {
  "wall_s"?: number | null;
  "work_s"?: number | null;
  "stall_s"?: number | null;
  "turn_s"?: number | null;
  "queue_s"?: number | null;
  "permission_s"?: number | null;
  "parked_s"?: number | null;
  "check_s"?: number | null;
};

/** A run with something that cannot be read. */
export type UnreadableRun = {
  "run": string;
  "why": string;
};

/** `ended` is false where there was none of that name (any more). */
export type Unsubscribed = {
  "ended": boolean;
};

/** Which condition was met, and the runs asked about. */
export type Waited = {
  "met": "attention" | "ended" | "idle" | "timeout" | "turn";
  "runs": Array<WaitedRun>;
};

/** One run as `run.wait` found it; `exit_code` is there once it has ended.
 *
 * `turn` is the last that it began, `turn_stop_reason` how that ended, if it has. */
export type WaitedRun = {
  "attention": Attention | null;
  "changes": Changes | null;
  "error": Failure | null;
  "exit_code"?: number;
  "handle": string;
  "met": string | null;
  "next": Array<Array<string>>;
  "now": string | null;
  "outcome": string | null;
  "run": string;
  "seconds_since_event": number | null;
  "state": string;
  "stop_reason": string | null;
  "task": string | null;
  "turn"?: number;
  "turn_stop_reason"?: string | null;
  "usage": Record<string, number> | null;
};

/** A prompt that waits for its turn, or did until it was dropped; `title`: its first line. */
export type WaitingPrompt = {
  "prompt": number;
  "title": string;
};

export interface Methods {
  /** Agents, and the names of the variables each wants. */
  "agent.list": {
    params: {
      "agent"?: string | null;
      "path"?: string | null;
      "profile"?: string | null;
    };
    result: AgentPage;
  };
  /** Remove what ended runs left and is kept elsewhere, or tell what could go. */
  "daemon.cleanup": {
    params: {
      "runs"?: Array<string>;
      "tasks"?: Array<string>;
      "older_than_s"?: number | null;
      "larger_than"?: number | null;
      "outcome"?: Array<string>;
      "all"?: boolean;
      "only"?: "logs" | "worktrees" | null;
      "dry_run"?: boolean;
      "dir"?: string | null;
    };
    result: Cleanup;
  };
  /** Look at this machine, the configuration and the agents: causes and remedies. */
  "daemon.doctor": {
    params: {
      "agent"?: string | null;
      "env"?: Record<string, string>;
    };
    result: Examination;
  };
  /** Agree on an API version. */
  "daemon.hello": {
    params: {
      "client"?: ClientInfo | null;
      "api"?: Array<number>;
    };
    result: DaemonHello;
  };
  /** Answer at once. */
  "daemon.ping": {
    params: Record<string, never>;
    result: Nothing;
  };
  /** Make the index of ended runs anew from their directories. */
  "daemon.reindex": {
    params: Record<string, never>;
    result: Reindexed;
  };
  /** Come back as the build on disk, in place: connections wait, none is refused. */
  "daemon.restart": {
    params: {
      "mode"?: "detach" | "drain" | "stop";
      "timeout_s"?: number | null;
    };
    result: DaemonRestarting;
  };
  /** End the daemon: its runs go on, are waited for, or are ended first. */
  "daemon.shutdown": {
    params: {
      "mode"?: "detach" | "drain" | "stop";
      "timeout_s"?: number | null;
    };
    result: DaemonLeaving;
  };
  /** Version, runs, capacity, storage, boundary. */
  "daemon.status": {
    params: Record<string, never>;
    result: DaemonStatus;
  };
  /** A page of a run's events; a long poll for clients without subscriptions. */
  "event.read": {
    params: {
      "run": string;
      "cursor"?: string | null;
      "after_seq"?: number | null;
      "limit"?: number;
      "wait_s"?: number;
      "dir"?: string | null;
    };
    result: EventPage;
  };
  /** Follow the events of a run, or of all that a filter takes, from however far back. */
  "event.subscribe": {
    params: {
      "run"?: string | null;
      "filter"?: Filter | null;
      "cursor"?: string | null;
      "after_seq"?: number | null;
      "since"?: number | null;
      "follow"?: boolean;
      "types"?: Array<string>;
      "dir"?: string | null;
    };
    result: Subscribed;
  };
  /** End a subscription of this connection. */
  "event.unsubscribe": {
    params: {
      "subscription": string;
    };
    result: Unsubscribed;
  };
  /** Be the only connection that may prompt a run, until released, expired or gone. */
  "lease.claim": {
    params: {
      "run": string;
      "ttl_s"?: number;
      "dir"?: string | null;
    };
    result: LeaseClaimed;
  };
  /** Give a run back before its time. */
  "lease.release": {
    params: {
      "run": string;
      "dir"?: string | null;
    };
    result: LeaseReleased;
  };
  /** Answer a question; the first answer wins. */
  "permission.answer": {
    params: {
      "request": string;
      "run"?: string | null;
      "option"?: string | null;
      "kind"?: string | null;
      "message"?: string | null;
      "dir"?: string | null;
    };
    result: Answered;
  };
  /** What waits for somebody's answer, oldest first. */
  "permission.list": {
    params: {
      "run"?: string | null;
      "pending"?: boolean;
      "dir"?: string | null;
    };
    result: PermissionPage;
  };
  /** A profile as facts and as the compiled policy. */
  "profile.explain": {
    params: {
      "profile": string;
      "agent"?: string | null;
    };
    result: ProfileExplained;
  };
  /** The profiles of this version, and those of the configuration. */
  "profile.list": {
    params: Record<string, never>;
    result: ProfilePage;
  };
  /** The OpenRPC document of this API. */
  "rpc.discover": {
    params: Record<string, never>;
    result: Record<string, unknown>;
  };
  /** Answer what a run asks, in words; the first answer wins. */
  "run.answer": {
    params: {
      "question": string;
      "answer": string;
      "run"?: string | null;
      "dir"?: string | null;
    };
    result: QuestionAnswered;
  };
  /** Ask the run's parent, or whoever watches, and wait for the answer. */
  "run.ask": {
    params: {
      "question": string;
      "options"?: Array<string>;
      "timeout_s"?: number | null;
      "request_key"?: string | null;
    };
    result: Asked;
  };
  /** End runs now; ended ones stay as they are. */
  "run.cancel": {
    params: {
      "runs": Array<string>;
      "dir"?: string | null;
    };
    result: Cancelled;
  };
  /** End runs once their turn is over and nothing waits; ended ones stay as they are. */
  "run.close": {
    params: {
      "runs": Array<string>;
      "dir"?: string | null;
    };
    result: Closed;
  };
  /** What a run or a task changed, as a patch. */
  "run.diff": {
    params: {
      "run"?: string | null;
      "task"?: string | null;
      "dir"?: string | null;
      "stat"?: boolean;
      "names"?: boolean;
      "offset"?: number;
      "limit"?: number;
    };
    result: Diff;
  };
  /** Everything about one run. */
  "run.get": {
    params: {
      "run": string;
      "dir"?: string | null;
    };
    result: RunDetails;
  };
  /** End the turn that runs, then go on with a prompt. */
  "run.interrupt": {
    params: {
      "run": string;
      "prompt"?: string | null;
      "keep_queue"?: boolean;
      "turn"?: number | null;
      "request_key"?: string | null;
      "dir"?: string | null;
    };
    result: Interrupted;
  };
  /** Give a run the variables that it lacks since the daemon was restarted. */
  "run.lend": {
    params: {
      "run": string;
      "env": Record<string, string>;
      "dir"?: string | null;
    };
    result: Lent;
  };
  /** Runs, newest first. */
  "run.list": {
    params: {
      "state"?: Array<string>;
      "outcome"?: Array<string>;
      "task"?: string | null;
      "agent"?: string | null;
      "labels"?: Record<string, string>;
      "batch"?: string | null;
      "here"?: string | null;
      "since"?: number | null;
      "attention"?: boolean | null;
      "parent"?: string | null;
      "ancestor"?: string | null;
      "all"?: boolean;
      "limit"?: number;
      "cursor"?: string | null;
    };
    result: RunPage;
  };
  /** A run's transcript: merged text, one line a tool. */
  "run.log": {
    params: {
      "run": string;
      "lines"?: number;
      "cursor"?: number | null;
      "dir"?: string | null;
    };
    result: Log;
  };
  /** What a run's boundary was compiled to: policy, arguments, caps, digests. */
  "run.policy": {
    params: {
      "run": string;
      "dir"?: string | null;
    };
    result: RunPolicy;
  };
  /** Give a kept run another prompt, durable before the answer; resume an ended one. */
  "run.prompt": {
    params: {
      "run": string;
      "prompt": string;
      "env"?: Record<string, string>;
      "request_key"?: string | null;
      "dir"?: string | null;
    };
    result: Prompted;
  };
  /** What came of a run that has ended. */
  "run.result": {
    params: {
      "run": string;
      "dir"?: string | null;
    };
    result: RunResult;
  };
  /** Start a run that goes on in the session of one that has ended. */
  "run.resume": {
    params: {
      "run": string;
      "prompt": string;
      "env"?: Record<string, string>;
      "keep"?: boolean | null;
      "timeouts"?: Timeouts;
      "title"?: string | null;
      "request_key"?: string | null;
      "no_wait"?: boolean;
      "agent"?: string | null;
      "model"?: string | null;
      "provider"?: string | null;
      "profile"?: string | null;
      "dir"?: string | null;
    };
    result: RunStarted;
  };
  /** Start a run of an agent in a task's worktree. */
  "run.start": {
    params: {
      "dir": string;
      "prompt"?: string;
      "agent"?: string | null;
      "argv"?: Array<string>;
      "model"?: string | null;
      "effort"?: string | null;
      "provider"?: string | null;
      "as_agent"?: string | null;
      "keep"?: boolean;
      "session"?: string | null;
      "task"?: string | null;
      "profile"?: string | null;
      "network"?: Array<string> | null;
      "permissions"?: "allow" | "ask" | "deny" | null;
      "rules"?: Array<RuleRequest>;
      "permission_handler"?: string | null;
      "base"?: string | null;
      "env"?: Record<string, string>;
      "timeouts"?: Timeouts;
      "labels"?: Record<string, string>;
      "title"?: string | null;
      "request_key"?: string | null;
      "no_wait"?: boolean;
      "dry_run"?: boolean;
      "limits"?: Limits;
      "on_limit"?: "fail" | "wait" | null;
      "retries"?: number | null;
      "priority"?: number;
      "output_limit"?: number | null;
      "sentinel_file"?: string | null;
      "on_event"?: string | null;
      "check"?: string | null;
      "delegate"?: Delegate | null;
      "inputs"?: Array<InputRequest>;
      "trust_tree"?: boolean;
      "native"?: boolean;
      "artifacts"?: Array<string>;
      "input_data"?: Record<string, string>;
      "input_descriptors"?: Array<string>;
    };
    result: RunStarted;
  };
  /** Wait until runs have ended or need someone. */
  "run.wait": {
    params: {
      "runs": Array<string>;
      "until"?: "attention" | "ended" | "turn";
      "any"?: boolean;
      "timeout_s"?: number | null;
      "idle"?: boolean;
      "dir"?: string | null;
    };
    result: Waited;
  };
  /** One task and its runs. */
  "task.get": {
    params: {
      "task": string;
      "dir"?: string | null;
    };
    result: Task;
  };
  /** Tasks and who works in them. */
  "task.list": {
    params: {
      "dir"?: string | null;
    };
    result: TaskPage;
  };
}

export interface Notifications {
  "event.event": EventNotification;
  "event.progress": ProgressNotification;
  "event.end": EndNotification;
  "daemon.leaving": LeavingNotification;
}

export type ErrorName = "ParseError" | "InvalidRequest" | "MethodNotFound" | "InvalidParams" | "InternalError" | "NotFound" | "Conflict" | "Denied" | "Timeout" | "Busy" | "AgentFailed" | "BoundaryUnavailable" | "Degraded" | "Cancelled";
