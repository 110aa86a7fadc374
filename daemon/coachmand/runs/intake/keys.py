"""Request keys: the same key starts the same run once, however often it is sent."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from attrs import asdict

from ... import durable
from ...evidence.rundir import read_json
from ...rpc.errors import RpcError
from .request import StartRequest
from .resumption import ResumeRequest

Request = StartRequest | ResumeRequest

# What a repetition may change without meaning another run.
NOT_COMPARED = frozenset({"request_key", "env", "no_wait"})


def key_path(keys: Path, request_key: str) -> Path:
    """Where the claim of a key lies."""
    return keys / f"{hashlib.sha256(request_key.encode()).hexdigest()}.json"


def claim(keys: Path, request: Request, run: str, runs: Path) -> str:
    """Claim the request's key for ``run``; returns the run that holds it. Blocks.

    Raises RpcError Conflict where the key was used with other parameters. A claim whose
    run never came to be is free again.
    """
    assert request.request_key is not None
    path = key_path(keys, request.request_key)
    digests = _digests(request)
    data = msgspec.json.encode({"format": 1, "run": run, "parameters": digests})
    for _ in range(3):
        if durable.claim(path, data):
            return run
        held = read_json(path)
        if (runs / held["run"]).exists():
            _compare(held["parameters"], digests, request.request_key, held["run"])
            return str(held["run"])
        durable.remove(path)
    raise RpcError("Busy", "cannot start: the request key is being used", retryable=True)


def holder(keys: Path, request_key: str, runs: Path) -> str | None:
    """The run that a key started, if there is one. Blocks."""
    try:
        held = str(read_json(key_path(keys, request_key))["run"])
    except FileNotFoundError:
        return None
    return held if (runs / held).exists() else None


def release(keys: Path, request: Request) -> None:
    """A refused start frees its key. Blocks."""
    if request.request_key is not None:
        durable.remove(key_path(keys, request.request_key))


def _digests(request: Request) -> dict[str, str]:
    members: dict[str, Any] = asdict(request)
    return {
        name: hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]
        for name, value in members.items()
        if name not in NOT_COMPARED
    }


def _compare(held: dict[str, str], asked: dict[str, str], key: str, run: str) -> None:
    other = sorted(name for name in {*held, *asked} if held.get(name) != asked.get(name))
    if other:
        raise RpcError(
            "Conflict",
            f"cannot start: key {key!r} started {run} with another {', '.join(other)}",
            hint="use a new request_key for another run",
            detail={"run": run, "differs": other},
        )
