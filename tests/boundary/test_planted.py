"""What an agent can leave in each place that it writes, and all that the daemon does with it later.

Each profile has one sequence, which each of the tests asks about: a run that plants everything,
another one of its task, which is resumed, diffs, artifacts, cleanup.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

import recovery_state as at
from coachmand.repos import beneath, deletion
from daemon_process import DaemonProcess, git
from shared_daemon import shared_daemon

pytestmark = pytest.mark.long
CANARY = "MARK-planted-5c90"
READ_BYTES = 1 << 24
NEUTRAL = '[storage]\nsealed = "{neutral}"\n'
# Python that runs in the place with `host`, the directory of the canary, and `n`, the name.
PLANTS = {
    "a link to a file of the host": "os.symlink(host + '/key', n)",
    "a link to a directory of the host": "os.symlink(host, n)",
    "a link over the old root": "os.symlink('/oldroot' + host + '/key', n)",
    "a link over the root of init": "os.symlink('/proc/1/root' + host + '/key', n)",
    "a link over dots": "os.symlink('../' * 40 + host.lstrip('/') + '/key', n)",
    "a link to itself": "os.symlink(n, n)",
    "a directory of links": (
        "os.mkdir(n); [os.symlink(host, n + '/' + x) for x in ('objects', '.git', 'sub')]"
    ),
    "a pipe": "os.mkfifo(n)",
    "a socket": "s = socket.socket(socket.AF_UNIX); s.bind(n)",
    "a file without an end": "open(n, 'w').truncate(1 << 40)",
    "one file under two names": "write(n); os.link(n, n + '-again')",
    "a name that is no text": "write(b'\\xff\\xfe' + n.encode())",
    "a name of 255 bytes": "write(n + 'x' * (255 - len(n)))",
    "a name with a line end": "write(n + '\\nname: value')",
    "a name that acts on terminals": "write(n + '\\x1b]0;x\\x07\\u202egnp')",
    "a name that is an option": "write('--' + n)",
    "a record's name": "[write(r) for r in ('result.json', 'events.ndjson', 'manifest.json')]",
    "what nobody may enter": "os.mkdir(n); write(n + '/f'); os.chmod(n, 0)",
    "a file that becomes another user": "write(n); os.chmod(n, 0o6777)",
    "a tree of 6,000 levels": (
        "d = os.getcwd(); [(os.mkdir('d'), os.chdir('d')) for _ in range(6000)]; write('bottom')"
    ),
    "a repository": (
        "os.makedirs(n + '/.git/objects'); os.makedirs(n + '/.git/refs'); write(n + '/.git/HEAD');"
        "write(n + '/.git/config', '[core]\\n\\tfsmonitor = touch ' + host + '/ran\\n')"
    ),
    "a pointer to another repository": (
        "os.mkdir(n); write(n + '/.git', 'gitdir: ' + host + '/repo/.git\\n')"
    ),
    "a bare repository of another's": (
        "os.makedirs(n + '/objects/info'); os.mkdir(n + '/refs'); write(n + '/HEAD', 'ref: x\\n');"
        "write(n + '/commondir', host + '/repo/.git\\n');"
        "write(n + '/objects/info/alternates', host + '/repo/.git/objects\\n')"
    ),
    "attributes": "write('.gitattributes', '* filter=evil diff=evil merge=evil\\n')",
    "modules": "write('.gitmodules', '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::touch x\\n')",
    "settings of LFS": "write('.lfsconfig', '[lfs]\\n\\turl = ext::touch ' + host + '/ran\\n')",
}
PLACES = {"home": "~", "worktree": "/workspace", "scratch": "/scratch", "output": "/output"}
WRITABLE = {
    "edit": tuple(PLACES),
    "review": ("home", "scratch", "output"),
    "sealed": ("home", "scratch", "output"),
}
# Takes seconds to delete, wherever it lies: in each place of one profile.
DEEP = "a tree of 6,000 levels"
CASES = [
    (profile, place, plant)
    for profile, places in WRITABLE.items()
    for place in places
    for plant in PLANTS
    if profile == "edit" or plant != DEEP
]
PLANTER = """
import json, os, socket, sys
def write(name, text='planted'):
    with open(name, 'w') as file:
        file.write(text)
host, plants, places = map(json.loads, sys.argv[1:4])
said = {}
for place, path in places.items():
    top = os.path.join(os.path.expanduser(path), 'planted')
    for number, (name, code) in enumerate(plants.items()):
        where = f'{top}-{number}'
        os.makedirs(where, exist_ok=True)
        os.chdir(where)
        told = 'planted'
        try:
            exec(code, {**globals(), 'n': f'it{number}'})
        except OSError as error:
            told = error.strerror
        said[f'{place}: {name}'] = told
print(json.dumps(said))
"""


@define
class Sequence:
    """What came of the runs of one profile."""

    planted: dict[str, str] = field(factory=dict)
    results: list[dict[str, Any]] = field(factory=list)
    patches: list[str] = field(factory=list)
    captured: list[bytes] = field(factory=list)
    cleaned: list[dict[str, Any]] = field(factory=list)


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon, and beside it a host directory with a canary and a repository of others."""
    with shared_daemon(NEUTRAL) as process:
        host = process.root / "host"
        host.mkdir()
        (host / "key").write_text(CANARY)
        git(host, "init", "-q", "repo")
        (host / "repo/f").write_text(CANARY)
        git(host / "repo", "add", "f")
        git(host / "repo", "commit", "-qm", "of others")
        yield process
        # What lies deeper than Python's own removal goes.
        deletion.delete_tree(str(process.state))


