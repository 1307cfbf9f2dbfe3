"""Laws of the ladder: exact is exact, a damaged copy does what the undamaged would or nothing, and words count."""

import codecs
import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.workspace.edits.damaged_edits import Damage, TrueEdit, a_damage, a_true_edit, plain, without_numbers

from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.match_rungs import (
    by_indentation,
    by_line_endings,
    by_line_ends,
    by_typography,
    by_typography_and_indentation,
    may_be_in,
)
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import find_edits
from ferrule.workspace.edits.text_lines import TextLines, as_lines
from ferrule.workspace.texts.text import Text, apply_edits, newline_of, splice, splice_utf_8

FORGIVEN = "Found with other line endings or trailing space; the file's were kept."
ENCODINGS = {
    "utf-8": b"",
    "utf-8, marked": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "gb18030": b"",
    "latin-1": b"",
}
ENDINGS = st.sampled_from(["\n", "\r\n", "\r", "mixed"])


def parts(ending: str, beyond_ascii: str = "é中") -> st.SearchStrategy[str]:
    """Text with few words, so that they come again, and with lines that end so."""
    endings = ["\n", "\r\n", "\r"] if ending == "mixed" else [ending] * 2
    words = ["a", "b", "ab", " ", "    ", "foo()", "c d", "\t", ",", beyond_ascii]
    return st.lists(st.sampled_from([*words, *endings]), max_size=24).map("".join)


@st.composite
def an_exact_edit(draw: st.DrawFn, ending: str, beyond_ascii: str = "é中") -> tuple[str, str, str]:
    """A text, a part that stands in it once, and what becomes of that."""
    text = draw(parts(ending, beyond_ascii))
    assume(text)
    start = draw(st.integers(0, len(text) - 1))
    old = text[start : draw(st.integers(start + 1, start + 12))]
    new = draw(parts(draw(st.sampled_from([ending, "\n"])), beyond_ascii))
    assume(old != new and text.find(old) == text.rfind(old))
    # Half a line ending is no text that anyone sees.
    end = start + len(old)
    assume("\r\n" not in (text[max(start - 1, 0) : start + 1], text[end - 1 : end + 1]))
    return text, old, new


def _as_the_file_ends_lines(text: str, old: str, new: str) -> str:
    """Lines that are new where one line stood get the line ending of the file, unless they bring one."""
    if "\n" in old or "\r" in old or "\r" in new:
        return new
    if "\n" not in text and "\r" in text:
        return new.replace("\n", "\r")
    rest = text[text.find(old) + len(old) :]
    ending = re.search(r"\r?\n", rest) or re.search(r"\r?\n(?!.*\n)", text, re.DOTALL)
    return new.replace("\n", ending[0] if ending else "\n")


@given(st.data(), st.sampled_from(sorted(ENCODINGS)), ENDINGS)
@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much])
def test_what_stands_there_once_is_replaced_to_the_letter(data: st.DataObject, form: str, ending: str):
    """Whatever the new text looks like, in every encoding; no byte beside it changes."""
    text, old, new = data.draw(an_exact_edit(ending, "éü" if form == "latin-1" else "é中"))
    found = find_edit(text, old, new)
    assert str(found.rung) == "exact"
    encoding, mark = form.partition(",")[0], ENCODINGS[form]
    file = Text(text, encoding, mark, newline_of(text), text.endswith("\n"))
    written = splice(mark + text.encode(encoding), file, found.spans)
    assert written == mark + text.replace(old, _as_the_file_ends_lines(text, old, new), 1).encode(encoding)


@given(st.data(), st.sampled_from(["\r\n", "\r"]))
@settings(max_examples=200, suppress_health_check=[HealthCheck.filter_too_much])
def test_line_endings_change_nothing_but_themselves(data: st.DataObject, ending: str):
    """A copy with line feeds does to a file with other endings what it does to one with line feeds."""
    text, old, new = data.draw(an_exact_edit("\n"))
    assume("\n" in text)
    found = find_edit(text.replace("\n", ending), old, new)
    assert apply_edits(text.replace("\n", ending), found.spans) == text.replace(old, new, 1).replace("\n", ending)
    assert found.note.removeprefix(FORGIVEN).strip() == find_edit(text, old, new).note


