"""The documents point at what exists and explain every word of the wire."""

import re
import tomllib
from pathlib import Path

import sourcetree
from coachman import wire
from coachmand.journal.vocabulary import EVENT_TYPES

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
FOREIGN = ("http://", "https://", "mailto:")


def documents() -> list[Path]:
    return [path for path in sourcetree.committed() if path.suffix == ".md"]


def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text())


def anchors(path: Path) -> set[str]:
    titles = HEADING.findall(prose(path))
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


def leads_somewhere(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    reached = (document.parent / path).resolve() if path else document
    if not reached.exists():
        return False
    return not anchor or reached.suffix != ".md" or anchor in anchors(reached)


def test_relative_links_resolve() -> None:
    """Every link inside the repository leads to a file and a heading that exist."""
    broken = [
        f"{sourcetree.name(document)}: {target}"
        for document in documents()
        for target in LINK.findall(prose(document))
        if not target.startswith(FOREIGN) and not leads_somewhere(document, target)
    ]

    assert broken == []


def test_the_glossary_explains_the_words_of_the_wire() -> None:
    """Every state, outcome, permission mode and event type stands in the glossary."""
    glossary = (sourcetree.ROOT / "docs/glossary.md").read_text()
    words = {*wire.RUN_STATES, *wire.OUTCOMES, *wire.PERMISSION_MODES, *EVENT_TYPES}

    assert sorted(word for word in words if f"`{word}`" not in glossary) == []


def test_every_dependency_is_accounted_for() -> None:
    """Every dependency of pyproject.toml, runtime and development, is weighed in the docs."""
    project = tomllib.loads((sourcetree.ROOT / "pyproject.toml").read_text())
    listed = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = {re.split(r"[<>=!~\[]", entry)[0] for entry in listed}
    weighed = (sourcetree.ROOT / "docs/dependencies.md").read_text()

    assert sorted(name for name in names if f"`{name}`" not in weighed) == []
