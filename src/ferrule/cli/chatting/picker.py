"""Choosing one of several rows: with arrow keys and words to search for, or by number where lines are read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.cli.chatting.screen import cut, terminal_size, wrapped
from ferrule.cli.words import _
from ferrule.core.shown_text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prompt_toolkit.application import Application

    from ferrule.cli.chatting.input import PersonInput
    from ferrule.cli.chatting.screen import Screen

_AROUND = 4  # rows of the terminal that are not the list's
_MOST_ROWS = 12


def matching(rows: Sequence[str], query: str) -> list[int]:
    """The rows that hold every word of the query."""
    words = query.lower().split()
    return [at for at, row in enumerate(rows) if all(word in row.lower() for word in words)]


async def pick(screen: Screen, person: PersonInput, title: str, rows: Sequence[str]) -> int | None:
    """Which row the user chose; None where they chose none."""
    rows = [visible(row).replace("\n", " ") for row in rows]
    if screen.live and person.by_person:
        async with person.away():
            return await _application(title, rows).run_async(handle_sigint=False)
    return await _by_number(screen, person, title, rows)


async def _by_number(screen: Screen, person: PersonInput, title: str, rows: Sequence[str]) -> int | None:
    shown = list(range(len(rows)))
    while True:
        screen.write([title, *(f"{number:>3}. {rows[at]}" for number, at in enumerate(shown, 1))])
        screen.write(wrapped(_("Type a number, words to search for, or nothing to leave it."), screen.width))
        try:
            said = (await person.answer()).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not said:
            return None
        if said.isdecimal() and 0 < int(said) <= len(shown):
            return shown[int(said) - 1]
        found = matching(rows, said)
        if found:
            shown = found
        else:
            screen.write([_("Nothing matches `{words}`.").format(words=visible(said))])


def _application(title: str, rows: Sequence[str]) -> Application[int | None]:
    """A list below a line to type into; it takes itself away when it is over, and scrolls nothing off the screen."""
    import os
    import sys

    from prompt_toolkit.application import Application
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.input.defaults import create_input
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.styles import Style

    at = 0
    query = Buffer(multiline=False)

    def found() -> list[int]:
        return matching(rows, query.text)

    def typed(_buffer: Buffer) -> None:
        nonlocal at
        at = 0

    query.on_text_changed += typed

    def listed() -> Any:
        size, now = terminal_size(), found()
        room = max(1, min(_MOST_ROWS, size.lines - _AROUND))
        first = max(0, min(at - room // 2, len(now) - room))
        fragments: list[tuple[str, str]] = []
        for position, row in list(enumerate(now))[first : first + room]:
            mark, style = ("› ", "reverse") if position == at else ("  ", "")
            fragments.append((style, cut(mark + rows[row], size.columns - 1)))
            fragments.append(("", "\n"))
        return fragments[:-1] or [("class:faint", _("Nothing matches."))]

    def heading() -> str:
        return cut(title, terminal_size().columns - 1)

    def footing() -> str:
        words = _("{n} of {all}. Type to search; Enter chooses, Esc leaves.").format(n=len(found()), all=len(rows))
        return cut(words, terminal_size().columns - 1)

    keys = KeyBindings()

    def move(by: int) -> Callable[[KeyPressEvent], None]:
        def moved(_event: KeyPressEvent) -> None:
            nonlocal at
            at = max(0, min(at + by, len(found()) - 1))

        return moved

    moves = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -_MOST_ROWS, "pagedown": _MOST_ROWS}
    for name, by in moves.items():
        keys.add(name)(move(by))

    @keys.add("enter")
    def choose(event: KeyPressEvent) -> None:
        if now := found():
            event.app.exit(result=now[at])

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    _used: list[Any] = [choose, leave]
    layout = HSplit(
        [
            Window(FormattedTextControl(heading, style="class:title"), height=1),
            VSplit([Window(FormattedTextControl("? "), width=2, height=1), Window(BufferControl(query), height=1)]),
            Window(FormattedTextControl(listed), dont_extend_height=True),
            Window(FormattedTextControl(footing, style="class:faint"), height=1),
        ]
    )

    def size() -> Size:
        now = terminal_size()
        return Size(rows=now.lines, columns=now.columns)

    return Application(
        Layout(layout, focused_element=query),
        key_bindings=keys,
        style=Style.from_dict({"title": "bold", "faint": "ansibrightblack"}),
        erase_when_done=True,
        input=create_input(),  # that of the editor may still give it an Esc that is meant for the list
        output=Vt100_Output(sys.stdout, size, term=os.environ.get("TERM"), enable_cpr=False),
    )
