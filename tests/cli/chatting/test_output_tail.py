"""Of a command's output a little is kept, safe, whatever it writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.cli.chatting.call_view import OutputTail


def fed(*pieces: str) -> OutputTail:
    tail = OutputTail()
    for piece in pieces:
        tail.feed(piece)
    return tail


def test_the_first_and_the_last_lines_are_kept_and_the_rest_counted() -> None:
    tail = fed("".join(f"{number}\n" for number in range(100)))
    assert tail.live(3) == ["97", "98", "99"]
    assert tail.whole() == (["0", "1", "2", "3"], 90, ["94", "95", "96", "97", "98", "99"])


def test_an_unfinished_line_is_live_and_in_the_end_whole() -> None:
    tail = fed("one\ntw")
    assert tail.live(9) == ["one", "tw"]
    assert tail.whole() == (["one", "tw"], 0, [])


def test_escapes_are_taken_out_also_when_they_come_in_pieces() -> None:
    assert fed("\x1b[3", "1mred\x1b[0m \x1b]0;ti", "tle\x07x\n").live(1) == ["red x"]
    assert fed("10%\r20%\r100%\n").live(1) == ["100%"]
    assert fed("a\u202eb\n").live(1) == ["a\\u{202e}b"]


def test_a_line_without_end_is_bounded() -> None:
    tail = fed(*["x" * 1000] * 50)
    assert len(tail.live(1)[0]) <= 2000


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=30), max_size=20))
def test_nothing_that_steers_a_terminal_comes_out(pieces: list[str]) -> None:
    first, _left, last = fed(*pieces).whole()
    assert not [one for line in (*first, *last) for one in line if ord(one) < 32 and one != "\t"]
