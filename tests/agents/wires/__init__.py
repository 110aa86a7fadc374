"""The wire formats that the scripted model speaks, one module each.

A wire reads a request into `Asked` and puts a `Reply` into its own words.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from model_script import Asked, Reply


class Wire(Protocol):
    """One model API."""

    def takes(self, path: str) -> bool:
        """Whether a POST to ``path`` (without its query) is this API's."""
        ...

    def read(self, path: str, body: Mapping[str, Any]) -> Asked: ...
    def usage(self, reply: Reply) -> dict[str, Any]: ...
    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """The answer where it is not streamed."""
        ...

    def stream(self, asked: Asked, reply: Reply) -> Iterator[tuple[bytes, bool]]:
        """The answer as server-sent events; True after what a slow reply pauses at."""
        ...

    def error(self, reply: Reply) -> tuple[dict[str, str], dict[str, Any]]:
        """Headers and body of a failure."""
        ...
