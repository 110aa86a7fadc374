"""What a row of the bench yields, and the table of all rows."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

if TYPE_CHECKING:
    from world import Bench

HEADINGS = ("what", "measured", "beside it", "ratio", "target", "")
VERDICTS = {True: "met", False: "missed", None: ""}


@frozen
class Figure:
    """One figure and what was measured beside it in the same run, both in ``unit``.

    ``met`` says whether the target holds; None where there is none.
    """

    what: str
    value: float
    unit: str
    beside: str
    beside_value: float
    target: str = ""
    met: bool | None = None
    detail: Mapping[str, Any] = field(factory=dict)

    @property
    def ratio(self) -> float:
        return self.value / self.beside_value if self.beside_value else float("inf")

    def cells(self) -> tuple[str, ...]:
        """The figure as a row of the table."""
        return (
            self.what,
            amount(self.value, self.unit),
            f"{amount(self.beside_value, self.unit)} {self.beside}",
            f"{self.ratio:.2f}",
            self.target,
            VERDICTS[self.met],
        )


@frozen
class Row:
    """A row of the table by its name; ``measure`` yields its figures.

    Not ``wanted`` are those that are measured only where they are named.
    """

    name: str
    summary: str
    measure: "Callable[[Bench], Iterator[Figure]]"
    wanted: bool = True


ROWS: dict[str, Row] = {}
Measure = Callable[["Bench"], Iterator[Figure]]


def row(name: str, *, wanted: bool = True) -> Callable[[Measure], Measure]:
    """Register a function as the row ``name``; its docstring's first line describes it."""

    def register(measure: Measure) -> Measure:
        summary = (measure.__doc__ or "").split("\n", 1)[0]
        ROWS[name] = Row(name, summary, measure, wanted)
        return measure

    return register


def amount(value: float, unit: str) -> str:
    """A number with three significant digits and its unit."""
    if value >= 1000:
        return f"{value:,.0f} {unit}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def table(figures: Iterable[Figure]) -> str:
    """All figures under one another, aligned."""
    lines = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(padded)


def as_json(figures: Mapping[str, Iterable[Figure]], **members: Any) -> str:
    """Everything that was measured, by row."""
    rows = {
        name: [{**asdict(figure), "ratio": figure.ratio} for figure in found]
        for name, found in figures.items()
    }
    return json.dumps({**members, "rows": rows}, indent=1) + "\n"
