"""Nothing on the daemon's loop blocks, and nothing on the read path decodes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import sourcetree

BLOCKING_NAMES = {"open", "input"}
BLOCKING_ATTRIBUTES = {
    "time": {"sleep"},
    "os": {"fsync", "fdatasync", "open", "waitpid", "system", "popen", "sendfile", "walk"},
    "shutil": {"rmtree", "copytree", "copyfile", "copy", "copy2", "move", "disk_usage"},
    "socket": {"getaddrinfo", "gethostbyname", "create_connection"},
    "fcntl": {"flock", "lockf"},
}
BLOCKING_MODULES = {"subprocess", "pygit2", "sqlite3"}
BLOCKING_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "rglob"}
# Bytes of an agent become text in its conversation and nowhere before it.
READ_PATH = ("daemon/coachmand/keeper/*.py", "daemon/coachmand/runs/*segment*.py")
# What bwrap said when there never was an agent.
NOT_AN_AGENT = {"_spawn_error"}


def own_calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls made by the function itself: inner functions go to threads or elsewhere."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, sourcetree.Function | ast.Lambda):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from own_calls(child)


def blocks(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in BLOCKING_NAMES
        case ast.Attribute(value=ast.Name(id=module), attr=attribute):
            return (
                module in BLOCKING_MODULES
                or attribute in BLOCKING_ATTRIBUTES.get(module, ())
                or attribute in BLOCKING_METHODS
            )
        case ast.Attribute(attr=attribute):
            return attribute in BLOCKING_METHODS
    return False


def blocking_calls(path: Path) -> Iterator[str]:
    for function in sourcetree.functions(path):
        if isinstance(function, ast.AsyncFunctionDef):
            for call in filter(blocks, own_calls(function)):
                yield f"{sourcetree.name(path)}:{call.lineno} {ast.unparse(call.func)}"


def test_no_coroutine_of_the_daemon_blocks_the_loop() -> None:
    """Files, processes and sleeps that block are reached through threads only."""
    found = [call for path in sourcetree.modules("coachmand") for call in blocking_calls(path)]

    assert found == []


def test_a_blocking_call_would_be_seen(tmp_path: Path) -> None:
    """The check above sees a blocking call in a coroutine and spares one handed to a thread."""
    coroutine = "async def f():\n    time.sleep(1)\n    await thread(lambda: time.sleep(1))\n"

    calls = [call.lineno for call in own_calls(ast.parse(coroutine).body[0]) if blocks(call)]

    assert calls == [2]


def test_the_read_path_never_decodes() -> None:
    """What an agent writes stays bytes until its conversation reads it."""
    paths = [path for pattern in READ_PATH for path in sourcetree.ROOT.glob(pattern)]
    decoding = [
        f"{sourcetree.name(path)}:{node.lineno} {function.name}"
        for path in paths
        for function in sourcetree.functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "decode"
        if function.name not in NOT_AN_AGENT
    ]

    assert paths
    assert decoding == []
