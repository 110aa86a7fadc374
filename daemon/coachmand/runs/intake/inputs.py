"""What a caller hands to a run: checked, copied before anything starts, and told in a manifest."""

import base64
import binascii
import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import asdict, evolve, field, frozen

from ... import durable
from ...evidence.rundir import RunDirectory, encode_json, read_json
from ...evidence.state import StateDirectory
from ...failpoints import reach
from ...repos.errors import RepoError
from ...repos.inputs import MANIFEST, fault_of
from ...repos.records import Artifact
from ..facts.places import make_inputs, places_of
from ..facts.record import Input, Record
from ..services import Services
from . import handed
from .request import StartRequest, usage

MAX_NAME_BYTES = 255


@frozen
class Wanted:
    """The inputs of a run to come, by name: ``paths``, ``descriptors`` to copy, ``data`` to write.

    ``inherited`` are those of the run ``of`` that it has as they were then.
    """

    paths: Mapping[str, str] = field(factory=dict)
    data: Mapping[str, bytes] = field(factory=dict, repr=lambda data: repr(sorted(data)))
    descriptors: Mapping[str, int] = field(factory=dict)
    inherited: tuple[Input, ...] = ()
    of: Record | None = None

    def __bool__(self) -> bool:
        return bool(self.paths or self.data or self.descriptors or self.inherited)


def wanted_of(request: StartRequest, inherits: Record | None = None) -> Wanted:
    """What is asked for, as far as can be seen now. Blocks. Raises RpcError.

    ``inherits`` is a run whose inputs are had as well, unless they are copied anew.
    """
    paths: dict[str, str] = {}
    for given in request.inputs:
        name = given.name if given.name is not None else os.path.basename(given.path.rstrip("/"))
        _check_name(name, {*paths, *request.input_data, *request.input_descriptors})
        if (fault := fault_of(given.path)) is not None:
            raise usage(f"the input {given.path} cannot be taken: {fault}", _instead(given.path))
        paths[name] = given.path
    data = {name: _decoded(name, text) for name, text in request.input_data.items()}
    for name in data:
        _check_name(name, {*paths, *request.input_descriptors})
    for at, name in enumerate(request.input_descriptors):
        _check_name(name, set(request.input_descriptors[:at]))
    descriptors = handed.by_name(request.input_descriptors)
    kept = tuple(each for each in inherits.inputs if each.name not in paths) if inherits else ()
    return Wanted(paths, data, descriptors, kept, inherits)


def _instead(path: str) -> str:
    """What to do about a path that can be no input."""
    if os.path.islink(path):
        target = shlex.quote(os.path.realpath(path))
        named = shlex.quote(os.path.basename(path.rstrip("/")))
        return f"name what it leads to: --input {target}={named}"
    if os.path.exists(path):
        return "put what it says into a file, and name that"
    return "check the path: the files and directories that are named have to be there"


def _check_name(name: str, others: set[str]) -> None:
    if not name or name in (".", "..") or "/" in name or not name.isprintable():
        raise usage(f"{name!r} cannot name an input", "name it plainly: --input PATH=NAME")
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        raise usage(f"an input's name has at most {MAX_NAME_BYTES} bytes: {name[:40]}…")
    if name == MANIFEST:
        raise usage(f"{MANIFEST} is coachman's own list of the inputs", "name it otherwise")
    if name in others:
        raise usage(f"two inputs are named {name!r}", "name one otherwise: --input PATH=NAME")


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise usage(f"the bytes of the input {name!r} are not base64") from error


async def take(record: Record, wanted: Wanted, services: Services) -> Record:
    """Put the inputs where the run has them, before it is on record. Raises RpcError, OSError.

    Whoever calls removes what was made when the run does not come to be.
    """
    if not wanted:
        return record
    state = services.state
    into = await trio.to_thread.run_sync(make_inputs, record, state)
    sources = [{"path": path, "name": name} for name, path in wanted.paths.items()]
    try:
        rows = await services.workers.copy_inputs(sources, str(into)) if sources else []
    except RepoError as error:
        raise usage(error.message, error.hint) from error
    reach("inputs.copied")
    rows += await trio.to_thread.run_sync(lambda: list(_written(wanted.data, into)))
    rows += await trio.to_thread.run_sync(lambda: list(handed.copied(wanted.descriptors, into)))
    rows += await trio.to_thread.run_sync(lambda: list(_inherited(wanted, into, state)))
    await trio.to_thread.run_sync(_write_manifest, into, rows)
    paths = {**wanted.paths, **{each.name: each.path for each in wanted.inherited}}
    members = ("name", "kind", "size", "sha256")
    taken = (Input(path=paths.get(row["name"]), **{n: row[n] for n in members}) for row in rows)
    return evolve(record, inputs=tuple(taken))


def _written(data: Mapping[str, bytes], into: Path) -> Iterator[dict[str, Any]]:
    for name, content in data.items():
        durable.create(into / name, content)
        sha256 = hashlib.sha256(content).hexdigest()
        yield {"name": name, "kind": "file", "size": len(content), "sha256": sha256}


def _inherited(wanted: Wanted, into: Path, state: StateDirectory) -> Iterator[dict[str, Any]]:
    """The same files: nobody but us can write them, neither there nor here."""
    if not wanted.inherited or wanted.of is None:
        return
    source = places_of(wanted.of, state).inputs
    names = {each.name for each in wanted.inherited}
    try:
        for row in _rows(source):
            if row["name"] in names:
                _link(source / row["name"], into / row["name"])
                yield row
    except FileNotFoundError as error:
        text = f"the inputs of run {wanted.of.handle} are not there any more"
        raise usage(text, "start a new run instead") from error


def _link(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, copy_function=os.link)
    else:
        os.link(source, target)


def _write_manifest(into: Path, rows: list[dict[str, Any]]) -> None:
    durable.create(into / MANIFEST, encode_json({"inputs": rows}))
    durable.sync_directory(into)


def _rows(directory: Path) -> list[dict[str, Any]]:
    return list(read_json(directory / MANIFEST)["inputs"])


def digests(record: Record, state: StateDirectory) -> tuple[Artifact, ...]:
    """Every file that a run was handed, as it was digested when it was copied. Blocks."""
    if not record.inputs:
        return ()
    files = []
    for row in _rows(places_of(record, state).inputs):
        if row["kind"] == "file":
            files.append(Artifact(row["name"], row["size"], row["sha256"]))
        for each in row.get("files", ()):
            files.append(Artifact(f"{row['name']}/{each['path']}", each["size"], each["sha256"]))
    return tuple(sorted(files, key=lambda each: each.path))


def discard(state: StateDirectory, run: str) -> None:
    """Remove what was made of a run that did not come to be. Blocks."""
    RunDirectory(state.run(run)).discard()
    shutil.rmtree(state.sealed_run(run), ignore_errors=True)


def shown(record: Record) -> list[dict[str, Any]]:
    """The inputs as results tell of them."""
    return [asdict(each) for each in record.inputs]
