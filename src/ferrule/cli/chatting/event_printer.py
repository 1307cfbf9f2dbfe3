"""Turns the agent's events into what the person sees: finished rows, and a tail of what is going on now."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.agent.agent_events import (
    AgentNotice,
    Answered,
    CallAsked,
    Compacted,
    Ending,
    Steered,
    TurnEnded,
    TurnStarted,
)
from ferrule.cli.chatting.answer_lines import AnswerLines
from ferrule.cli.chatting.call_view import SPINNER, CallView, counted
from ferrule.cli.chatting.screen import cut, wrapped
from ferrule.cli.words import _, localised, why_ended
from ferrule.core.events import Done, PartialOutput, Progress
from ferrule.core.model import Preparing, Retrying, TextDelta, ThinkingDelta
from ferrule.core.shown_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.model import Usage


def usage_words(usage: Usage) -> str:
    """`1,200 tokens read (900 from the cache), 56 written, $0.0031`; nothing where nothing was counted."""
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    read = _("{n} tokens read").format(n=f"{usage.input_tokens:,}")
    if usage.cache_read_tokens:
        read += _(" ({n} from the cache)").format(n=f"{usage.cache_read_tokens:,}")
    written = _("{n} written").format(n=f"{usage.output_tokens:,}")
    cost = [money(usage.cost)] if usage.cost is not None else []
    return _(", ").join([read, written, *cost])


def money(dollars: float) -> str:
    """As many digits as tell something."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


_LONG = 2.0
"""Seconds after which a plain screen says that a call still runs."""
_PATIENCE = 0.3
_MOST_QUEUED = 4
_THINKING_ROWS = 3


