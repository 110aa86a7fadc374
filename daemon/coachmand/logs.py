"""structlog for the daemon: JSON lines for machines, colours for a terminal.

Written straight to a file descriptor: a log that cannot be written (a closed
terminal, a full disk) never fails what it reports. Every line is bounded.
"""

import io
import os
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

MAX_VALUE_CHARS = 8 * 1024
MAX_TRACEBACK_CHARS = 16 * 1024
STDERR_FD = 2

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_ENCODER = msgspec.json.Encoder(enc_hook=repr)


def configure(level: str = "info", fd: int = STDERR_FD) -> None:
    """Send every structlog event of ``level`` and above to ``fd``."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_for_terminal() if os.isatty(fd) else _for_machines()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_args: _Sink(fd),
        cache_logger_on_first_use=False,
    )


class _Sink:
    """Writes one line at a time; a failure to write is not an event of its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def _write(self, line: str | bytes) -> None:
        data = line.encode("utf-8", "replace") if isinstance(line, str) else line
        try:
            os.write(self._fd, data + b"\n")
        except OSError:
            return

    debug = info = warning = error = critical = msg = _write


def _for_terminal() -> list[Any]:
    return [
        _bounded,
        structlog.dev.ConsoleRenderer(exception_formatter=_short_traceback),
    ]


def _for_machines() -> list[Any]:
    return [structlog.processors.ExceptionRenderer(_traceback), _bounded, _json]


def _traceback(exc_info: Any) -> str:
    stream = io.StringIO()
    structlog.dev.plain_traceback(stream, exc_info)
    text = stream.getvalue()
    # Its end names the exception, its start where the call came from.
    half = MAX_TRACEBACK_CHARS // 2
    return text if len(text) <= MAX_TRACEBACK_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


def _short_traceback(stream: Any, exc_info: Any) -> None:
    stream.write(_traceback(exc_info))


def _bounded(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    for name, value in event.items():
        limit = MAX_TRACEBACK_CHARS + 8 if name == "exception" else MAX_VALUE_CHARS
        text = value if isinstance(value, str) else repr(value) if _is_large(value) else None
        if text is not None and len(text) > limit:
            event[name] = text[:limit] + "…"
    return event


def _is_large(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | list | tuple | dict | set | frozenset)


def _json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> bytes:
    document = dict(event)
    try:
        return _ENCODER.encode(document)
    except (TypeError, ValueError):
        return _ENCODER.encode({name: ascii(value) for name, value in document.items()})
