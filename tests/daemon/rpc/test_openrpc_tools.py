"""The OpenRPC document and the types made from it, judged by other people's tools."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sourcetree

DOCUMENT = sourcetree.ROOT / "docs/openrpc.json"
CLIENT = sourcetree.ROOT / "docs/clients/node"
VALIDATE = """
const { validateOpenRPCDocument } = require("@open-rpc/schema-utils-js");
console.log(validateOpenRPCDocument(JSON.parse(require("fs").readFileSync(0))) === true);
"""
RIGHT = """
import { Client, events } from "CLIENT/coachman.mjs";
import type { Event, Methods } from "CLIENT/coachman.d.ts";

const client = await Client.connect();
const started = await client.call("run.start", { dir: "/src", prompt: "p", permissions: "ask" });
const page: Methods["run.list"]["result"] = await client.call("run.list", {});
const question: string | undefined = page.runs[0].attention?.question;
const told = (event: Event): string => {
  switch (event.type) {
    case "run.ended": return event.outcome;
    case "permission.requested": return event.options.map((option) => option.id).join();
    default: return event.type;
  }
};
for await (const event of events(started.run)) console.log(told(event), question);
"""
WRONG = """
import { Client } from "CLIENT/coachman.mjs";
const client = await Client.connect();
await client.call("run.start", { prompt: "p" });
await client.call("run.begin", {});
await client.call("run.wait", { runs: ["x"], until: "never" });
(await client.call("run.get", { run: "x" })).handel;
const count: number = (await client.call("run.list", {})).runs[0].task;
"""


@pytest.fixture
def valid(node_tools: Path) -> Callable[[str], bool]:
    """Whether open-rpc's own validator accepts a document."""

    def validate(document: str) -> bool:
        done = subprocess.run(
            ["node", "-e", VALIDATE],
            input=document,
            env={**os.environ, "NODE_PATH": str(node_tools)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip() == "true"

    return validate


def tsc(
    node_tools: Path, place: Path, source: str, *more: Path
) -> "subprocess.CompletedProcess[str]":
    """Type-check a caller strictly, with the client and all declarations."""
    caller = place / "caller.mts"
    caller.write_text(source.replace("CLIENT", str(CLIENT)).lstrip("\n"))
    options = {
        "strict": True,
        "noEmit": True,
        "checkJs": True,
        "allowImportingTsExtensions": True,
        "module": "nodenext",
        "target": "es2023",
        "lib": ["es2023"],
        "types": ["node"],
        "typeRoots": [str(node_tools / "@types")],
    }
    config = {"compilerOptions": options, "files": [str(path) for path in (caller, *more)]}
    (place / "tsconfig.json").write_text(json.dumps(config))
    return subprocess.run(
        [node_tools / ".bin/tsc", "-p", place, "--pretty", "false"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_open_rpc_accepts_the_document_and_no_broken_one(
    valid: Callable[[str], bool],
) -> None:
    """The reference validator takes the committed document, and none without its methods."""
    document = json.loads(DOCUMENT.read_text())
    nameless = json.loads(DOCUMENT.read_text())
    del nameless["methods"][0]["name"]
    without = {name: value for name, value in document.items() if name != "methods"}

    assert valid(json.dumps(document))
    assert not valid(json.dumps(nameless))
    assert not valid(json.dumps(without))


def test_the_committed_files_are_what_the_code_makes() -> None:
    """scripts/openrpc would write nothing else than what is committed."""
    roots = os.pathsep.join(str(package.parent) for package in sourcetree.PACKAGES.values())
    done = subprocess.run(
        [sys.executable, sourcetree.ROOT / "scripts/openrpc.py", "--check"],
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_client_types_and_a_caller_compile_strictly(node_tools: Path, tmp_path: Path) -> None:
    """The client, its example and a caller that narrows events have no type error."""
    done = tsc(node_tools, tmp_path, RIGHT, CLIENT / "run.mjs")

    assert done.stdout == ""
    assert done.returncode == 0


def test_a_wrong_caller_is_told_each_mistake(node_tools: Path, tmp_path: Path) -> None:
    """Missing and unknown names, wrong choices and wrong types are found at their lines."""
    done = tsc(node_tools, tmp_path, WRONG)
    lines = {int(line.partition("(")[2].partition(",")[0]) for line in done.stdout.splitlines()}

    assert lines == {3, 4, 5, 6, 7}, done.stdout