@pytest.fixture(scope="module")
def known() -> dict[str, Sequence]:
    """The sequences that were gone through: the first test of each profile asks."""
    return {}


@pytest.fixture
def sequence(daemon: DaemonProcess, known: dict[str, Sequence], profile: str) -> Sequence:
    """The sequence of one profile."""
    if profile not in known:
        known[profile] = gone_through(daemon, profile)
    return known[profile]


def gone_through(daemon: DaemonProcess, profile: str) -> Sequence:
    """Plant, begin again, resume, look, clean up; nothing of the host's may have changed."""
    before, repo, found = _host(daemon), daemon.root / "repo", Sequence()
    places = {place: PLACES[place] for place in WRITABLE[profile]}
    plants = {name: code for name, code in PLANTS.items() if profile == "edit" or name != DEEP}
    words = [json.dumps(each) for each in (str(daemon.root / "host"), plants, places)]
    argv = ["/usr/bin/python3", "-I", "-c", PLANTER, *words]
    options = {"profile": profile, "task": f"of-{profile}"}
    runs = [at.start(daemon, repo, "", agent="command", argv=argv, **options)]
    found.results.append(at.result(daemon, runs[0]))
    found.planted = json.loads(found.results[0]["final_message"])
    runs.append(at.start(daemon, repo, "say one", **options))
    found.results.append(at.result(daemon, runs[1]))
    with daemon.client() as client:
        runs.append(client.run.resume(runs[1], "recall")["run"])
        found.results.append(at.result(daemon, runs[2]))
        if profile == "edit":
            found.patches = [str(client.run.diff(run)) for run in runs]
        found.captured = _holding(daemon.state)
        found.cleaned += client.daemon.cleanup(tasks=[options["task"]])["tasks"]
        if profile == "edit":
            # A person takes what no commit can hold away.
            for path in Path(found.results[0]["worktree"]).glob("planted-*"):
                deletion.delete_tree(str(path))
            found.cleaned += client.daemon.cleanup(tasks=[options["task"]])["tasks"]
    assert _host(daemon) == before
    return found


def _host(daemon: DaemonProcess) -> Mapping[str, Any]:
    """All that is the host's."""
    tops = (daemon.root / "host", daemon.home)
    paths = [path for top in tops for path in top.rglob("*")]
    return {str(p): (p.lstat().st_mode, p.lstat().st_mtime_ns) for p in paths}


@pytest.mark.parametrize(("profile", "place", "plant"), CASES)
def test_what_was_planted_harms_no_later_step(sequence: Sequence, place: str, plant: str) -> None:
    """It could be planted, and every run of the task after it came to its own end."""
    assert sequence.planted[f"{place}: {plant}"] == "planted"
    assert [each["outcome"] for each in sequence.results] == ["succeeded"] * 3


@pytest.mark.parametrize("profile", WRITABLE)
def test_no_byte_of_the_host_is_captured(
    daemon: DaemonProcess, sequence: Sequence, profile: str
) -> None:
    """Neither artifacts, patches nor records have what a planted link leads to, nor has git."""
    oid = git(daemon.root / "host/repo", "rev-parse", "HEAD:f")
    objects = git(daemon.root / "repo", "cat-file", "--batch-all-objects", "--batch-check")

    assert CANARY not in "".join(sequence.patches)
    assert oid not in objects
    assert sequence.captured == []


def _holding(top: Path) -> list[bytes]:
    """The files that hold the canary, found by a walk that no depth ends."""
    root = beneath.open_root(os.fsencode(top))
    try:
        found = beneath.files(root, lambda _: None)
        return [path for path, fd in found if CANARY.encode() in os.read(fd, READ_BYTES)]
    finally:
        os.close(root)


@pytest.mark.parametrize("profile", WRITABLE)
def test_artifacts_are_regular_files_alone(sequence: Sequence, profile: str) -> None:
    """What is none is named as left out, whatever it leads to."""
    artifacts = Path(sequence.results[0]["evidence_dir"]) / "artifacts"
    kinds = {path for path in artifacts.rglob("*") if path.is_symlink() or not path.exists()}

    assert kinds == set()
    assert any("left out of the artifacts" in text for text in sequence.results[0]["warnings"])
    paths = {row["path"] for row in sequence.results[0]["artifacts"]}
    assert {path.rpartition("/")[2] for path in paths} >= {"result.json", "it10", "it10-again"}


@pytest.mark.parametrize("profile", WRITABLE)
def test_all_of_it_is_cleaned_up(daemon: DaemonProcess, sequence: Sequence, profile: str) -> None:
    """What no commit can hold keeps its worktree, named; everything else goes, whatever it is."""
    first, last = sequence.cleaned[0], sequence.cleaned[-1]
    named = ("a repository inside the tree", "neither a file nor a link", "deeper than 256")

    assert last["state"] == "removed", last
    assert not Path(last["worktree"] or "/nonexistent").exists()
    assert not list(daemon.state.glob(f"agents/*/of-{profile}"))
    if profile == "edit":
        assert first["state"] == "kept"
        assert [words for words in named if words not in first["why"]] == []
