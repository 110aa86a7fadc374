"""Text of agents and repositories, with everything that could act made visible.

A terminal obeys control and escape sequences, and bidirectional overrides show
a command in another order than it runs. Only coachman's own colours may pass.
"""

# Left alone where text may have several lines.
_LAYOUT = {0x09: "\t", 0x0A: "\n"}
_NAMED = {0x07: "\\a", 0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_HIDDEN_RANGES = (
    (0x00, 0x20),  # C0
    (0x7F, 0xA0),  # DEL and C1
    (0x061C, 0x061D),  # Arabic letter mark
    (0x200B, 0x2010),  # zero width and direction marks
    (0x2028, 0x202F),  # separators, embeddings and overrides
    (0x2060, 0x2070),  # word joiner, isolates and deprecated formatting
    (0xFEFF, 0xFF00),  # byte order mark
    (0xFFF9, 0xFFFC),  # interlinear annotation
    (0xE0000, 0xE0080),  # tags: text that no one sees
)
# Zero width (non-)joiners shape words and emojis, and move nothing.
_HARMLESS = frozenset({0x200C, 0x200D})


def _escape(code: int) -> str:
    if code in _NAMED:
        return _NAMED[code]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


HIDDEN = frozenset(
    code for low, high in _HIDDEN_RANGES for code in range(low, high) if code not in _HARMLESS
)
_ONE_LINE = {code: _escape(code) for code in HIDDEN}
_SEVERAL_LINES = {**_ONE_LINE, **_LAYOUT}
# Inside a JSON string these escapes mean the character; json escapes C0 by itself.
_JSON = {
    code: f"\\u{code:04x}" if code < 0x10000 else f"\\udb40\\u{0xDC00 + (code & 0x3FF):04x}"
    for code in HIDDEN
    if code >= 0x20
}


def visible(text: object, *, lines: bool = False) -> str:
    """``text`` safe to print; with ``lines`` line breaks and tabs stay what they are."""
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    return shown.translate(_SEVERAL_LINES if lines else _ONE_LINE)


def visible_json(document: str) -> str:
    """A serialized JSON document that means the same and cannot act on a terminal."""
    return document if document.isascii() and "\x7f" not in document else document.translate(_JSON)


def cut(text: object, width: int) -> str:
    """``text`` on one line of at most ``width`` characters."""
    shown = visible(text)
    return shown if len(shown) <= width else shown[: max(0, width - 1)] + "…"
