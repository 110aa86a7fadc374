"""Labels on a command line: ``-l KEY=VALUE``, and ``--batch NAME``, the one named so."""

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .options import Arguments

BATCH = "batch"


def labels_of(arguments: "Arguments", verb: str) -> "dict[str, str] | None":
    """The labels that are given, None where there are none. Raises UsageError."""
    labels: dict[str, str] = {}
    for word in arguments.texts("label"):
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise UsageError(f"cannot {verb} -l {word!r}: write KEY=VALUE")
        labels[key] = value
    batch = arguments.text(BATCH)
    if batch == "":
        raise UsageError(f"cannot {verb} --batch '': name one")
    if batch is not None and labels.setdefault(BATCH, batch) != batch:
        raise UsageError(f"cannot {verb}: -l batch={labels[BATCH]} and --batch {batch} differ")
    return labels or None