@given(st.data(), ENDINGS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.filter_too_much])
def test_every_exact_place_is_replaced_to_the_letter(data: st.DataObject, ending: str):
    text, new = data.draw(parts(ending)), data.draw(parts(ending))
    old = data.draw(st.sampled_from(["a", "ab", "foo()", "b    ", "c d"]))
    assume(old in text and old != new and ("\n" not in new or "\r" in new or ending == "\n"))
    found = find_edit(text, old, new, replace_all=True)
    assert (str(found.rung), apply_edits(text, found.spans)) == ("exact", text.replace(old, new))
    assert len(found.spans) == text.count(old)


@given(st.data(), ENDINGS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
def test_so_is_each_of_several_edits(data: st.DataObject, ending: str):
    text, old, new = data.draw(an_exact_edit(ending))
    other = data.draw(parts(ending))
    once = text.replace(old, _as_the_file_ends_lines(text, old, new), 1)
    assume(new and other != new and once.find(new) == once.rfind(new) >= 0)
    assume("\r\n" not in (once[once.find(new) - 1 :][:2], once[once.find(new) + len(new) - 1 :][:2]))
    twice = once.replace(new, _as_the_file_ends_lines(once, new, other), 1)
    assert find_edits(text, [(old, new, False), (new, other, False)]).text == twice


@given(a_true_edit())
@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much])
def test_an_exact_edit_of_whole_lines_is_always_made(edit: TrueEdit):
    assume(edit.stands_once and edit.old != edit.new)
    found = find_edit(edit.before, edit.old, edit.new)
    assert (str(found.rung), apply_edits(edit.before, found.spans)) == ("exact", edit.after)


def _is_another_exact_edit(edit: TrueEdit, old: str, new: str) -> bool:
    """Whether what the damage left stands there once: then it is replaced to the letter. So is by chance the text of
    another place, and whole lines that are meant otherwise.
    """
    if edit.before.find(old) == edit.before.rfind(old) >= 0:
        return edit.before.replace(old, new, 1) != edit.after
    before, after, old, new = map(plain, (edit.before, edit.after, old, new))
    at = before.find(old)
    if at < 0 or before.find(old, at + 1) >= 0:
        return False
    whole = before[:at].endswith(("\n", "")[at == 0]) and old.endswith("\n") and (not new or new.endswith("\n"))
    return old not in plain(edit.old) or (whole and before.replace(old, new) != after)


def _looks_the_same(edit: TrueEdit, damage: Damage, result: str, old: str, new: str) -> bool:
    """Whether it is the result of another edit, of which the damage leaves the same texts: then no one can tell."""
    if not (result.startswith(edit.head) and result.endswith(edit.tail)):
        return False
    other = result[len(edit.head) : len(result) - len(edit.tail)]
    return (damage(edit.old, edit.old + other), damage(other, edit.old + other)) == (old, new)


