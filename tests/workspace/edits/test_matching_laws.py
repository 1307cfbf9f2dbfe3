"""Laws of the ladder: exact is exact, a damaged copy does what the undamaged would or nothing, and words count."""

import codecs
import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.workspace.edits.damaged_edits import Damage, TrueEdit, a_damage, a_true_edit, plain, without_numbers

from ferrule.workspace.edits.edit_problems import EditProblem
from ferrule.workspace.edits.edit_spans import apply_spans
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.texts.text import Edit, Text, newline_of, splice

PARTS = st.lists(
    st.sampled_from(["a", "b", "ab", " ", "    ", "\n", "c d", "\r\n", "\t", ",", "é中"]), max_size=24
).map("".join)
ENCODINGS = {
    "utf-8": b"",
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "gb18030": b"",
}


@st.composite
def an_exact_edit(draw: st.DrawFn) -> tuple[str, str, str]:
    """A text, a part that stands in it once, and what becomes of that."""
    text = draw(PARTS)
    assume(text)
    if draw(st.booleans()):
        text = text.replace("\r\n", "\n")
    start = draw(st.integers(0, len(text) - 1))
    old = text[start : draw(st.integers(start + 1, start + 12))]
    new = draw(PARTS)
    assume(old != new and text.find(old) == text.rfind(old))
    # Half a line ending is no text that anyone sees.
    end = start + len(old)
    assume("\r\n" not in (text[max(start - 1, 0) : start + 1], text[end - 1 : end + 1]))
    return text, old, new


def _may_lack_its_margin(text: str, old: str, new: str) -> bool:
    """The one exception, see `left_out`: from behind the indentation of a line to the end of one, and several lines."""
    start = text.find(old)
    end = start + len(old)
    margin = text[text.rfind("\n", 0, start) + 1 : start]
    ends_line = old.endswith("\n") or not text[end:].split("\n")[0].strip()
    one_line = "\n" not in new.rstrip("\n") and "\n" not in old.rstrip("\n") and bool(new.strip())
    as_deep = re.match(r"[ \t]*", new)[0] == re.match(r"[ \t]*", old)[0]  # type: ignore[index]
    emptied = not new and not old.endswith("\n")
    plain = emptied or not old.strip() or (one_line and as_deep and "\n" not in old)
    return bool(margin) and not margin.strip(" \t") and ends_line and not plain


def _as_the_file_ends_lines(text: str, old: str, new: str) -> str:
    """Lines that are new where one line stood get the line ending of the file, unless they bring one."""
    if "\n" in old or "\r" in new:
        return new
    rest = text[text.find(old) + len(old) :]
    ending = re.search(r"\r?\n", rest) or re.search(r"\r?\n(?!.*\n)", text, re.DOTALL)
    return new.replace("\n", ending[0] if ending else "\n")


@given(an_exact_edit(), st.sampled_from(sorted(ENCODINGS)))
@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
def test_what_stands_there_once_is_replaced_to_the_letter(edit: tuple[str, str, str], encoding: str):
    text, old, new = edit
    assume(not _may_lack_its_margin(text, old, new))
    found = find_edit(text, old, new)
    assert str(found.rung) == "exact"
    mark = ENCODINGS[encoding]
    file = Text(text, encoding, mark, newline_of(text), text.endswith("\n"))
    written = splice(mark + text.encode(encoding), file, [Edit(s.start, s.end, s.replacement) for s in found.spans])
    assert written == mark + text.replace(old, _as_the_file_ends_lines(text, old, new), 1).encode(encoding)


@st.composite
def an_edit_behind_a_margin(draw: st.DrawFn) -> tuple[str, str, str]:
    margin = draw(st.sampled_from(["  ", "    ", "        ", "\t"]))
    words = st.lists(st.sampled_from(["a", "foo()", "b,", "    c", "x:", "}", "", "\td"]), max_size=4)
    old = "z\n".join(["", *draw(words)]).lstrip() or "z"
    head, tail, new = ("\n".join(draw(words)) for _ in range(3))
    old += draw(st.sampled_from(["", "\n"]))
    text = f"{head}\n{margin}{old}{'' if old.endswith(chr(10)) else chr(10)}{margin}{tail}"
    assume(text.count(old) == 1 and text.find(old) == text.rfind(old) and old != new)
    return text, old, new


@given(an_edit_behind_a_margin())
@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much])
def test_what_may_lack_its_margin_is_exact_to_the_letter_too_or_says_otherwise(edit: tuple[str, str, str]):
    text, old, new = edit
    assume(_may_lack_its_margin(text, old, new))
    try:
        found = find_edit(text, old, new)
    except EditProblem:
        return
    if found.rung == "exact":
        written = _as_the_file_ends_lines(text, old, new)
        assert apply_spans(text, found.spans) == text.replace(old, written, 1)


@given(a_true_edit())
@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much])
def test_an_exact_edit_of_whole_lines_is_always_made(edit: TrueEdit):
    assume(edit.stands_once and edit.old != edit.new)
    found = find_edit(edit.before, edit.old, edit.new)
    assert (str(found.rung), apply_spans(edit.before, found.spans)) == ("exact", edit.after)


def _is_another_exact_edit(edit: TrueEdit, old: str, new: str) -> bool:
    """Whether what the damage left is by chance the text of another place, or whole lines that are meant otherwise."""
    before, after, old, new = map(plain, (edit.before, edit.after, old, new))
    at = before.find(old)
    if at < 0 or before.find(old, at + 1) >= 0:
        return False
    # Lines as deep as one of eight columns or more are not meant to stand twice as deep; see `left_out`.
    deep = before[:at].rpartition("\n")[2].expandtabs(4).isspace() and before[:at].endswith((" " * 8, "\t\t"))
    whole = before[:at].endswith(("\n", "")[at == 0]) and old.endswith("\n") and (not new or new.endswith("\n"))
    return deep or old not in plain(edit.old) or (whole and before.replace(old, new) != after)


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
    except EditProblem:
        return
    result = apply_spans(edit.before.replace("\n", ending), found.spans)
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
    with pytest.raises(EditProblem):
        find_edit(edit.before, changed, edit.new)


def test_equal_lines_at_several_depths_are_not_guessed_at():
    text = "    b = 'x'\r\n            b = 'x'\r\n        b = 'x'\r\n    b = 'x'\r\n"
    with pytest.raises(EditProblem, match="found 2 times"):
        find_edit(text, "b = 'x'\n        b = 'x'\n    b = 'x'\n", "b = 'x'\n    b = 'x'\n")
