"""One daemon for the tests of a file, with a repository; each of the tests has tasks of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import recovery_state as at
from daemon_process import DaemonProcess, make_repository


@contextmanager
def shared_daemon(config: str = "") -> Iterator[DaemonProcess]:
    """A daemon that runs, and the repository ``repo`` below its root.

    ``{neutral}`` in the configuration stands for a directory that tells nothing of either.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp", ignore_cleanup_errors=True) as root,
        tempfile.TemporaryDirectory(prefix="n-", dir="/tmp", ignore_cleanup_errors=True) as neutral,
    ):
        process = DaemonProcess(Path(root))
        make_repository(process.root / "repo")
        path = process.root / "config.toml"
        path.write_text(config.replace("{neutral}", neutral))
        process.env["COACHMAN_CONFIG"] = str(path)
        process.start()
        try:
            yield process
        finally:
            process.tidy()


def sh(daemon: DaemonProcess, repo: Path, script: str, **options: Any) -> dict[str, Any]:
    """The result of a run of a shell script."""
    run = at.start(daemon, repo, "", agent="command", argv=["/bin/sh", "-c", script], **options)
    return at.result(daemon, run)
