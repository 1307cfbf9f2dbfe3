"""Answers quoted from a result."""

from __future__ import annotations

from inline_snapshot import snapshot

from ferrule.core.errors import ErrorKind
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.models.guided.guide import Passages, passages_of


def result(content: str, display: str = "done") -> ToolResult:
    return ToolResult("call_1", "Tool", True, content, display)


def test_lines_stand_without_their_numbers() -> None:
    assert passages_of(result("     1\tone\n     2\t\n     3\tthree\n"), 900) == Passages(("one", "three"))


def test_a_document_becomes_fields_after_the_words_for_a_person() -> None:
    found = passages_of(
        result('{"branch": "main", "remote": null, "status": {"new": ["a", "b"], "old": []}}', "main"), 900
    )
    assert found == Passages(
        ("main", "branch: main", "remote: none", "status new: a, b", "status old: none"), is_document=True
    )


def test_an_error_is_told_whole() -> None:
    failed = ToolResult(
        "call_1",
        "Read",
        False,
        "…",
        "…",
        error=ErrorInfo(ErrorKind.NOT_FOUND, "There is no file.", suggestion="Look\nagain."),
    )
    assert passages_of(failed, 10).lines == ("There is no file. Look again.",)


def test_a_long_result_is_cut_and_says_so() -> None:
    lines = passages_of(result("\n".join(f"line {number}" for number in range(100))), 50).lines
    assert lines[-1] == "… and 93 more lines"
    assert passages_of(result("x" * 5000), 50).lines == ("x" * 200,)


def test_nothing_is_something_to_say() -> None:
    assert passages_of(result("\n \n"), 900).lines == ("(nothing)",)


def test_a_short_text_is_quoted_to_its_end() -> None:
    assert Passages(("a", "b")).grammar == snapshot("""\
root ::= ( p0 | p1 ) "\\n\\n"
p0 ::= "a" ( "\\n" p1 )
p1 ::= "b"
""")


def test_of_a_long_one_lines_in_a_row_and_what_is_announced_to_the_end() -> None:
    assert Passages(("a", "b:", *"cdefghijklmnopq")).grammar.splitlines()[1:4] == snapshot(
        [
            'p0 ::= "a" ( "\\n" p1 )?',
            'p1 ::= "b:" ( "\\n" p2 )',
            'p2 ::= "c" ( "\\n" p3 )',
        ]
    )


def test_of_a_document_one_line_is_quoted() -> None:
    assert Passages(('say "hi"', "b"), is_document=True).grammar == snapshot("""\
root ::= ( p0 | p1 ) "\\n\\n"
p0 ::= "say \\"hi\\""
p1 ::= "b"
""")
