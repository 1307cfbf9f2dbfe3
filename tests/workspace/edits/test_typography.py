from tests.workspace.edit_asking import edited

from ferrule.workspace.edits.file_style import Folding, typographic, walk


def test_plain_and_typographic_are_paired_piece_by_piece():
    assert walk("a…b", "a...b") == [("a", "a"), ("…", "..."), ("b", "b")]
    assert walk("x--y", "x—y") == [("x", "x"), ("--", "—"), ("y", "y")]
    assert walk("“a”", '"a" and more') == [("“", '"'), ("a", "a"), ("”", '"')]


def test_words_and_operators_are_not_typography():
    assert walk("a-b", "a--b") is None
    assert walk("a", "b") is None
    assert walk("ab", "a") is None


def test_keys_tell_where_they_came_from():
    folding = Folding("a — b")
    assert folding.key("a — b… -- c") == "a - b... - c"
    assert folding.column("a — b… -- c", len("a - b...")) == len("a — b…")


def test_only_some_characters_have_a_plain_form():
    assert typographic("it’s")
    assert not typographic("naïve 中文")


def test_marks_at_the_end_of_a_changed_line_may_be_meant_as_typed():
    text = "one\n### persist(text…)\nlast\n"
    assert edited(text, "one\n### persist(text...)\n", "one\n### other(words, ...)\n")[0] == "misfit"
    assert edited(text, "one\n### persist(text...)\n", "one\n### persists(text...)\n")[1] == text.replace(
        "ist(", "ists("
    )


def test_a_space_that_the_file_has_as_another_is_not_made_plain_by_the_way():
    text = "{2.4\u00a0Lists%\n  label}\nend of it\n"
    assert edited(text, "{2.4 Lists%\n  label}\n", "{2.4 Lists}\n")[0] == "misfit"


def test_what_stood_in_quotes_keeps_its_form_wherever_it_goes():
    text = "show = '‘'\nat = find(a,\n          'k')\nsay(\"don't %r\" %\n    a)\n"
    assert edited(text, "at = find(a,\n          ‘k’)\n", "at = index(a, ‘k’)\n") == (
        "typography",
        text.replace("find(a,\n          ", "index(a, "),
    )
    assert edited(text, "say(“don’t %r” %\n    a)\n", "tell(“don’t %r” % a)\n") == (
        "typography",
        text.replace('say("don\'t %r" %\n    ', 'tell("don\'t %r" % '),
    )
    assert edited(text, "at = find(a,\n          ‘k’)\n", "at = find(a, ‘other’)\n")[0] == "misfit"


def test_quotes_of_two_forms_in_the_file_are_not_taken_for_one():
    text = "a('k',\n  1)\nb(‘k’,\n  2)\n"
    assert edited(text, "a(‘k’,\n  1)\nb(‘k’,\n  2)\n", "a(1, ‘k’)\nb(2, ‘k’)\n")[0] == "misfit"


def test_the_letter_before_a_string_is_no_word():
    assert edited("a = 'x'\n", "a = ‘x’\n", "a = ‘x’\nc = b’yes’\n") == ("typography", "a = 'x'\nc = b'yes'\n")
    assert edited("a = 'x'\n", "a = ‘x’\n", "a = ‘x’  # o’clock\n")[0] == "misfit"
    assert edited("a = 'x'\n", "a = ‘x’\n", "a = ‘x’  # tab’s\n")[0] == "misfit"
