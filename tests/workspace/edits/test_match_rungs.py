from ferrule.workspace.edits.match_rungs import by_indentation, by_line_ends, by_typography
from ferrule.workspace.edits.text_lines import TextLines


def test_parts_of_lines_are_found_past_blanks_and_line_endings():
    lines = TextLines("call(a,  \r\n     b)\r\n")
    (place,) = by_line_ends(lines, ["a,", "     b"])
    assert lines.text[place.start : place.end] == "a,  \r\n     b"


def test_blanks_within_a_line_are_not_trailing():
    assert list(by_line_ends(TextLines("a  \nb c\n"), ["a", "b   "])) == []


def test_only_whole_lines_may_be_indented_otherwise():
    lines = TextLines("  ab\n  c\n")
    assert list(by_indentation(lines, ["b", "c"])) == []
    (place,) = by_indentation(lines, ["ab", "c", ""])
    assert (place.start, place.end) == (0, len(lines.text))


def test_every_place_is_given():
    lines = TextLines("say 'abc' 'abc'\nsay ‘abc’\n")
    assert [place.first for place in by_typography(lines, ["‘abc’"])] == [0, 0, 1]
