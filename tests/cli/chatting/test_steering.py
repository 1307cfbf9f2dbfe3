"""A line typed while the agent works goes to it; keys that are no words are passed over."""

from __future__ import annotations

import asyncio
import os
import pty
import termios

from ferrule.cli.chatting.input import Steering, TypedLine


def test_keys_make_lines() -> None:
    line = TypedLine()
    assert line.feed("use the 别".encode()) == []
    assert line.text == "use the 别"
    assert line.feed(b" one\r") == ["use the 别 one"]
    assert line.text == ""
    assert line.feed(b"\r  \r") == []


def test_keys_that_erase_erase() -> None:
    line = TypedLine()
    line.feed("ab 中👨‍👩‍👧".encode() + b"\x7f\x7f")
    assert line.text == "ab "
    line.feed(b"two words\x17")
    assert line.text == "ab two"
    line.feed(b"\x15")
    assert line.text == ""


def test_arrows_and_replies_of_the_terminal_are_passed_over_also_in_pieces() -> None:
    line = TypedLine()
    for piece in (b"a\x1b", b"[A", b"b\x1b[12;4", b"0Rc", b"\x1bOP", b"d\x00\x07"):
        line.feed(piece)
    assert line.text == "abcd"


def test_a_character_in_two_halves_is_one() -> None:
    line = TypedLine()
    for byte in "中".encode():
        line.feed(bytes([byte]))
    assert line.text == "中"


async def test_it_listens_only_while_it_should_and_leaves_the_terminal_as_it_was() -> None:
    ours, theirs = pty.openpty()
    lines: list[str] = []
    typed: list[str] = []
    got = asyncio.Event()

    def take(line: str) -> None:
        lines.append(line)
        got.set()

    steering = Steering(theirs, take, typed.append)
    before = termios.tcgetattr(theirs)
    with steering.listening():
        assert not termios.tcgetattr(theirs)[3] & termios.ECHO
        with steering.paused():
            assert termios.tcgetattr(theirs) == before
        os.write(ours, b"hello\rrest")
        await asyncio.wait_for(got.wait(), 10)
    assert termios.tcgetattr(theirs) == before
    assert lines == ["hello"]
    assert steering.unfinished() == "rest"
    assert steering.unfinished() == ""
    os.close(ours)
    os.close(theirs)


async def test_without_a_terminal_nothing_is_listened_to() -> None:
    steering = Steering(None, lambda line: None, lambda text: None)
    with steering.listening(), steering.paused():
        pass
    assert steering.unfinished() == ""
