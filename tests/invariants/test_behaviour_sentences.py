"""Tests are the description of behaviour, so each one says its sentence."""

import ast

import sourcetree


def says_a_sentence(node: sourcetree.Function) -> bool:
    first = (ast.get_docstring(node) or "").split("\n\n")[0]
    return first.rstrip().endswith(".")


def test_every_test_says_what_it_shows() -> None:
    """Every test states the behaviour it shows in one sentence."""
    silent = [
        f"{sourcetree.name(path)}:{node.lineno} {node.name}"
        for path in sourcetree.tests()
        for node in sourcetree.functions(path)
        if node.name.startswith("test_") and not says_a_sentence(node)
    ]

    assert silent == []
