import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import find_edits
from ferrule.workspace.texts.text import Edit, apply_edits


def test_edits_build_on_each_other():
    found = find_edits("a b c\n", [("a", "x", False), ("x b", "y", False), ("c", "z", False)])
    assert found.text == "y z\n"
    assert found.spans == [Edit(0, 3, "y"), Edit(4, 5, "z")]
    assert [str(step.rung) for step in found.steps] == ["exact"] * 3


def test_an_empty_text_has_one_place():
    assert find_edits("", [("", "a", False), ("a", "b", False)]).spans == [Edit(0, 0, "b")]
    assert find_edits("x", [("x", "", False), ("", "a", True)]).spans == [Edit(0, 1, "a")]


def test_one_that_fails_undoes_all_and_is_named():
    with pytest.raises(EditError) as raised:
        find_edits("a b\n", [("a", "x", False), ("a", "y", False)])
    assert raised.value.code == "missing"
    assert raised.value.message == snapshot(
        "Edit 2 of 2 failed, so no edit was made. The old text is not in the file, nor anything like it."
    )
    assert raised.value.details == snapshot({"code": "missing", "edit": 2})


@given(
    st.text("abc\n", min_size=1, max_size=30),
    st.lists(st.tuples(*[st.text("abc\n", max_size=3)] * 2, st.booleans()), max_size=5),
)
def test_the_spans_of_the_original_give_the_text_that_one_after_the_other_gives(
    text: str, edits: list[tuple[str, str, bool]]
):
    now, done = text, list[tuple[str, str, bool]]()
    for old, new, every in edits:
        try:
            now = apply_edits(now, find_edit(now, old, new, replace_all=every).spans)
            done.append((old, new, every))
        except EditError:
            continue
    found = find_edits(text, done)
    assert found.text == now
    assert apply_edits(text, found.spans) == now
