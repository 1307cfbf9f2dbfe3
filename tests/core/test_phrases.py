"""A phrase is the English text wherever text is wanted, and can be said in another language."""

from __future__ import annotations

import copy
import json
import pickle

from hypothesis import given
from hypothesis import strategies as st

from ferrule import ToolError
from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import Phrase, advice, glued, joined, phrase, said_by, translated
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.format import format_stopped

GERMAN = {
    "No file at `{path}`.": "Keine Datei: `{path}`.",
    "`{name}` failed: {why}": "`{name}` ist fehlgeschlagen: {why}",
    "it is gone": "sie ist weg",
    " or ": " oder ",
    "{what}: {why}": "{what} – {why}",
    "It stopped.": "Schluss。",
}


def in_german(text: str) -> str:
    return translated(text, lambda template: GERMAN.get(template, template))


def test_it_is_its_english_text() -> None:
    text = phrase("No file at `{path}`.", path="a.txt")
    assert text == "No file at `a.txt`."
    assert f"{text}" == json.loads(json.dumps(text)) == str(ToolError(text))
    assert repr(text) == repr(str(text))


def test_a_catalogue_says_it_in_another_language_with_all_that_was_filled_in() -> None:
    assert in_german(phrase("No file at `{path}`.", path="{a} b")) == "Keine Datei: `{a} b`."
    failed = phrase("`{name}` failed: {why}", name="Read", why=phrase("it is gone"))
    assert failed == "`Read` failed: it is gone"
    assert in_german(failed) == "`Read` ist fehlgeschlagen: sie ist weg"


def test_what_nobody_translated_and_plain_text_stay_as_they_are() -> None:
    assert in_german(phrase("Never heard of {it}.", it="x")) == "Never heard of x."
    assert in_german("it is gone") == "it is gone"
    assert in_german(joined(" ", [])) == ""


def test_several_make_one() -> None:
    names = joined(" or ", ["`a`", "`b`"])
    assert (names, in_german(names)) == ("`a` or `b`", "`a` oder `b`")
    row = joined(" ", [phrase("No file at `{path}`.", path="a"), "", phrase("it is gone")])
    assert (row, in_german(row)) == ("No file at `a`. it is gone", "Keine Datei: `a`. sie ist weg")
    alone = phrase("it is gone")
    assert joined(" ", ["", alone]) is alone


def test_sentences_with_full_width_marks_have_no_space_between_them() -> None:
    assert in_german(joined(" ", [phrase("It stopped."), phrase("it is gone")])) == "Schluss。sie ist weg"


def test_a_template_keeps_its_space_from_latin_words_and_from_what_was_given_alone() -> None:
    chinese = {
        "expected {kind}, got {found}": "应为 {kind} 的值，得到 {found}",
        "a date": "日期",
        "{{x}} {kind} y": "{{x}} {kind} 乙",
    }

    def say(text: str) -> str:
        return translated(text, lambda template: chinese.get(template, template))

    assert say(phrase("expected {kind}, got {found}", kind="integer", found="x")) == "应为 integer 的值，得到 x"
    assert (
        say(phrase("expected {kind}, got {found}", kind=phrase("a date"), found="名 字")) == "应为日期的值，得到 名 字"
    )
    assert say(phrase("{{x}} {kind} y", kind=phrase("a date"))) == "{x} 日期乙"


def test_an_exception_says_the_phrase_it_was_made_with() -> None:
    gone = ValueError(phrase("it is gone"))
    assert in_german(said_by(gone)) == "sie ist weg"
    assert (
        in_german(phrase("`{name}` failed: {why}", name="Read", why=gone)) == "`Read` ist fehlgeschlagen: sie ist weg"
    )
    assert (said_by(ValueError()), said_by(OSError(2, "No such file"))) == ("", "[Errno 2] No such file")
    assert in_german(glued("- ", said_by(gone), "!")) == "- sie ist weg!"


