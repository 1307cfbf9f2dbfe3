import html
import json

from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.edits.matching import without_escapes


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


@given(st.text("ab \"'<>&\\\n"), st.text("ab \"'<>&\\\n"))
def test_an_html_copy_of_both_comes_back_or_is_in_doubt(old: str, new: str):
    """Whichever way the library writes an apostrophe."""
    for apostrophe in ("&#x27;", "&#39;", "&apos;", "&#039;"):
        copies = [html.escape(text).replace("&#x27;", apostrophe) for text in (old, new)]
        for plain, plain_new in without_escapes(*copies):
            if plain == old:
                assert plain_new in (new, None)


def test_entities_by_number_are_undone_with_those_by_name():
    copies = "say(&quot;a&quot;)", "say(&quot;it&#x27;s \\&quot;b\\&quot;&quot;)"
    assert list(without_escapes(*copies)) == [('say("a")', 'say("it\'s \\"b\\"")')]


def test_an_entity_that_is_new_and_not_escaped_is_in_doubt():
    assert list(without_escapes("&lt;b&gt;", "&lt;b&gt;&nbsp;&amp;")) == [("<b>", None)]
    assert list(without_escapes("&lt;b&gt;&nbsp;", "&lt;i&gt;&nbsp;")) == [("<b>&nbsp;", "<i>&nbsp;")]


def test_a_bare_quote_shows_that_the_new_text_may_not_be_escaped():
    """`a\\\\\\\\t` of the old text is `a\\\\t`; whether `\\\\t` of the new one is a tab, nobody knows."""
    assert list(without_escapes("'a\\\\\\\\t'", '"a\\\\t"')) == [("'a\\\\t'", None)]
