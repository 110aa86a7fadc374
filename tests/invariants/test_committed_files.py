"""What is committed belongs to the project and to no machine."""

import re

import sourcetree

MACHINE = re.compile(
    r"/work/(?:main|shared)|/tmp/[w]/|/opt/(?:pypi|wheels)"
    r"|/home/(?!agent\b|user\b|me\b|u\b)\w+/|/Users/\w+/|/root/\.(?:pyenv|cache|npm)"
)
REGISTRY = re.compile(r"https?://[^\s\"')>]*(?:pypi|npmjs|pythonhosted|registry)", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
THIS = "tests/invariants/test_committed_files.py"


def places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{sourcetree.name(path)}:{number}: {line.strip()[:100]}"
        for path in sourcetree.committed()
        if sourcetree.name(path) != THIS and (text := sourcetree.text_of(path)) is not None
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_path_of_a_machine_is_committed() -> None:
    """No committed file names a place that only one machine has."""
    assert places(MACHINE) == []


def test_no_registry_is_committed() -> None:
    """Where packages come from is the machine's setting, never the repository's."""
    assert places(REGISTRY) == []


def test_nothing_is_marked_as_unfinished() -> None:
    """No committed file carries a marker for work left over."""
    assert places(UNFINISHED) == []


def test_the_scripts_can_be_executed() -> None:
    """Every script with an interpreter line has its executable bit."""
    scripts = [
        path
        for path in sourcetree.committed()
        if path.is_relative_to(sourcetree.ROOT / "scripts") and path.read_bytes()[:2] == b"#!"
    ]

    assert scripts
    assert [sourcetree.name(path) for path in scripts if not path.stat().st_mode & 0o111] == []