def test_a_detail_that_only_english_has_words_for_is_left_out_elsewhere() -> None:
    plain = phrase("it is gone").because("somebody removed it")
    assert plain == "it is gone: somebody removed it"
    assert in_german(plain) == "sie ist weg"
    assert translated(plain, str) == plain
    assert in_german(phrase("it is gone").because(phrase("It stopped."))) == "sie ist weg – Schluss。"
    assert phrase("it is gone").because("") == "it is gone"


@given(
    st.lists(st.sampled_from(["{one}", "{two}", "{one!r}", "{two:>4}", "{{", "}}", "{{one}}", "`", " of ", "%s"])),
    st.text(max_size=4),
    st.text(max_size=4) | st.integers(),
)
def test_it_is_filled_in_as_str_format_does(parts: list[str], one: str, two: str | int) -> None:
    template = "".join(parts)
    assert phrase(template, one=one, two=two) == template.format(one=one, two=str(two))
    assert phrase(template) == template


TEXT = st.text(max_size=8)
PHRASES = st.recursive(
    st.builds(lambda path: phrase("No file at `{path}`.", path=path), TEXT),
    lambda inner: (
        st.builds(lambda name, why: phrase("`{name}` failed: {why}", name=name, why=why), TEXT, inner)
        | st.builds(lambda parts: joined(" ", parts), st.lists(TEXT | inner, min_size=1, max_size=3))
        | st.builds(lambda one, why: one.because(why), inner, TEXT | inner)
    ),
    max_leaves=5,
)


@given(PHRASES)
def test_without_a_catalogue_it_is_what_it_was_and_copies_are_phrases_too(text: Phrase) -> None:
    assert translated(text, str) == text
    for again in (pickle.loads(pickle.dumps(text)), copy.deepcopy(text)):
        assert (again, in_german(again)) == (text, in_german(text))
    assert text.mapped(lambda one: one) == text
    assert in_german(text.mapped(lambda one: one)) == in_german(text)


def test_an_error_that_is_cleaned_stays_a_phrase_without_the_secret() -> None:
    """P10: in every language."""
    secret = ToolError(phrase("No file at `{path}`.", path="/home/ann/private/notes"), kind=ErrorKind.NOT_FOUND)
    result = format_stopped("c", "Read", stopped_by("Read", secret, None))
    assert result.error is not None
    assert result.error.message == "No file at `…/notes`."
    assert in_german(result.error.message) == "Keine Datei: `…/notes`."
    assert in_german(result.display_content) == "Keine Datei: `…/notes`."


def test_a_secret_that_only_shows_in_the_whole_is_not_told_in_parts() -> None:
    """P10: where cleaning the parts is not enough, the cleaned English text is all there is."""
    told = ToolError(phrase("password={value}", value="hunter2"))
    result = format_stopped("c", "Read", stopped_by("Read", told, None))
    assert result.error is not None
    assert "hunter2" not in translated(result.error.message, lambda template: template.replace("password", "Kennwort"))


def test_a_model_and_a_user_read_their_own_advice() -> None:
    text = advice("Ask the user about `{path}`.", "No file at `{path}`.", path="a")
    assert (text, in_german(text)) == ("Ask the user about `a`.", "Keine Datei: `a`.")
    assert translated(text, str) == "No file at `a`."
    assert in_german(joined(" ", [phrase("it is gone"), text])) == "sie ist weg Keine Datei: `a`."
    assert in_german(text.mapped(str.upper)) == "Keine Datei: `A`."
    assert in_german(copy.deepcopy(text)) == in_german(pickle.loads(pickle.dumps(text))) == "Keine Datei: `a`."


def test_advice_that_helps_no_user_is_left_out() -> None:
    text = advice("Ask the user.")
    assert in_german(text) == ""
    assert in_german(joined(" ", [phrase("it is gone"), text])) == "sie ist weg"
