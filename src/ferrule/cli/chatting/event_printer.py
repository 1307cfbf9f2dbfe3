"""Turns the agent's events into what the person sees: finished rows, and a tail of what is going on now."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.agent.agent_events import Answered, CallAsked, Compacted, Ending, Noted, Steered, TurnEnded, TurnStarted
from ferrule.cli.chatting.answer_lines import AnswerLines
from ferrule.cli.chatting.call_view import SPINNER, CallView
from ferrule.cli.chatting.screen import cut, one_line, visible, wrapped
from ferrule.cli.words import _, localised
from ferrule.core.events import Done, Partial, Progress
from ferrule.core.model import Preparing, Retrying, TextDelta
from ferrule.core.phrases import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.model import Usage


# Tokens and money in a few words.


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
        self._kept_back: list[AgentEvent] | None = None
        self._frame = 0
        self._waiting_since: float | None = None
        self._before = ""
        """What kind of rows came last; a blank row stands between two kinds."""
        self._heard: set[str] = set()
        self._news = asyncio.Event()
        self.typed = ""
        """What the person is typing while the agent works."""
        self._preparing = ""
        self._told_preparing = ""

    def preparing(self, words: str) -> None:
        """What the model does before it can be asked; no words once it is ready. Shown only to whoever waits for it."""
        self._preparing = words

    def handle(self, event: AgentEvent) -> None:
        """Show an event; while a question is open, once that is answered."""
        if self._kept_back is not None:
            self._kept_back.append(event)
            return
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
        elif isinstance(event, Partial):
            if view := self._calls.get(event.call_id):
                view.partial(event)
        elif isinstance(event, Progress):
            if view := self._calls.get(event.call_id):
                view.progress(event)
        elif isinstance(event, Done):
            self._done(event)
        else:
            self._other(event)

    def _done(self, event: Done) -> None:
        view = self._calls.pop(event.call_id, None)
        if view is None:
            return  # a call that another call made
        self._put("calls", view.final_rows(event.result, self._now(), self._screen))
        if not self._calls:
            self._waiting_since = self._now()
            self._draw()

    def _other(self, event: AgentEvent) -> None:
        if isinstance(event, Retrying):
            self._retrying(event)
        elif isinstance(event, Steered):
            self.note(f"» {event.text}", "strong")
        elif isinstance(event, Compacted):
            self.note(
                _("Earlier messages were summarised: about {before} tokens are now {after}.").format(
                    before=f"{event.before_tokens:,}", after=f"{event.after_tokens:,}"
                )
            )
        elif isinstance(event, Noted | Preparing):
            self.note(localised(event.text))
        elif isinstance(event, TurnEnded):
            self._ended(event)

    def _retrying(self, event: Retrying) -> None:
        if event.restarted and self._answer.drop():
            self.note(_("The answer broke off; it starts again."))
        seconds = f"{event.seconds:.0f}"
        self.note(_("{why} Retrying in {seconds} s.").format(why=localised(event.why), seconds=seconds))

    def _ended(self, event: TurnEnded) -> None:
        self._say(self._answer.end(self._screen.width))
        self._calls.clear()
        self._waiting_since = None
        words = {
            Ending.INTERRUPTED: _("Stopped."),
            Ending.LIMIT: _("Stopped at a limit."),
            Ending.LOOP: _("Stopped, because it kept repeating itself."),
            Ending.FAILED: _("It failed."),
        }.get(event.ending)
        if words is not None:
            said = localised(joined(" ", [words, event.problem, event.suggestion]))
            self.note(said, "bad" if event.ending is Ending.FAILED else "warned")
        if counted := usage_words(event.usage):
            self._put(
                self._before, [self._screen.paint("faint", row) for row in wrapped(counted, self._screen.width, "  ")]
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
            self._say_what_takes_long()
        self._draw()

    def _draw(self) -> None:
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
            stops = _("Ctrl-C stops it")
            spin, doing = SPINNER[self._frame % len(SPINNER)], one_line(self._preparing) or _("thinking…")
            rows.append(screen.paint("faint", cut(f"{spin} {doing}{took} {stops}", screen.width)))
        if self.typed:
            rows.append(cut(f"» {one_line(self.typed)}", screen.width))
        return rows

    def _say_what_takes_long(self) -> None:
        if self._waiting_since is not None and self._preparing not in ("", self._told_preparing):
            self._told_preparing = self._preparing
            self.note(self._preparing)
        for view in self._calls.values():
            if not view.told and self._now() - view.began > _LONG:
                view.told = True
                self._screen.write([view.running_row()])

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
                self.handle(event)
            self._draw()
