"""Command lines are read as git and docker users type them."""

import pytest

from coachman import UsageError
from coachman.cli.main import VERBS, _load
from coachman.cli.options import Command, Option, nearest, parse

COMMAND = Command(
    "paint [OPTIONS] WALL…",
    "Paint.",
    Option("-d --dry", "a switch"),
    Option("-c --coat", "a value", "N"),
    Option("-l --label", "values", "K=V", repeat=True),
    operands=(1, 2),
    missing="name a wall",
    trailing=True,
)


def test_options_and_operands_may_be_mixed() -> None:
    """Options are found before, between and behind operands."""
    given = parse(COMMAND, ["-d", "north", "--coat", "2", "south", "-lx=1", "--label=y=2"])

    assert given.operands == ["north", "south"]
    assert given.has("dry")
    assert given.integer("coat") == 2
    assert given.texts("label") == ["x=1", "y=2"]


def test_short_switches_run_together() -> None:
    """`-dq` is `-d -q`, and a value may follow its short flag directly."""
    given = parse(COMMAND, ["-dqc3", "north"])

    assert given.has("dry")
    assert given.has("quiet")
    assert given.text("coat") == "3"


def test_words_behind_two_dashes_are_left_alone() -> None:
    """Everything behind `--` is the program's, dashes included; `-` is an operand."""
    given = parse(COMMAND, ["-", "--", "-d", "--coat"])

    assert given.operands == ["-"]
    assert given.trailing == ["-d", "--coat"]
    assert not given.has("dry")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cot", "2", "north"], "there is no option --cot"),
        (["north", "--coat"], "--coat needs N"),
        (["north", "--dry=yes"], "--dry takes no value"),
        (["north", "--coat", "1", "--coat", "2"], "--coat was given twice"),
        ([], "name a wall"),
        (["a", "b", "c"], "'c' is one operand too many"),
    ],
)
def test_what_cannot_be_read_is_named(words: list[str], message: str) -> None:
    """A wrong command line is refused with what was wrong and the usage."""
    with pytest.raises(UsageError, match="cannot paint: ") as caught:
        parse(COMMAND, words)

    assert message in str(caught.value)


def test_an_unknown_option_names_what_is_near() -> None:
    """The hint for a mistyped option begins with the one that was meant."""
    with pytest.raises(UsageError) as caught:
        parse(COMMAND, ["--laebl", "x", "north"])

    assert str(caught.value.hint).startswith("near it: --label")


def test_only_what_may_have_been_meant_is_near() -> None:
    """A slip finds its name; another word finds none, however many letters they share."""
    assert nearest("lits", sorted(VERBS)) == ["list"]
    assert nearest("cancle", sorted(VERBS)) == ["cancel"]
    assert nearest("nope", sorted(VERBS)) == []


def test_surplus_words_get_the_advice_that_fits() -> None:
    """Only a verb that takes a text says that what belongs together is quoted."""
    for verb, quoted in (("run", True), ("log", False)):
        with pytest.raises(UsageError, match="one operand too many") as caught:
            parse(_load(verb).COMMAND, ["one", "two"])
        assert ("quote" in str(caught.value.hint)) is quoted
        assert f"usage: coachman {verb}" in str(caught.value.hint)


def test_an_option_without_help_is_not_told_of() -> None:
    """What is kept for later versions is taken, and not in the help."""
    command = _load("run").COMMAND

    assert parse(command, ["--tied", "p"]).has("tied")
    assert "tied" not in command.help() + str(command.document())


def test_no_things_are_too_few() -> None:
    """Where a number of things is asked for, 0 is refused."""
    with pytest.raises(UsageError, match="cannot read --coat: 0 is too few"):
        parse(COMMAND, ["north", "--coat", "0"]).count("coat")


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_help(verb: str) -> None:
    """Each verb's module describes its own command line."""
    command = _load(verb).COMMAND

    assert command.verb == verb
    assert command.help().startswith(f"usage: coachman {verb}")
    flags = [flag for option in command.options for flag in option.flags]
    assert len(flags) == len(set(flags))
