"""The agent's events become rows that stay and a tail that does not; a question holds everything back."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import cast

from inline_snapshot import snapshot

from ferrule.agent.agent_events import (
    AgentEvent,
    AgentNotice,
    Answered,
    CallAsked,
    Compacted,
    Ending,
    Steered,
    TurnEnded,
    TurnStarted,
)
from ferrule.cli.chatting.event_printer import EventPrinter
from ferrule.cli.chatting.screen import Paint, PlainScreen, Screen
from ferrule.core.call import RawCall
from ferrule.core.events import Done, PartialOutput
from ferrule.core.model import AssistantMessage, Retrying, TextDelta, Usage
from ferrule.core.result import ToolResult

MESSAGE = AssistantMessage("")


class Kept:
    """A screen that remembers its rows and its tail."""

    live, width, height = True, 40, 20

    def __init__(self) -> None:
        self.paint = Paint(False)
        self.rows: list[str] = []
        self.tail: list[str] = []

    def write(self, rows: Sequence[str]) -> None:
        self.rows += rows

    def show(self, rows: Sequence[str]) -> None:
        self.tail = list(rows)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(name: str, call_id: str = "c1") -> CallAsked:
    return CallAsked(RawCall(name, {"file_path": "a.py"}, id=call_id), "reading `a.py`", "reading `{x}`", {"x": "a.py"})


def done(name: str, call_id: str = "c1", lines: int = 3) -> Done:
    return Done(
        call_id, name, ToolResult(call_id, name, True, "", "read 1 line" if lines == 1 else f"read {lines} lines")
    )


def printed(*events: AgentEvent) -> tuple[Kept, EventPrinter]:
    screen = Kept()
    printer = EventPrinter(cast("Screen", screen), Clock())
    for event in events:
        printer.handle(event)
    return screen, printer


def test_words_calls_and_notes_stand_apart_by_one_blank_row() -> None:
    screen, _ = printed(
        TurnStarted(1, "go"), TextDelta("I lo"), TextDelta("ok.\n\nTwice."), Answered(MESSAGE, Usage()),
        asked("Read"), asked("Read", "c2"), done("Read"), done("Read", "c2", 1),
        TextDelta("Done."), Answered(MESSAGE, Usage()),
        AgentNotice("A limit is near."), Steered("faster"), Compacted(9000, 1000, "…"),
        TurnEnded(Ending.DONE, "Done.", Usage(10, 2), 2),
    )  # fmt: skip
    assert "\n".join(screen.rows) == snapshot("""\

I look.

Twice.

✓ Read a.py — read 3 lines (0.0 s)
✓ Read a.py — read 1 line (0.0 s)

Done.

  A limit is near.
  » faster
  Earlier messages were summarised:
  about 9,000 tokens are now 1,000.
  10 tokens read, 2 written\
""")
    assert screen.tail == []


def test_the_tail_is_what_goes_on_now() -> None:
    screen, printer = printed(TurnStarted(1, "go"))
    printer.tick()
    assert screen.tail == ["⠙ thinking… Esc stops it"]
    printer.handle(TextDelta("an unfinished line that is too long for one row"))
    printer.tick()
    assert screen.tail == ["an unfinished line that is too long for", "one row"]
    printer.handle(asked("Read"))
    printer.queued = ["not so fast"]
    printer.tick()
    assert screen.tail == ["⠸ reading `a.py`…", "» not so fast (queued)"]
    assert screen.rows == ["", "an unfinished line that is too long for", "one row"]


def test_an_answer_that_begins_again_is_said_to() -> None:
    screen, _ = printed(TextDelta("one\ntw"), Retrying(1, 2.0, "It is busy.", restarted=True), TextDelta("one\n"))
    notes = ["  The answer broke off; it starts again.", "  It is busy. Retrying in 2 s."]
    assert screen.rows == ["one", "", *notes, "", "one"]


def test_how_a_turn_ended_badly_is_said() -> None:
    screen, _ = printed(TurnEnded(Ending.FAILED, "", Usage(), 1, "No key.", "Set one."))
    assert screen.rows == ["  It failed. No key. Set one."]
    for ending, words in ((Ending.INTERRUPTED, "Stopped."), (Ending.LIMIT, "limit"), (Ending.LOOP, "repeating")):
        assert words in " ".join(printed(TurnEnded(ending, "", Usage(), 1))[0].rows)


def test_a_call_made_by_a_call_has_no_row_of_its_own() -> None:
    assert printed(done("Read", "inner"))[0].rows == []


def test_a_question_holds_everything_back_and_its_time_is_not_the_calls() -> None:
    screen, clock = Kept(), Clock()
    printer = EventPrinter(cast("Screen", screen), clock)
    printer.handle(TurnStarted(1, "go"))
    printer.handle(asked("Read"))
    printer.handle(asked("Read", "c2"))
    with printer.held("c1") as view:
        assert view is not None
        clock.now = 100.0
        printer.handle(done("Read", "c2"))
        printer.handle(PartialOutput("c1", "Read", "x"))
        printer.tick()
        assert screen.tail == []
        assert screen.rows == [""]
    assert screen.rows == ["", "", "✓ Read a.py — read 3 lines (0.0 s)"]
    assert screen.tail == ["⠋ reading `a.py`…", "    x"]


async def test_a_question_waits_until_what_was_said_before_it_is_shown() -> None:
    printer = EventPrinter(cast("Screen", Kept()))
    waiting = asyncio.create_task(printer.reached("c1"))
    await asyncio.sleep(0)
    assert not waiting.done()
    printer.handle(asked("Read"))
    await asyncio.wait_for(waiting, 10)
    await printer.reached("nobody announced this one")


def test_a_plain_screen_says_once_that_a_call_takes_long() -> None:
    out, clock = io.StringIO(), Clock()
    printer = EventPrinter(PlainScreen(out), clock)
    printer.handle(asked("Read"))
    for clock.now in (1.0, 3.0, 5.0):
        printer.tick()
    assert out.getvalue() == "[running] reading `a.py`…\n"


def test_whoever_waits_for_a_model_sees_what_it_does() -> None:
    screen, clock = Kept(), Clock()
    printer = EventPrinter(cast("Screen", screen), clock)
    printer.preparing("loading the model…")
    printer.tick()
    assert screen.tail == []
    printer.handle(TurnStarted(1, ""))
    printer.tick()
    assert "loading the model…" in screen.tail[0]
    printer.preparing("")
    printer.tick()
    assert "thinking…" in screen.tail[0]


def test_plain_text_says_once_what_a_model_does() -> None:
    out = io.StringIO()
    printer = EventPrinter(PlainScreen(out))
    printer.preparing("loading the model…")
    printer.tick()
    assert out.getvalue() == ""
    printer.handle(TurnStarted(1, ""))
    printer.tick()
    printer.tick()
    assert out.getvalue().count("loading the model…") == 1
