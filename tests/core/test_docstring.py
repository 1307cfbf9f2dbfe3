"""Docstrings become descriptions (T1, T3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.description import Description, Example, parse_docstring

GOOGLE = """Find files by name.

    Looks in every folder below the given one.
    Hidden folders are left out.

    Usage notes:
        - Prefer it over a shell.
        - A pattern that is long
          may go on.

    Important:
        * Never follows links.

    Args:
        pattern (str): What to look for,
            with stars.
        *names: More patterns.
        limit: At most so many: 10 is usual.

    Returns:
        The paths: newest first.

    Raises:
        ValueError: If the pattern is wrong.
    """
NUMPY = """Find files by name.

    Looks in every folder below.

    Parameters
    ----------
    pattern : str
        What to look for,
        with stars.
    limit : int, optional
        At most so many.

    Returns
    -------
    list
        The paths.
    """
SPHINX = """Find files by name.

    Looks in every folder below.

    :param pattern: What to look for,
        with stars.
    :param int limit: At most so many.
    :type pattern: str
    :returns: The paths.
    :raises ValueError: If it is wrong.
    """


def test_google():
    """T1: every layer of the description; T3: what the parameters are for."""
    parsed = parse_docstring(GOOGLE)
    assert parsed.description == Description(
        short="Find files by name.",
        long="Looks in every folder below the given one.\nHidden folders are left out.",
        usage_notes=("Prefer it over a shell.", "A pattern that is long may go on."),
        important_notes=("Never follows links.",),
    )
    assert parsed.params == {
        "pattern": "What to look for, with stars.",
        "names": "More patterns.",
        "limit": "At most so many: 10 is usual.",
    }


@pytest.mark.parametrize("text", [NUMPY, SPHINX])
def test_numpy_and_sphinx(text: str):
    parsed = parse_docstring(text)
    assert parsed.description == Description("Find files by name.", "Looks in every folder below.")
    assert parsed.params == {"pattern": "What to look for, with stars.", "limit": "At most so many."}


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        (None, "", ""),
        ("", "", ""),
        ("   \n  ", "", ""),
        ("One line.", "One line.", ""),
        ("\n    First line\n    goes on.\n\n    More.\n    ", "First line goes on.", "More."),
        ("Does it.\n\n\n\nSecond.\n\nThird.", "Does it.", "Second.\n\nThird."),
        ("\n    Args:\n        a: Only that.\n    ", "", ""),
        ("Note that this: is prose.", "Note that this: is prose.", ""),
        ("Short.\n\nSomething else:\n    stays prose.", "Short.", "Something else:\n    stays prose."),
        ("Short.\n\n---\n\nLong.", "Short.", "---\n\nLong."),
        ("做一件事。\n\n更多。", "做一件事。", "更多。"),
    ],
)
def test_odd_ones(text: str | None, short: str, long: str):
    parsed = parse_docstring(text)
    assert (parsed.description.short, parsed.description.long) == (short, long)


def test_a_parameter_without_words_is_not_described():
    assert parse_docstring("Do.\n\nArgs:\n    a:\n    b: Said.").params == {"b": "Said."}


def test_a_blank_line_between_parameters_ends_nothing():
    assert parse_docstring("Do.\n\nArgs:\n    a: One.\n\n    b: Two.").params == {"a": "One.", "b": "Two."}


def test_what_comes_after_a_section_is_prose_again():
    parsed = parse_docstring("Do.\n\nArgs:\n    a: One.\n\nIt is slow.")
    assert parsed.description.long == "It is slow."


LINES = st.sampled_from(
    ["Args:", "Parameters", "----------", "    a: b", "  * x", ":param x: y", "    more", "", "Usage notes:",
     "Important:", "a : int", "Returns", "    :", ":param:", "- x", "\t- y", "Text."]
)  # fmt: skip
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
WORDS = st.from_regex(r"[A-Z][a-z ,]{0,30}[a-z.]", fullmatch=True)


@given(st.text() | st.lists(LINES, max_size=12).map("\n".join))
def test_no_docstring_is_too_odd(text: str):
    """T1: it never raises, and no layer has blank ends or empty notes."""
    parsed = parse_docstring(text)
    described = parsed.description
    assert described.short == described.short.strip()
    assert "\n" not in described.short
    assert all(described.usage_notes + described.important_notes)
    assert all(name and words for name, words in parsed.params.items())


@given(st.dictionaries(NAMES, WORDS, min_size=1, max_size=5))
def test_the_three_styles_say_the_same(described: dict[str, str]):
    google = "Do.\n\nArgs:\n" + "\n".join(f"    {name}: {words}" for name, words in described.items())
    numpy = "Do.\n\nParameters\n----------\n" + "\n".join(
        f"{name} : int\n    {words}" for name, words in described.items()
    )
    sphinx = "Do.\n\n" + "\n".join(f":param {name}: {words}" for name, words in described.items())
    assert parse_docstring(google) == parse_docstring(numpy) == parse_docstring(sphinx)
    assert list(parse_docstring(google).params) == list(described)


def test_examples_that_are_calls_are_kept_as_calls() -> None:
    """T1: what it is for, and its arguments; an example of how to use the code is none for a model."""
    found = parse_docstring(
        """Find files.

        Examples:
            - find all Python files: {"pattern": "*.py"}
            - find them, but only
              in docs: {"pattern": "*.py",
              "path": "docs"}
            - {"pattern": "*"}
            - not a call: {pattern}
            - >>> find("*.py")
        """
    )
    assert found.description.examples == (
        Example("find all Python files", {"pattern": "*.py"}),
        Example("find them, but only in docs", {"pattern": "*.py", "path": "docs"}),
        Example("", {"pattern": "*"}),
    )
    assert found.description.prose == "Find files."
