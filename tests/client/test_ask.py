"""`coachman ask` where the daemon does not come back."""

from pathlib import Path

import pytest

from client_daemon import FakeDaemon, Peer
from coachman.cli import ask
from coachman.cli.main import main


def test_who_loses_the_daemon_learns_how_to_hear_the_answer(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question stands, and the next command asks for the answer to that very one."""
    keys = []

    def hang_up(params: dict[str, str], peer: Peer) -> dict[str, str]:
        keys.append(params["request_key"])
        socket.unlink()
        peer.hang_up()
        return {}

    socket = state_dir / "control.sock"
    daemon = FakeDaemon(socket, {"run.ask": hang_up})
    monkeypatch.setattr(ask, "RETURN_S", 0.0)
    monkeypatch.setenv("COACHMAN_SOCKET", str(socket))
    with daemon:
        code = main(["ask", "which one?"])
    said = capsys.readouterr().err

    assert code == 69
    assert "the question stands" in said
    assert f"next: coachman ask --request-key {keys[0]} 'which one?'" in said