@given(a_true_edit(), a_damage(), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_damaged_copy_does_what_the_undamaged_would_or_nothing(
    edit: TrueEdit, damage: Damage, crlf: bool, copied_with_endings: bool
):
    assume(edit.stands_once and edit.old != edit.new)
    both = edit.old + edit.new
    old, new = damage(edit.old, both), damage(edit.new, both)
    assume(old != edit.old and not _is_another_exact_edit(edit, old, new))
    assume(not _is_another_exact_edit(edit, without_numbers(old), without_numbers(new)))
    # An empty line that loses its ending is gone; what is left are other whole lines.
    assume(old.endswith("\n") or edit.old.split("\n")[-2].strip())
    ending = "\r\n" if crlf else "\n"
    copied = ending if copied_with_endings else "\n"
    try:
        found = find_edit(edit.before.replace("\n", ending), old.replace("\n", copied), new.replace("\n", copied))
    except EditError:
        return
    result = apply_edits(edit.before.replace("\n", ending), found.spans)
    assert result.count("\n") == result.count(ending)
    result = result.replace("\r\n", "\n")
    assert result == edit.after or _looks_the_same(edit, damage, result, old, new)


@given(a_true_edit(), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_changed_letter_digit_or_operator_never_fits(edit: TrueEdit, data: st.DataObject):
    places = [index for index, char in enumerate(edit.old) if char.isalnum() or char in "=+-"]
    assume(places)
    at = data.draw(st.sampled_from(places))
    letter = data.draw(st.sampled_from("zZ9*<!").filter(lambda char: char != edit.old[at]))
    changed = edit.old[:at] + letter + edit.old[at + 1 :]
    lines = {line.strip() for line in edit.before.split("\n")}
    assume(any(line.strip() not in lines for line in changed.split("\n")))
    assume(changed not in edit.before)
    with pytest.raises(EditError):
        find_edit(edit.before, changed, edit.new)


def test_equal_lines_at_several_depths_are_not_guessed_at():
    text = "    b = 'x'\n            b = 'x'\n        b = 'x'\n    b = 'x'\n"
    with pytest.raises(EditError, match="found 2 times"):
        find_edit(text, "b = ‘x’\n        b = ‘x’\n    b = ‘x’\n", "b = ‘x’\n    b = ‘x’\n")


@given(st.data(), ENDINGS, st.sampled_from(["\u201ca\u201d b", "foo\u2026", "ab\u00a0c", "\u2014"]))
@settings(max_examples=300)
def test_lines_that_are_not_searched_for_would_not_have_been_found(data: st.DataObject, ending: str, typed: str):
    """Lines whose letters and digits are nowhere in the file end the search early, which changes no outcome."""
    text, old = data.draw(parts(ending, typed)), data.draw(parts(ending, typed.replace("\u2026", "...")))
    wanted = as_lines(old)
    if old.strip() and not may_be_in(TextLines(text), wanted):
        searches = (by_line_endings, by_line_ends, by_indentation, by_typography, by_typography_and_indentation)
        assert [place for search in searches for place in search(TextLines(text), wanted)] == []


def _outcome(source: str | bytes, old: str, new: str, *, replace_all: bool) -> tuple[object, ...]:
    """What an edit of a text, or of its bytes, comes to."""
    try:
        found = find_edit(source, old, new, replace_all=replace_all)
    except EditError as problem:
        return problem.code, problem.message, problem.details
    if isinstance(source, bytes):
        return found.rung, found.note, splice_utf_8(source, found.spans)
    return found.rung, found.note, apply_edits(source, found.spans).encode()


BEYOND = st.sampled_from(["é", "中", "😀", "\u201ca\u201d b", "foo\u2026", "ab\u00a0c", "\u2028", "\x85", "\ufeff"])


@given(st.data(), ENDINGS, BEYOND, st.booleans())
@settings(max_examples=1000, deadline=None)
def test_in_the_bytes_of_a_text_the_same_is_found(data: st.DataObject, ending: str, beyond: str, replace_all: bool):
    """What is done to a large file is what is done to a small one."""
    text = data.draw(parts(ending, beyond))
    start = data.draw(st.integers(0, len(text)))
    part = text[start : start + data.draw(st.integers(1, 8))]
    typed = data.draw(st.sampled_from([beyond, beyond.replace("\u2026", "..."), "“".join("ab"), "\udcff"]))
    old = data.draw(st.one_of(st.just(part), st.just(part[:-1]), parts("mixed", typed)))
    new = data.draw(parts("mixed", typed.replace("\udcff", "x")))
    whole = _outcome(text, old, new, replace_all=replace_all)
    assert _outcome(text.encode(), old, new, replace_all=replace_all) == whole


@given(a_true_edit(), a_damage(), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_so_is_a_damaged_copy(edit: TrueEdit, damage: Damage, crlf: bool):
    both = edit.old + edit.new
    old, new, before = damage(edit.old, both), damage(edit.new, both), "é😀\n" + edit.before
    if crlf:
        before = before.replace("\n", "\r\n")
    assert _outcome(before.encode(), old, new, replace_all=False) == _outcome(before, old, new, replace_all=False)


@given(st.data(), ENDINGS, BEYOND)
def test_so_are_several_edits_in_turn(data: st.DataObject, ending: str, beyond: str):
    text = f"a{beyond}{data.draw(parts(ending, beyond))}"
    edits = [("a", f"{beyond}b", True), (beyond, "b", True)]
    assert splice_utf_8(text.encode(), find_edits(text.encode(), edits).spans).decode() == find_edits(text, edits).text
