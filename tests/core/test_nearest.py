"""Near-miss names (P2): what a model probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core import nearest as nearest_module
from ferrule.core.nearest import nearest

TOOLS = [
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "Glob",
    "Grep",
    "Bash",
    "BashOutput",
    "KillShell",
    "readFile",
    "listFiles",
]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("read", "Read"),
        ("read_file", "readFile"),
        ("Read-File", "readFile"),
        ("raed", "Read"),
        ("wrtie", "Write"),
        ("Gerp", "Grep"),
        ("bash_output", "BashOutput"),
        ("list_files", "listFiles"),
        ("kill_shel", "KillShell"),
    ],
)
def test_what_was_meant_comes_first(wrong: str, meant: str):
    assert nearest(wrong, TOOLS)[0] == meant


@pytest.mark.parametrize("wrong", ["", "___", "send_mail", "x" * 300, "xyzzy"])
def test_nothing_near_is_nothing(wrong: str):
    assert nearest(wrong, TOOLS) == []


GREP = ["pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "-i", "-n", "multiline", "head_limit"]


@pytest.mark.parametrize("wrong", ["include", "context", "ignore_case", "case_insensitive", "-D", "ab", "max", "regex"])
def test_a_short_name_or_a_symbol_is_never_near_by_chance(wrong: str):
    assert nearest(wrong, GREP) == []


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("c", "-C"),
        ("N", "-n"),
        ("file_path", "path"),
        ("limit", "head_limit"),
        ("mode", "output_mode"),
        ("outputMode", "output_mode"),
        ("mode_output", "output_mode"),
        ("pat", "path"),
        ("tpye", "type"),
        ("globs", "glob"),
    ],
)
def test_the_same_words_and_spellings_are_near(wrong: str, meant: str):
    assert nearest(wrong, GREP)[0] == meant


def test_at_most_so_many_are_given():
    assert len(nearest("file", [f"file{number}" for number in range(50)])) == 3
    assert len(nearest("file", [f"file{number}" for number in range(50)], most=1)) == 1


def test_ten_thousand_names_are_compared_once_each_and_unlike_ones_never(monkeypatch: pytest.MonkeyPatch):
    """R1: ten thousand tools do not make an unknown name slow. Only comparing letter by letter takes long."""
    compared: list[str] = []
    letter_by_letter = nearest_module.edits

    def counting(wanted: str, known: str, bound: int) -> int:
        compared.append(known)
        return letter_by_letter(wanted, known, bound)

    monkeypatch.setattr(nearest_module, "edits", counting)
    alike = [f"create_the_great_report_{number}" for number in range(10_000)]
    assert len(nearest("create_the_great_report_of_the_yaer", alike)) == 3
    assert len(compared) == len(set(compared)) <= 10_000
    compared.clear()
    assert nearest("create_the_great_report_of_the_yaer", [f"x{number}_quick" for number in range(10_000)]) == []
    assert compared == []


def slowly(a: str, b: str) -> int:
    """The distance by its definition: the whole table."""
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            costs = table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(costs)
            if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@given(st.text("abcd", max_size=12), st.text("abcd", max_size=12), st.integers(0, 12))
def test_edits_are_counted_as_by_their_definition(a: str, b: str, bound: int):
    assert nearest_module.edits(a, b, bound) == min(slowly(a, b), bound + 1)


@pytest.mark.parametrize("length", [1, 20, 199, 3_000_000])
def test_a_search_compares_a_bounded_number_of_letters(length: int, monkeypatch: pytest.MonkeyPatch):
    """P2: whatever is sent and however many names there are."""
    letters = 0
    letter_by_letter = nearest_module.edits

    def counting(wanted: str, known: str, bound: int) -> int:
        nonlocal letters
        letters += len(known)
        return letter_by_letter(wanted, known, bound)

    monkeypatch.setattr(nearest_module, "edits", counting)
    nearest("y" + "ba" * (length // 2), (f"{number % 10}" + "ab" * (length // 2) for number in range(60_000)))
    assert letters <= 100_000 + length


NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N"), include_characters="_-"), min_size=1, max_size=12)


@given(NAMES, st.lists(NAMES, max_size=8))
def test_only_known_names_are_offered(wrong: str, known: list[str]):
    found = nearest(wrong, known)
    assert set(found) <= set(known)
    assert len(found) <= 3


@given(
    st.text("abcdefgh", min_size=1, max_size=12),
    st.lists(st.text("mnopqrstu", min_size=1, max_size=12), max_size=8),
)
def test_the_name_itself_is_the_nearest(name: str, others: list[str]):
    """However it is spelt: case, `_` and `-` do not count."""
    for wrong in (name, name.upper(), "_".join(name), "-".join(name)):
        assert nearest(wrong, [*others, name])[0] == name


@given(st.text("abcdefgh", min_size=6, max_size=12), st.data())
def test_one_slip_is_forgiven(name: str, data: st.DataObject):
    at = data.draw(st.integers(0, len(name) - 1))
    slips = [name[:at] + name[at + 1 :], name[:at] + "z" + name[at:], name[:at] + "z" + name[at + 1 :]]
    for wrong in slips:
        assert nearest(wrong, ["mnopqrstuvwx", name]) == [name]


def test_the_name_that_lacks_one_letter_comes_before_all_others():
    assert nearest("getCurrentDateTim", ["getCurrentDirectory", "getCurrentDateTime"])[0] == "getCurrentDateTime"
