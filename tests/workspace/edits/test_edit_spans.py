from ferrule.workspace.edits.edit_problems import Span, apply_spans


def test_spans_are_replaced_in_order():
    assert apply_spans("abcdef", [Span(1, 2, "X"), Span(3, 3, "Y"), Span(5, 6, "")]) == "aXcYde"
