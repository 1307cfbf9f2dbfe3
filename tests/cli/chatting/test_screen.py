"""Plain output is for pipes, dumb terminals and whoever asks for it; it holds no escape codes."""

from __future__ import annotations

import io

import pytest

from ferrule.cli.chatting.screen import PlainScreen, terminal_size, wants_plain


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "plain"),
    [
        (Tty(), {"TERM": "xterm-256color"}, False),
        (Tty(), {"TERM": "xterm-256color", "NO_COLOR": ""}, False),
        (Tty(), {"TERM": "xterm-256color", "NO_COLOR": "1"}, True),
        (Tty(), {"TERM": "dumb"}, True),
        (Tty(), {}, True),
        (io.StringIO(), {"TERM": "xterm-256color"}, True),
    ],
)
def test_plain_is_for_pipes_dumb_terminals_and_no_color(
    stream: io.StringIO, environment: dict[str, str], plain: bool
) -> None:
    assert wants_plain(stream, environment) is plain


def test_a_plain_screen_has_rows_and_no_tail() -> None:
    out = io.StringIO()
    screen = PlainScreen(out)
    screen.show(["live"])
    screen.write(["one", screen.paint("bad", "two")])
    screen.show([])
    assert out.getvalue() == "one\ntwo\n"


def test_there_is_always_a_size() -> None:
    assert terminal_size().columns > 0
