from ferrule.workspace.edits.edit_problems import EditSpan, apply_spans


def test_spans_are_replaced_in_order():
    assert apply_spans("abcdef", [EditSpan(1, 2, "X"), EditSpan(3, 3, "Y"), EditSpan(5, 6, "")]) == "aXcYde"
