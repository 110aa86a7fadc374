"""What agents and repositories say cannot act on a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachman.cli.visible import cut, visible, visible_json

ACTING = {"\u061c", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


def acts(character: str) -> bool:
    return unicodedata.category(character) == "Cc" or character in ACTING


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    """One-line text comes out without any control or bidirectional character."""
    assert not any(map(acts, visible(text)))


@given(st.text())
def test_only_line_breaks_and_tabs_survive_in_text_of_several_lines(text: str) -> None:
    """Text of several lines keeps its line breaks and tabs, and nothing else that acts."""
    assert {c for c in visible(text, lines=True) if acts(c)} <= {"\n", "\t"}


@given(st.text(st.characters(categories=("L", "N", "P", "Zs"), max_codepoint=0x1FFF)))
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Letters, digits and punctuation of any script are shown as they are."""
    assert visible(text) == text


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\rb", "a\\rb"),
        ("\x9b2J", "\\x9b2J"),
        ("rm\u202e gpj", "rm\\u202e gpj"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_hidden_characters_are_named(hidden: str, shown: str) -> None:
    """A hidden character is shown by its code, so that a person sees what was tried."""
    assert visible(hidden) == shown


@given(st.text())
def test_json_means_the_same_and_cannot_act(text: str) -> None:
    """A JSON document is read back unchanged and prints nothing that acts."""
    document = visible_json(json.dumps({"text": text}, ensure_ascii=False))

    assert json.loads(document) == {"text": text}
    assert not any(map(acts, document))


def test_a_cut_text_ends_within_its_width() -> None:
    """A text that is too long ends with an ellipsis in its last column."""
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"
