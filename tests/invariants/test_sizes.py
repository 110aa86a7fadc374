"""Modules and functions stay as small as a reader can hold."""

from pathlib import Path
from statistics import median, quantiles

import sourcetree

MODULE_MEDIAN_LINES = 160
MODULE_P90_LINES = 350
MODULE_MAX_LINES = 500
FUNCTION_MEDIAN_LINES = 10
FUNCTION_P90_LINES = 32
FUNCTION_MAX_LINES = 80
TEST_MEDIAN_LINES = 200
TEST_MAX_LINES = 800


def p90(values: list[int]) -> float:
    return quantiles(values, n=10)[-1]


def longer_than(limit: int, paths: list[Path]) -> list[str]:
    found = [(sourcetree.lines(path), sourcetree.name(path)) for path in paths]
    return [f"{name}: {size} lines" for size, name in sorted(found, reverse=True) if size > limit]


def span(node: sourcetree.Function) -> int:
    return node.end_lineno - node.lineno + 1


def own_lines(node: sourcetree.Function) -> int:
    """The function's lines without those of the functions that stand directly in it."""
    inner = (child for child in node.body if isinstance(child, sourcetree.Function))
    return span(node) - sum(map(span, inner))


def function_lengths() -> dict[str, int]:
    return {
        f"{sourcetree.name(path)}:{node.lineno} {node.name}": own_lines(node)
        for path in sourcetree.modules()
        for node in sourcetree.functions(path)
    }


def test_no_module_is_beyond_the_ceiling() -> None:
    """No module is longer than the hard ceiling."""
    assert longer_than(MODULE_MAX_LINES, sourcetree.modules()) == []


def test_modules_are_small_in_the_median_and_at_the_ninetieth_percentile() -> None:
    """Most modules can be read in one sitting."""
    sizes = [size for path in sourcetree.modules() if (size := sourcetree.lines(path)) > 1]

    assert median(sizes) <= MODULE_MEDIAN_LINES
    assert p90(sizes) <= MODULE_P90_LINES, longer_than(MODULE_P90_LINES, sourcetree.modules())


def test_functions_are_small() -> None:
    """Functions are short in the median, at the ninetieth percentile and at worst."""
    lengths = function_lengths()
    sizes = list(lengths.values())

    assert [f"{at}: {size}" for at, size in lengths.items() if size > FUNCTION_MAX_LINES] == []
    assert median(sizes) <= FUNCTION_MEDIAN_LINES
    assert p90(sizes) <= FUNCTION_P90_LINES


def test_test_files_are_small() -> None:
    """A test file is about one thing."""
    assert longer_than(TEST_MAX_LINES, sourcetree.tests()) == []
    assert median(map(sourcetree.lines, sourcetree.tests())) <= TEST_MEDIAN_LINES
