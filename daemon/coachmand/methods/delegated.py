"""What may be sent over a run's own socket: every method and parameter of the wire stands here.

An agent that starts runs is a deputy that others may confuse: it never names a path of the host,
a command, a handler or somebody else's run. What is in neither table is refused, and a test fails
until it is put into one.
"""

from collections.abc import Mapping

HOST_PATH = "it names a path of the host"
COMMAND = "it is a command"
ENVIRONMENT = "what a child is lent was lent to its parent"

# Methods, and the parameters of each that an agent may give. Members of an object are dotted.
ALLOWED: Mapping[str, frozenset[str]] = {
    method: frozenset(parameters.split())
    for method, parameters in {
        "daemon.hello": "client client.name client.version api",
        "daemon.ping": "",
        "rpc.discover": "",
        "run.start": "prompt agent model effort provider as_agent keep task profile permissions"
        " network base labels title request_key no_wait dry_run on_limit retries priority"
        " output_limit"
        " timeouts timeouts.wall_s timeouts.work_s timeouts.stall_s timeouts.turn_s"
        " timeouts.queue_s timeouts.permission_s timeouts.parked_s timeouts.check_s"
        " limits limits.tokens limits.cost_usd"
        " delegate delegate.depth delegate.children delegate.tokens delegate.cost_usd"
        " delegate.agents input_data input_descriptors artifacts",
        "run.resume": "run prompt keep title request_key no_wait agent model provider profile"
        " timeouts timeouts.wall_s timeouts.work_s timeouts.stall_s timeouts.turn_s"
        " timeouts.queue_s timeouts.permission_s timeouts.parked_s timeouts.check_s",
        "run.list": "state outcome task agent labels batch since attention all limit cursor"
        " parent ancestor",
        "run.get": "run",
        "run.result": "run",
        "run.log": "run lines cursor",
        "run.diff": "run task stat names offset limit",
        "run.wait": "runs until any idle timeout_s",
        "run.prompt": "run prompt request_key",
        "run.interrupt": "run prompt keep_queue turn request_key",
        "run.ask": "question options timeout_s request_key",
        "run.answer": "question answer run",
        "run.close": "runs",
        "run.cancel": "runs",
        "event.subscribe": "run cursor after_seq types since follow filter filter.runs filter.task"
        " filter.agent filter.labels filter.batch filter.parent",
        "event.unsubscribe": "subscription",
        "event.read": "run cursor after_seq limit wait_s",
        "permission.list": "run pending",
    }.items()
}

# Parameters of these that it may not give, and why.
REFUSED: Mapping[str, Mapping[str, str]] = {
    "run.start": {
        "dir": HOST_PATH,
        "inputs": f"{HOST_PATH}; a file's descriptor is one of `input_descriptors`",
        "trust_tree": "what runs on the host is the user's to say",
        "native": "what runs on the host is the user's to say",
        "argv": COMMAND,
        "check": COMMAND,
        "sentinel_file": HOST_PATH,
        "on_event": COMMAND,
        "rules": "a child has its parent's rules",
        "permission_handler": "it is a handler",
        "env": ENVIRONMENT,
        "session": "it is a session of the user's own",
    },
    "run.resume": {"dir": HOST_PATH, "env": ENVIRONMENT},
    "run.list": {"here": HOST_PATH},
    "run.get": {"dir": HOST_PATH},
    "run.result": {"dir": HOST_PATH},
    "run.log": {"dir": HOST_PATH},
    "run.diff": {"dir": HOST_PATH},
    "run.wait": {"dir": HOST_PATH},
    "run.prompt": {"dir": HOST_PATH, "env": ENVIRONMENT},
    "run.interrupt": {"dir": HOST_PATH},
    "run.answer": {"dir": HOST_PATH},
    "run.close": {"dir": HOST_PATH},
    "run.cancel": {"dir": HOST_PATH},
    "event.subscribe": {"dir": HOST_PATH, "filter.here": HOST_PATH},
    "event.read": {"dir": HOST_PATH},
    "permission.list": {"dir": HOST_PATH},
}

# Methods that it may not call at all, and why.
CLOSED: Mapping[str, str] = {
    "daemon.status": "it tells of the host and of other runs",
    "daemon.shutdown": "the daemon is the user's",
    "daemon.restart": "the daemon is the user's",
    "daemon.cleanup": "what is removed is the user's to say",
    "daemon.reindex": "the daemon is the user's",
    "agent.list": "it tells of programs of the host",
    "daemon.doctor": "what the host lacks is the user's to know",
    "profile.list": "a child has its parent's boundary",
    "profile.explain": "it tells of paths of the host",
    "run.lend": "what is lent is a person's",
    "run.policy": "it names places of the host",
    "lease.claim": "a lease would keep the user out",
    "lease.release": "a lease would keep the user out",
    "permission.answer": "permissions are the user's to give",
    "task.list": "it tells of other runs' tasks",
    "task.get": "it tells of paths of the host",
}
