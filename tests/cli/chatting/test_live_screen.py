"""Finished rows are in the scrollback exactly once, whatever the tail did below them and however the window changed."""

from __future__ import annotations

import io
import os
from typing import Any

import pyte
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cli.terminal import _Screen

from ferrule.cli.chatting.editor_rows import typed_rows
from ferrule.cli.chatting.screen import LiveScreen, rows_taken, wrapped, wraps_again

TEXT = st.text(st.sampled_from("ab 中😀"), max_size=60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(TEXT, max_size=4)),
        st.tuples(st.just("show"), st.lists(TEXT, max_size=6)),
        st.tuples(st.just("resize"), st.tuples(st.integers(10, 40), st.integers(8, 12))),
    ),
    max_size=12,
)


class Window:
    """A screen on a terminal of pyte's."""

    def __init__(self, columns: int, rows: int, *, rewraps: bool) -> None:
        self.terminal = _Screen(columns, rows, rewraps=rewraps)
        self.stream = pyte.Stream(self.terminal)
        self.screen = LiveScreen(_Into(self.stream), wraps_again=rewraps, size=self.size)

    def size(self) -> os.terminal_size:
        return os.terminal_size((self.terminal.columns, self.terminal.lines))

    def rows(self) -> list[str]:
        return self.terminal.rows()

    def resize(self, columns: int, lines: int) -> None:
        """To a size that still holds the tail: no program can erase what the terminal itself scrolled off its top."""
        narrower = columns < self.terminal.columns
        assume(sum(rows_taken(row, columns) if narrower else 1 for row in self.screen._drawn_rows) <= lines)
        self.terminal.resize(lines, columns)


class _Into(io.StringIO):
    def __init__(self, stream: pyte.Stream) -> None:
        super().__init__()
        self._to = stream

    def write(self, text: str) -> int:
        self._to.feed(text.replace("\n", "\r\n"))
        return len(text)


def bare(rows: list[str]) -> str:
    return "".join("".join(rows).split())


@given(STEPS)
def test_finished_rows_are_there_exactly_once_where_old_rows_are_wrapped_anew(steps: list[tuple[str, Any]]) -> None:
    window = Window(30, 10, rewraps=True)
    written: list[str] = []
    for what, value in steps:
        if what == "write":
            rows = [row for text in value for row in wrapped(text, window.screen.width)]
            written += rows
            window.screen.write(rows)
        elif what == "show":
            window.screen.show([row for text in value for row in wrapped(text, window.screen.width)][-5:])
        else:
            window.resize(*value)
            window.screen.show(["after the resize"])
    window.screen.show([])
    assert bare(window.rows()) == bare(written)


@given(STEPS, TEXT, st.integers(0, 60))
def test_finished_rows_are_there_exactly_once_above_what_is_typed(
    steps: list[tuple[str, Any]], typed: str, at: int
) -> None:
    """The cursor stands anywhere in the typed rows, and those are below everything else."""
    window = Window(30, 10, rewraps=True)
    window.screen.footer = lambda width, height: typed_rows(typed, min(at, len(typed)), "› ", width, height // 2)
    written: list[str] = []
    for what, value in steps:
        if what == "write":
            rows = [row for text in value for row in wrapped(text, window.screen.width)]
            written += rows
            window.screen.write(rows)
        elif what == "show":
            window.screen.show([row for text in value for row in wrapped(text, window.screen.width)][-5:])
        else:
            window.resize(*value)
            window.screen.refresh()
    window.screen.footer = None
    window.screen.show([])
    assert bare(window.rows()) == bare(written)


def test_while_another_program_has_the_terminal_nothing_is_written_and_nothing_is_lost() -> None:
    window = Window(30, 10, rewraps=False)
    window.screen.footer = lambda width, height: typed_rows("half a line", 4, "› ", width, height // 2)
    window.screen.write(["before"])
    window.screen.show(["a tail"])
    with window.screen.away():
        assert bare(window.rows()) == "before"
        window.screen.write(["meanwhile"])
        window.screen.show(["another tail"])
        assert bare(window.rows()) == "before"
    assert [row for row in window.rows() if row] == ["before", "meanwhile", "another tail", "› half a line"]
    assert (window.terminal.cursor.y, window.terminal.cursor.x) == (3, 6)


@given(STEPS)
def test_finished_rows_are_there_exactly_once_where_rows_are_cut(steps: list[tuple[str, Any]]) -> None:
    """Such a terminal loses what is right of its new edge, so only rows that fit the narrowest are looked at."""
    window = Window(30, 10, rewraps=False)
    written: list[str] = []
    for what, value in steps:
        if what == "write":
            rows = [row for text in value for row in wrapped(text, 9)]
            written += rows
            window.screen.write(rows)
        elif what == "show":
            window.screen.show([row for text in value for row in wrapped(text, window.screen.width)][-5:])
        else:
            window.terminal.resize(value[1], value[0])
            window.screen.show(["after the resize"])
    window.screen.show([])
    assert bare(window.rows()) == bare(written)


def test_the_tail_is_replaced_and_never_wraps() -> None:
    window = Window(20, 6, rewraps=False)
    window.screen.write(["first"])
    window.screen.show(["a tail that is much too long for this", "\x1b[2mfaint and also much too long\x1b[0m"])
    assert window.rows()[:3] == ["first", "a tail that is muc…", "faint and also much"]
    window.screen.write(["second"])
    window.screen.show([])
    assert [row for row in window.rows() if row] == ["first", "second"]


def test_a_tail_higher_than_the_window_shows_its_end() -> None:
    window = Window(20, 5, rewraps=False)
    window.screen.show([f"row {number}" for number in range(20)])
    window.screen.show([])
    assert [row for row in window.rows() if row] == []


def test_a_terminal_that_is_gone_is_no_failure() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    screen = LiveScreen(Gone())
    screen.write(["words"])
    screen.show(["tail"])
    screen.write(["more"])


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(379)"}, False),
        ({"TERM": "screen", "TMUX": "/tmp/x"}, True),
        ({"TERM": "screen", "STY": "1.pts"}, False),
        ({"TERM": "linux"}, False),
        ({}, False),
    ],
)
def test_whether_old_rows_are_wrapped_anew_is_known_of_the_terminal(
    environment: dict[str, str], expected: bool
) -> None:
    assert wraps_again(environment) is expected
