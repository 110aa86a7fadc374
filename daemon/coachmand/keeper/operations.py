"""What an attached peer may ask for: a table from the protocol's names to functions."""

from __future__ import annotations

import os
import signal

from ..failpoints import reach
from . import PROTOCOL_VERSION
from .errors import Refused
from .record import is_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .connection import Connection
    from .keeper import Keeper

    Message = dict[str, Any]
    Operation = Callable[[Keeper, Message, bytes], Message]


def perform(keeper: Keeper, peer: Connection, message: Message, body: bytes) -> Message:
    """Carry out one request; the members of its reply. Raises Refused."""
    name = message["op"]
    if name == "hello":
        return hello(message)
    if name == "attach":
        return attach(keeper, peer, message)
    operation = OPERATIONS.get(name)
    if operation is None:
        raise Refused("unknown_op", "cannot do that: no such operation")
    if peer is not keeper.peers.attached:
        raise Refused("not_attached", f"cannot {name}: attach first")
    return operation(keeper, message, body)


def hello(message: Message) -> Message:
    if message.get("version") != PROTOCOL_VERSION:
        raise Refused("version", f"cannot talk: version {PROTOCOL_VERSION} is spoken here")
    return {"version": PROTOCOL_VERSION, "pid": os.getpid()}


def attach(keeper: Keeper, peer: Connection, message: Message) -> Message:
    generation = integer(message, "generation")
    if generation < keeper.generation:
        text = f"cannot attach: generation {keeper.generation} was here already"
        raise Refused("stale_generation", text, generation=keeper.generation)
    if keeper.outputs.held:
        # A hold ends with the connection that asked for it.
        keeper.outputs.release()
    keeper.peers.attach(peer, keeper.outputs.sizes)
    keeper.obey(generation)
    reach("keeper.attached")
    return {**keeper.status(), "mask": keeper.mask}


def write(keeper: Keeper, message: Message, body: bytes) -> Message:
    keeper.stdin.take(integer(message, "offset"), body)
    return {"taken": keeper.stdin.taken}


def close_stdin(keeper: Keeper, message: Message, body: bytes) -> Message:
    keeper.stdin.close()
    return {"taken": keeper.stdin.taken}


def send_signal(keeper: Keeper, message: Message, body: bytes) -> Message:
    if not keeper.sandbox.running:
        raise Refused("ended", "cannot signal: the sandbox has ended")
    target = message.get("target")
    if target == "tree":
        keeper.sandbox.kill()
        keeper.signals_sent.add(signal.SIGKILL)
        return {}
    number = integer(message, "signal")
    if target != "agent" or not 0 < number < signal.NSIG:
        raise Refused("bad_request", "cannot signal: name `agent` or `tree`, and a signal")
    keeper.sandbox.signal_agent(number)
    keeper.signals_sent.add(number)
    return {}


def set_deadline(keeper: Keeper, message: Message, body: bytes) -> Message:
    moment = message.get("boottime_s")
    if not is_moment(moment):
        raise Refused("bad_request", "cannot set the deadline: `boottime_s` is not a moment")
    if keeper.cause is not None:
        raise Refused("ended", "cannot set the deadline: the agent is being stopped")
    keeper.deadline = moment
    keeper.check_deadline()
    return {}


def hold(keeper: Keeper, message: Message, body: bytes) -> Message:
    keeper.outputs.hold()
    return {}


def release(keeper: Keeper, message: Message, body: bytes) -> Message:
    keeper.outputs.release()
    outputs = keeper.outputs
    return {"storage_error": outputs.error, "storage_errno": outputs.error_number}


def dismiss(keeper: Keeper, message: Message, body: bytes) -> Message:
    keeper.dismiss()
    return {}


def status(keeper: Keeper, message: Message, body: bytes) -> Message:
    return keeper.status()


OPERATIONS: dict[str, Operation] = {
    "write": write,
    "close_stdin": close_stdin,
    "signal": send_signal,
    "set_deadline": set_deadline,
    "dismiss": dismiss,
    "hold": hold,
    "release": release,
    "status": status,
}


def integer(message: Message, name: str) -> int:
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused("bad_request", f"cannot {message['op']}: `{name}` must be a whole number")
    return value