class EventPrinter:
    """What is shown of one conversation. `tick` draws the tail; it costs nothing while nothing changes."""

    def __init__(
        self,
        screen: Screen,
        now: Callable[[], float] = monotonic,
        *,
        shows_output: Callable[[str], bool] = lambda _tool: True,
    ) -> None:
        self._screen = screen
        self._now = now
        self._shows_output = shows_output
        self._answer = AnswerLines(screen.paint, styled=screen.live)
        self._calls: dict[str, CallView] = {}
        self._kept_back: list[AgentEvent | list[str]] | None = None
        self._frame = 0
        self._waiting_since: float | None = None
        self._before = ""
        """What kind of rows came last; a blank row stands between two kinds."""
        self._heard: set[str] = set()
        self._news = asyncio.Event()
        self.queued: Sequence[str] = ()
        """What the user said while the agent worked and the model has not read yet."""
        self.own_commands: dict[str, float] = {}
        """The commands that the user runs themselves, and when each began."""
        self._thinking = ""
        self._thinking_since = 0.0
        self._folded = ""
        """What the model thought last; only that it did is shown until somebody asks."""
        self._preparing = ""
        self._told_preparing = ""

    def preparing(self, words: str) -> None:
        """What the model does before it can be asked; no words once it is ready. Shown only to whoever waits for it."""
        self._preparing = words

    def output(self, rows: list[str]) -> None:
        """Rows of a command that the user runs themselves."""
        if self._kept_back is not None:
            self._kept_back.append(rows)
        else:
            self._put("output", rows)

    def handle(self, event: AgentEvent) -> None:
        """Show an event; while a question is open, once that is answered."""
        if self._kept_back is not None:
            self._kept_back.append(event)
            return
        if isinstance(event, ThinkingDelta):
            if not self._thinking:
                self._thinking_since = self._now()
            self._thinking += event.text
            return
        self._fold()
        if isinstance(event, TextDelta):
            self._say(self._answer.feed(event.text, self._screen.width))
        elif isinstance(event, Answered):
            self._say(self._answer.end(self._screen.width))
        elif isinstance(event, TurnStarted):
            self._waiting_since, self._before = self._now(), "person"
        elif isinstance(event, CallAsked):
            self._say(self._answer.end(self._screen.width))
            self._calls[event.call.id] = CallView(event, self._now(), shows_output=self._shows_output(event.call.name))
            self._heard.add(event.call.id)
            self._news.set()
        elif isinstance(event, PartialOutput):
            if view := self._calls.get(event.call_id):
                view.partial(event)
        elif isinstance(event, Progress):
            if view := self._calls.get(event.call_id):
                view.progress(event)
        elif isinstance(event, Done):
            self._done(event)
        else:
            self._other(event)

    # What the model thinks before it answers

    def _fold(self) -> None:
        """It answers now: of its thoughts one row stays."""
        text, self._thinking = self._thinking.strip(), ""
        if not text:
            return
        self._folded = text
        seconds = f"{self._now() - self._thinking_since:.0f}"
        count = counted(len(text.split("\n")), _("1 line"), _("{n} lines"))
        words, key = (
            _("∴ Thought for {seconds} s ({lines}).").format(seconds=seconds, lines=count),
            _("Ctrl-O shows it."),
        )
        row = _("{said} {key}").format(said=words, key=key) if self._screen.live else words
        rows = wrapped(row, self._screen.width, "", "  ")
        self._put("thinking", [self._screen.paint("faint", one) for one in rows])

    def unfold(self) -> None:
        """Show all that the model thought last."""
        text = self._thinking.strip() or self._folded
        if not text:
            self.note(_("There is no reasoning to show."))
            return
        rows = [row for line in visible(text).split("\n") for row in wrapped(line, self._screen.width, "  ")]
        self._put("thoughts", [self._screen.paint("thought", row) for row in rows])

    def _done(self, event: Done) -> None:
        view = self._calls.pop(event.call_id, None)
        if view is None:
            return  # a call that another call made
        self._put("calls", view.final_rows(event.result, self._now(), self._screen))
        if not self._calls:
            self._waiting_since = self._now()
            self.draw()

    def _other(self, event: AgentEvent) -> None:
        if isinstance(event, Retrying):
            if event.restarted:
                self._thinking = ""
            if event.restarted and self._answer.drop():
                self.note(_("The answer broke off; it starts again."))
            seconds = f"{event.seconds:.0f}"
            self.note(_("{why} Retrying in {seconds} s.").format(why=localised(event.why), seconds=seconds))
        elif isinstance(event, Steered):
            self.note(f"» {event.text}", "strong")
        elif isinstance(event, Compacted):
            self.note(
                _("Earlier messages were summarised: about {before} tokens are now {after}.").format(
                    before=f"{event.before_tokens:,}", after=f"{event.after_tokens:,}"
                )
            )
        elif isinstance(event, AgentNotice | Preparing):
            self.note(localised(event.text))
        elif isinstance(event, TurnEnded):
            self._ended(event)

    def _ended(self, event: TurnEnded) -> None:
        self._say(self._answer.end(self._screen.width))
        self._calls.clear()
        self._waiting_since = None
        words = {
            Ending.INTERRUPTED: _("Stopped."),
            Ending.LIMIT: _("Stopped at a limit."),
            Ending.LOOP: _("Stopped, because it kept repeating itself."),
            Ending.DENIED: _("Stopped by a hook."),
            Ending.FAILED: _("It failed."),
            Ending.PAUSED: _("Paused."),
        }.get(event.ending)
        if words is not None:
            said = f"{words} {why_ended(event)}".rstrip()
            self.note(said, "bad" if event.ending is Ending.FAILED else "warned")
        if used := usage_words(event.usage):
            self._put(
                self._before, [self._screen.paint("faint", row) for row in wrapped(used, self._screen.width, "  ")]
            )
        self._heard.clear()
        self._screen.show(())

    def note(self, text: str, style: str = "faint") -> None:
        """A remark of ours, apart from the model's words."""
        rows = wrapped(visible(text), self._screen.width, "  ")
        self._put("note", [self._screen.paint(style, row) for row in rows])

    def _say(self, rows: list[str]) -> None:
        if rows:
            self._waiting_since = None
            self._put("words", rows)

    def _put(self, kind: str, rows: list[str]) -> None:
        apart = bool(self._before) and kind != self._before
        self._before = kind
        self._screen.show(self._tail())
        self._screen.write(["", *rows] if apart else rows)

    # The tail

    def tick(self) -> None:
        """Let time be seen to pass."""
        if self._kept_back is not None:
            return
        self._frame += 1
        if not self._screen.live:
            if self._waiting_since is not None and self._preparing not in ("", self._told_preparing):
                self._told_preparing = self._preparing
                self.note(self._preparing)
            for view in self._calls.values():
                if not view.told and self._now() - view.began > _LONG:
                    view.told = True
                    self._screen.write([view.running_row()])
        self.draw()

    def draw(self) -> None:
        """Show the tail as it is now."""
        if self._kept_back is None:
            self._screen.show(self._tail())

    def _tail(self) -> list[str]:
        screen, now = self._screen, self._now()
        if not screen.live:
            return []
        rows: list[str] = []
        if unfinished := self._answer.unfinished:
            rows += wrapped(unfinished, screen.width)[-max(3, screen.height // 2) :]
        for view in self._calls.values():
            rows += view.live_rows(now, self._frame, screen)
        if not rows and self._waiting_since is not None:
            passed = now - self._waiting_since
            took = f" ({passed:.0f} s)" if passed >= 1 else ""
            doing = one_line(self._preparing) or _("thinking…")
            rows.append(self._spinning(f"{doing}{took}"))
            thoughts = wrapped(visible(self._thinking.strip()), screen.width, "  ") if self._thinking.strip() else []
            rows += [screen.paint("thought", row) for row in thoughts[-_THINKING_ROWS:]]
        for command, began in self.own_commands.items():
            rows.append(self._spinning(f"! {one_line(command)} ({now - began:.0f} s)"))
        return [*rows, *self._queued_rows()]

    def _spinning(self, words: str) -> str:
        spin, stops = SPINNER[self._frame % len(SPINNER)], _("Esc stops it")
        return self._screen.paint("faint", cut(f"{spin} {words} {stops}", self._screen.width))

    def _queued_rows(self) -> list[str]:
        """What waits for the model to read it, and how to have it back."""
        from wcwidth import width as cells

        screen, rows = self._screen, list[str]()
        state = _(" (queued; Up edits it)") if screen.width >= 60 else _(" (queued)")
        for line in list(self.queued)[-_MOST_QUEUED:]:
            said = cut(f"» {one_line(line)}", max(8, screen.width - cells(state)))
            rows.append(said + screen.paint("faint", state))
        if (more := len(self.queued) - _MOST_QUEUED) > 0:
            rows.insert(0, screen.paint("faint", counted(more, _("… 1 more line"), _("… {n} more lines"))))
        return rows

    # While a question is open

    async def reached(self, call_id: str) -> None:
        """Wait until all that was said before a call is shown. A call that nobody announced is not waited for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while call_id not in self._heard:
                    self._news.clear()
                    await self._news.wait()

    @contextmanager
    def held(self, call_id: str) -> Generator[CallView | None]:
        """Take the tail away and keep events back, so that nothing stands between a question and its answer."""
        self._screen.show(())
        if self._before and self._before != "question":
            self._screen.write([""])
        self._before = "question"
        self._kept_back, began = [], self._now()
        try:
            yield self._calls.get(call_id)
        finally:
            events, self._kept_back = self._kept_back, None
            waited = self._now() - began
            for one in self._calls.values():
                one.began += waited  # the person's time is not the call's
            for event in events:
                self.output(event) if isinstance(event, list) else self.handle(event)
            self.draw()
