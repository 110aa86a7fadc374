"""What works inside: names, certificates, interpreters, real agents."""

import os
import socket
import sys
from pathlib import Path

import pytest

from coachman_sandbox.environment import crossing, run_variables
from coachman_sandbox.executables import agent_access, python_runtime, resolve
from coachman_sandbox.finder import Bwrap
from coachman_sandbox.network import HOST_NETWORK
from coachman_sandbox.policy import AgentAccess
from coachman_sandbox.probe import probe
from sandbox_launch import Box


def test_the_walls_can_be_built_here(bwrap: Bwrap) -> None:
    """The probe, which asks for a run's very namespaces, succeeds."""
    assert probe(bwrap).ok, probe(bwrap)


def test_names_resolve_and_files_for_that_are_readable(box: Box) -> None:
    """resolv.conf has the host's content, localhost resolves, our uid has a name and a home."""
    script = (
        "import socket, os, pwd\n"
        "print(socket.getaddrinfo('localhost', 80, socket.AF_INET)[0][4][0])\n"
        "print(pwd.getpwuid(os.getuid()).pw_dir, os.uname().nodename)\n"
        "print(open('/etc/resolv.conf').read() == open('/scratch/resolv').read())\n"
        "print(socket.gethostbyname(socket.gethostname()))\n"
    )
    host_file = Path("/etc/resolv.conf")
    (box.root / "state/scratch/resolv").write_bytes(host_file.read_bytes())
    done = box.run("/usr/bin/python3", "-I", "-c", script)
    assert done.stdout.split() == ["127.0.0.1", "/home/agent", "coachman", "True", "127.0.0.1"], (
        done.stderr
    )


def test_the_certificate_bundle_is_found_by_default(box: Box) -> None:
    """OpenSSL's default paths lead to the synthesized bundle, under its other names too."""
    script = (
        "import ssl\n"
        "print(len(ssl.create_default_context().get_ca_certs()) > 10)\n"
        "print(len(open('/etc/pki/tls/certs/ca-bundle.crt').read()) > 10000)\n"
    )
    assert box.run("/usr/bin/python3", "-I", "-c", script).stdout.split() == ["True", "True"]


def test_the_environment_is_ours(box: Box) -> None:
    """Nothing of the caller's environment crosses but what was given."""
    given = crossing({"TZ": "UTC", "LD_PRELOAD": "/x.so", "SSL_CERT_FILE": "/host/ca.pem"})
    access = AgentAccess(env=given | run_variables("261129-220417-k7q3x", "t1", 5))
    names = {line.split("=")[0] for line in box.run("env", access=access).stdout.splitlines()}
    assert names == {
        *("HOME", "PATH", "TMPDIR", "USER", "LOGNAME", "LANG", "TERM", "NO_COLOR", "SHELL"),
        *("PWD", "TZ", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "GIT_OPTIONAL_LOCKS"),
        *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"),
        *("COACHMAN_RUN", "COACHMAN_TASK", "COACHMAN_DEADLINE"),
        *("COACHMAN_OUTPUT", "COACHMAN_INPUTS", "COACHMAN_SCRATCH"),
    }


def test_the_hosts_network_is_the_hosts(box: Box) -> None:
    """With it a loopback service of the host is reachable, as every header says."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('in')"
        assert box.run("/usr/bin/python3", "-I", "-c", script).stdout == "in\n"
    assert box.policy().network == HOST_NETWORK


def test_the_daemons_python_runs_inside(own_box: Box) -> None:
    """The base interpreter with its library runs guest programs, from its read-only prefix."""
    runtime = python_runtime()
    access = agent_access(env={}, credentials={}, python=runtime)
    (own_box.root / "state/guest/hello.py").write_text("import json, ssl, sys; print(sys.prefix)\n")
    done = own_box.run(runtime.path, "-I", "/run/coachman/hello.py", access=access)
    assert done.stdout.strip() == os.path.realpath(sys.base_prefix), done.stderr


def test_a_script_runs_by_the_interpreter_it_names(own_box: Box, tmp_path: Path) -> None:
    """A program in a virtual environment runs inside, with the environment's own packages."""
    venv = tmp_path / "venv"
    site = venv / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (venv / "bin").mkdir()
    base = python_runtime().path
    (venv / "bin" / "python").symlink_to(base)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(base).parent}\n")
    (site / "helper.py").write_text("answer = 42\n")
    tool = venv / "bin" / "tool"
    tool.write_text(f"#!{venv}/bin/python\nimport helper; print(helper.answer)\n")
    tool.chmod(0o755)
    found = resolve(("tool",), {"PATH": str(venv / "bin")})
    access = agent_access(found, env={}, credentials={})
    done = own_box.run(found.path, access=access)
    assert done.stdout == "42\n", done.stderr


@pytest.mark.real_agent
def test_opencode_runs_inside(own_box: Box, opencode_bin: Path) -> None:
    """The real CLI starts from its package alone and says its version."""
    env = {"PATH": f"{opencode_bin}:/usr/bin", "HOME": "/nonexistent"}
    found = resolve(("opencode",), env, native=("bin/opencode.exe",))
    access = agent_access(found, env={"OPENCODE_DISABLE_AUTOUPDATE": "1"}, credentials={})
    done = own_box.run(found.path, "--version", access=access)
    assert done.stdout.strip() == found.version, done.stderr
