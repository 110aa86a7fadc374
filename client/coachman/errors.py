"""What can go wrong, as one exception that callers switch on by ``name``.

Daemon and client report failures in the same shape; ``as_document`` is what
``coachman --json`` prints.
"""

from collections.abc import Mapping, Sequence

from .wire import EXIT_INTERNAL, EXIT_NO_DAEMON, EXIT_OF_ERROR, EXIT_USAGE

# Failures that only a client can notice; the others come from the wire.
_EXIT_OF_LOCAL_ERROR = {
    "Usage": EXIT_USAGE,
    "DaemonNotRunning": EXIT_NO_DAEMON,
    "ConnectionLost": EXIT_NO_DAEMON,
}


class CoachmanError(Exception):
    """A refused or failed request.

    ``name`` is stable and meant to be compared; the text of the exception reads
    "cannot X: Y". ``next`` holds command lines (argv lists) that go on from
    here, ``detail`` whatever the failure knows about itself.
    """

    default_name = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        hint: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        detail: object = None,
        next: Sequence[Sequence[str]] = (),
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.name = name or self.default_name
        self.hint = hint
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.detail = detail
        self.next = [list(argv) for argv in next]
        self._exit_code = exit_code

    @property
    def exit_code(self) -> int:
        """The exit status with which the command line reports this failure."""
        if self._exit_code is not None:
            return self._exit_code
        local = _EXIT_OF_LOCAL_ERROR.get(self.name)
        return local if local is not None else EXIT_OF_ERROR.get(self.name, EXIT_INTERNAL)

    def as_document(self) -> dict[str, object]:
        """The failure as the one JSON document that a machine reads."""
        return {
            "error": {
                "name": self.name,
                "message": self.message,
                "hint": self.hint,
                "retryable": self.retryable,
                "retry_after_s": self.retry_after_s,
                "detail": self.detail,
                "next": self.next,
            }
        }


class DaemonNotRunning(CoachmanError):  # noqa: N818 - named after the state, as systemctl does
    """Nobody listens on the control socket."""

    default_name = "DaemonNotRunning"


class ConnectionLostError(CoachmanError):
    """The daemon went away before it answered.

    Whether it acted is unknown, except where it is ``untaken``: then it did not and will not.
    """

    default_name = "ConnectionLost"
    untaken = False


class UsageError(CoachmanError):
    """The request makes no sense as it was put; nothing was sent."""

    default_name = "Usage"


def from_wire(error: Mapping[str, object]) -> CoachmanError:
    """The exception for the ``error`` member of a JSON-RPC response."""
    data = error.get("data")
    facts: Mapping[str, object] = data if isinstance(data, dict) else {}
    steps = facts.get("next")
    return CoachmanError(
        str(error.get("message", "the daemon gave no reason")),
        name=_text(facts.get("name")),
        hint=_text(facts.get("hint")),
        retryable=facts.get("retryable") is True,
        retry_after_s=_number(facts.get("retry_after_s")),
        detail=facts.get("detail"),
        next=[[str(word) for word in argv] for argv in steps if isinstance(argv, list)]
        if isinstance(steps, list)
        else (),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
