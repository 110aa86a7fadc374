"""Whether a shell's text is one simple command, and its words: strict, so that a rule means it.

What is not certain is no simple command. Outside of quotes only characters are taken that no
shell gives a meaning to; within quotes only those that are themselves there in every shell.
"""

import re
from fnmatch import fnmatchcase

MAX_CHARACTERS = 8192
# Words that begin something else than a command, in one shell or another.
_RESERVED = (
    "! . [[ ]] { } alias always builtin case command coproc do done elif else end esac eval exec"
    " export fi for foreach function if in local noglob nocorrect readonly repeat select set"
    " source switch then time trap typeset until unset while"
)
RESERVED = frozenset(_RESERVED.split())
# In fnmatch brackets mean something; in a pattern of ours they do not.
BRACKETS = str.maketrans({"[": "[[]"})
# Within quotes nothing does.
_LITERAL = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"


def _word(plain: str) -> re.Pattern[str]:
    """A word of ``plain`` characters and quoted pieces."""
    return re.compile(
        rf"""(?:[{plain}]++|'[^'!\\{_CONTROL}]*+'|"[^"$`!\\{_CONTROL}]*+")++""",
    )


_WORD = _word(r"A-Za-z0-9_@%+=:,./-")
_PATTERN_WORD = _word(r"A-Za-z0-9_@%+=:,./*?-")
_PIECE = re.compile(r"""'([^']*)'|"([^"]*)"|([^'"]+)""")
_BLANKS = re.compile(r"[ \t]+")


def words_of(text: str) -> tuple[str, ...] | None:
    """The words of one simple command; None where ``text`` is more, less, or not certain."""
    if len(text) > MAX_CHARACTERS:
        return None
    words = tuple(map(_unquoted, _words(text, _WORD)))
    return words if words and _is_command(words[0], text) else None


def pattern_of(text: str) -> tuple[str, ...] | None:
    """A pattern as `matches` takes it, each word as one of fnmatch's; None where it is none.

    ``*`` and ``?`` stand for others outside of quotes, and for themselves within.
    """
    return tuple(map(_as_pattern, _words(text, _PATTERN_WORD))) or None


def begins_command(pattern: str) -> bool:
    """Whether there may be a simple command that begins as a sound ``pattern`` does."""
    first = _unquoted(_words(pattern, _PATTERN_WORD)[0])
    return bool(first) and "=" not in first and first not in RESERVED


def matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Whether each word fits its own of the pattern; a last ``*`` takes all the others."""
    if pattern[-1] == "*" and len(pattern) > 1:
        pattern, words = pattern[:-1], words[: max(len(pattern) - 1, 0)]
    if len(pattern) != len(words):
        return False
    return all(fnmatchcase(word, wanted) for wanted, word in zip(pattern, words, strict=True))


def _words(text: str, word: re.Pattern[str]) -> tuple[str, ...]:
    """The words as they are written, none of them where anything else stands in ``text``."""
    found, at = [], 0
    text = text.strip(" \t")
    while at < len(text):
        match = word.match(text, at)
        if match is None:
            return ()
        found.append(match[0])
        at = match.end()
        if at < len(text):
            blanks = _BLANKS.match(text, at)
            if blanks is None:
                return ()
            at = blanks.end()
    return tuple(found)


def _unquoted(word: str) -> str:
    return "".join("".join(piece) for piece in _PIECE.findall(word))


def _as_pattern(word: str) -> str:
    pieces = (((single or double), plain) for single, double, plain in _PIECE.findall(word))
    return "".join(quoted.translate(_LITERAL) + plain for quoted, plain in pieces)


def _is_command(first: str, text: str) -> bool:
    """A first word with ``=`` is an assignment, and one in `RESERVED` begins something else."""
    tail = any(word.startswith("=") for word in _BLANKS.split(text.strip(" \t")))
    return bool(first) and "=" not in first and first not in RESERVED and not tail
