from tests.workspace.edit_asking import edited

FILE = "#define A\t1\n#define LONG\t2\nint f() {\n\treturn A;\t/* one */\n}\n"


def test_tabs_within_kept_lines_stay():
    old, new = FILE.expandtabs(8), FILE.expandtabs(8).replace("return A", "return 2")
    rung, result = edited(FILE, old, new)
    assert (rung, result) == ("indentation", FILE.replace("return A", "return 2"))


def test_a_new_gap_that_may_be_a_tab_is_not_guessed():
    old = FILE.replace("\t", "    ")
    assert edited(FILE, old, old.replace("int f", "#define B    3\nint f"))[0] == "misfit"


def test_other_gaps_are_other_text():
    assert edited("a\tb\n", "a c\n", "x\n")[0] == "missing"
