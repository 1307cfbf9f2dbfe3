import json

from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.edits.escapes import without_escapes


def test_both_texts_are_read_alike():
    assert next(without_escapes('a\\n\\"b\\"', 'c\\n\\"d\\\\n\\"')) == ('a\n"b"', 'c\n"d\\n"')


def test_quotes_alone_next_to_real_lines():
    assert ('say("a")\nend', 'say("b")\nend') in list(without_escapes('say(\\"a\\")\nend', 'say(\\"b\\")\nend'))


def test_entities():
    assert list(without_escapes("a &lt; b &amp;&amp; c", "a &gt; b")) == [("a < b && c", "a > b")]


def test_what_is_half_escaped_is_not_read():
    assert list(without_escapes('say(\\"a\\", "b")', "x")) == []
    assert list(without_escapes("plain", "x\\n")) == []


def test_a_new_text_in_doubt_is_none():
    assert next(without_escapes('\\"a\\"', '\\"a\\n\\"')) == ('"a"', None)


@given(st.text('ab"\\\n\t'), st.text('ab"\\\n\t'))
def test_a_json_copy_of_both_comes_back(old: str, new: str):
    copy, new_copy = json.dumps(old)[1:-1], json.dumps(new)[1:-1]
    if "\\n" in copy.replace("\\\\", ""):
        assert (old, new) in list(without_escapes(copy, new_copy))
