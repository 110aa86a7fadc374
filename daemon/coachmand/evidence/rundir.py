"""A run's directory: its request, journal, result and attempts."""

import re
import shutil
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from attrs import frozen

from .. import durable
from ..journal.damage import DamagedError
from ..journal.lines import dump

FORMAT = 1
BLOCK_BYTES = 512
# What only replay needs: the rest of a run's directory stays.
RAW_LOG = re.compile(r"(stdout|stderr)\.\d+|stdin\.log|checkpoint\.json")


@frozen
class RunDirectory:
    """``runs/<run>``: what a run was asked, what happened, what came of it."""

    path: Path

    @property
    def run(self) -> str:
        return self.path.name

    @property
    def request(self) -> Path:
        return self.path / "request.json"

    @property
    def journal(self) -> Path:
        return self.path / "events.ndjson"

    @property
    def artifacts(self) -> Path:
        """What its agent left in /output, once the run has ended."""
        return self.path / "artifacts"

    @property
    def output(self) -> Path:
        """Bound into the sandbox as /output; gone when the run has ended."""
        return self.path / "output"

    @property
    def inputs(self) -> Path:
        """Bound into the sandbox as /inputs."""
        return self.path / "inputs"

    @property
    def scratch(self) -> Path:
        """Bound into the sandbox as /scratch; gone when the run has ended."""
        return self.path / "scratch"

    @property
    def git(self) -> Path:
        """What the run sees of its repository; gone when the run has ended."""
        return self.path / "git"

    @property
    def delegate(self) -> Path:
        """Where the run's own socket lies, bound into its sandbox."""
        return self.path / "delegate"

    @property
    def final(self) -> Path:
        return self.path / "final.md"

    def attempt(self, number: int) -> Path:
        return self.path / "attempts" / str(number)

    def epilogue(self, number: int) -> Path:
        """Where the attempt's epilogue ran, a keeper's directory of its own."""
        return self.attempt(number) / "epilogue"

    def prompt(self, number: int) -> Path:
        """Where a prompt lies: they are numbered in the order in which they were given."""
        return self.path / "prompts" / f"{number}.md"

    def checkpoint(self, attempt: int) -> Path:
        return self.attempt(attempt) / "checkpoint.json"

    @property
    def building(self) -> "RunDirectory":
        """Where it is made before it appears; a crash may leave one."""
        return RunDirectory(self.path.with_name(f".{self.run}.new"))

    def create(self, request: dict[str, Any], prompt: str) -> None:
        """Write the run's record whole: it appears under its name with all that it holds."""
        building = self.building
        for part in ("attempts", "artifacts", "prompts"):
            durable.make_directory(building.path / part)
        durable.create(building.path / "request.json", encode_json(request))
        durable.create(building.prompt(1), encode_prompt(prompt))
        building.journal.touch(durable.FILE_MODE)
        durable.sync_directory(building.prompt(1).parent)
        durable.sync_directory(building.path)
        durable.move(building.path, self.path)

    def discard(self) -> None:
        """Remove what was made of a run that did not come to be, as far as the disk allows."""
        for path in (self.building.path, self.path):
            shutil.rmtree(path, ignore_errors=True)

    def read_request(self) -> dict[str, Any]:
        """The request as it was recorded."""
        return read_json(self.request)

    def read_result(self) -> dict[str, Any] | None:
        """The result, None while there is none."""
        try:
            return read_json(self.path / "result.json")
        except FileNotFoundError:
            return None

    def write_result(self, result: dict[str, Any], final_message: Iterable[str]) -> None:
        """Write the run's result; derived from the journal, whose ``run.ended`` decides.

        The final message comes in pieces and may be longer than memory is for.
        """
        durable.put_all(self.final, (piece.encode("utf-8", "replace") for piece in final_message))
        put_json(self.path / "result.json", result)

    def replace_result(self, result: dict[str, Any]) -> None:
        """Write the result anew, because something of the run is gone by now. Blocks."""
        put_json(self.path / "result.json", result)

    def log_bytes(self) -> int:
        """What the raw logs take on disk. Blocks."""
        files = (path for path in (self.path / "attempts").rglob("*") if RAW_LOG.match(path.name))
        return sum(path.stat().st_blocks * BLOCK_BYTES for path in files)

    def own_bytes(self) -> int:
        """What the journal, the request, the result and the prompts take on disk. Blocks."""
        files = [*self.path.iterdir(), *(self.path / "prompts").iterdir()]
        return sum(path.stat().st_blocks * BLOCK_BYTES for path in files if path.is_file())

    def write_prompt(self, number: int, prompt: str) -> None:
        """Write one more prompt; the journal tells that it is there. Blocks."""
        durable.replace(self.prompt(number), encode_prompt(prompt))

    def read_prompt(self, number: int, written: Mapping[str, Any] | None = None) -> str:
        """A prompt by its number. Raises DamagedError where it is not what was ``written``."""
        path = self.prompt(number)
        try:
            found = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedError(path, "it is gone") from error
        if written is not None and seal_of(found) != written:
            size = f"{len(found)} of {written['bytes']} bytes are there"
            same = len(found) == written["bytes"]
            raise DamagedError(path, "it is not what was written" if same else size)
        try:
            return found.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DamagedError(path, "it is no text") from error

    def segments(self, attempt: int, stream: str) -> list[Path]:
        """The raw log's files of one stream, in order."""
        pattern = re.compile(rf"{stream}\.(\d+)")
        found = [
            (int(match[1]), path)
            for path in self.attempt(attempt).iterdir()
            if (match := pattern.fullmatch(path.name))
        ]
        return [path for _, path in sorted(found)]


def encode_prompt(prompt: str) -> bytes:
    """A prompt as its file holds it."""
    return prompt.encode("utf-8", "surrogatepass")


def seal_of(written: bytes) -> dict[str, Any]:
    """What the journal remembers of a prompt's file: how long it is, and its digest."""
    return {"bytes": len(written), "sha256": sha256(written).hexdigest()}


def encode_json(record: dict[str, Any]) -> bytes:
    """A record that names its format, for programs and for eyes."""
    return msgspec.json.format(dump({"format": FORMAT, **record}), indent=1) + b"\n"


def put_json(path: Path, record: dict[str, Any]) -> None:
    """Replace ``path`` by a record; see `durable.put`."""
    durable.put(path, encode_json(record))


def read_json(path: Path) -> dict[str, Any]:
    """A record; unknown members are kept. ValueError for a format of a later version."""
    try:
        record = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise DamagedError(path, str(error)) from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise DamagedError(path, f"it was not written in format {FORMAT}")
    return record
