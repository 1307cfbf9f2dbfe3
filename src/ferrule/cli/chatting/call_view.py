"""One call as the person sees it: a live row while it runs, and when it is over a row that stays.

Its state is told by a symbol and by words; where symbols may not be seen, by words alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.cli.attachment_words import attachment_words
from ferrule.cli.chatting.call_labels import label
from ferrule.cli.chatting.call_words import counted, doing, outcome
from ferrule.cli.chatting.output_tail import OutputTail
from ferrule.cli.chatting.text_rows import cut, kept, wrapped
from ferrule.cli.chatting.visible_text import one_line, visible
from ferrule.cli.words import _, localised
from ferrule.core.errors import ErrorKind

if TYPE_CHECKING:
    from ferrule.agent.agent_events import CallAsked
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.events import Partial, Progress
    from ferrule.core.result import ToolResult

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LIVE_LINES = 4
_DIFF_LINES = 40
_INDENT = "    "
# What these stream is their result again; the row says how much it was.
_SILENT = ("Grep", "Glob", "FileSearch", "searchFiles", "Task")


class CallView:
    """A call from the moment the model asks for it."""

    def __init__(self, asked: CallAsked, now: float) -> None:
        self.label = label(asked.call)
        self.began = now
        self.told = False
        """Whether it was said that it runs, where there is no live row to say so."""
        self.shown_diff = False
        self.refused_because: str | None = None
        self._tool = asked.call.name
        self._doing = doing(self._tool, asked.doing)
        self._output = OutputTail()
        self._progress = ""

    def partial(self, event: Partial) -> None:
        if self._tool not in _SILENT and isinstance(event.content, str):
            self._output.feed(event.content)

    def progress(self, event: Progress) -> None:
        said = one_line(event.message)
        if event.total:
            self._progress = f" {event.done:,g}/{event.total:,g} {said}".rstrip()
        else:
            self._progress = f" {event.done:,g} {said}".rstrip() if event.done else said and f" {said}"

    def live_rows(self, now: float, frame: int, screen: Screen) -> list[str]:
        """The row while it runs, and the last lines of what it wrote."""
        from wcwidth import width as cells

        seconds = now - self.began
        took = f" ({seconds:.0f} s)" if seconds >= 1 else ""
        state = f" — {self._doing}{self._progress}{took}"
        room = max(8, screen.width - cells(state) - 2)
        row = f"{SPINNER[frame % len(SPINNER)]} {cut(self.label, room)}{state}"
        paint = screen.paint
        lines = [paint("faint", cut(f"{_INDENT}{line}", screen.width)) for line in self._output.live(_LIVE_LINES)]
        return [paint("warned", cut(row, screen.width)), *lines]

    def running_row(self) -> str:
        """What is said once of a call that takes long, where there is no live row."""
        return f"[{_('running')}] {self.label} — {self._doing}"

    def final_rows(self, result: ToolResult, now: float, screen: Screen) -> list[str]:
        """What stays: how it ended, how long it took, and a little of what it wrote or changed."""
        symbol, word, style, said = self._ending(result)
        took = f"({now - self.began:.1f} s)"
        head = f"{symbol} {self.label}" if screen.live else f"[{word}] {self.label}"
        text = f"{head} — {said} {took}" if said else f"{head} {took}"
        rows = wrapped(text, screen.width, "", "  ") if screen.live else [text]
        rows = [screen.paint(style, rows[0][:1]) + rows[0][1:], *rows[1:]]
        attached = [screen.paint("faint", row) for row in self._attached_rows(result, screen)]
        return [*rows, *self._output_rows(result, screen), *self._diff_rows(result, screen), *attached]

    def _ending(self, result: ToolResult) -> tuple[str, str, str, str]:
        error = result.error
        if error is None and result.success:
            code, said = _data(result).get("exit_code"), outcome(result)
            return ("✓", _("done"), "good", said) if not code else ("✗", _("ended"), "bad", said)
        why = one_line(localised(error.message if error is not None else result.display_content))
        kind = error.kind if error is not None else ErrorKind.UNKNOWN
        if self.refused_because is not None:
            why = self.refused_because
            said = _("refused by you: {why}").format(why=why) if why else _("refused by you")
            return "⊘", _("refused"), "warned", said
        if kind is ErrorKind.PERMISSION:
            return "⊘", _("refused"), "warned", _("refused: {why}").format(why=why)
        if kind is ErrorKind.CANCELLED:
            return "⊘", _("stopped"), "warned", _("stopped")
        return "✗", _("failed"), "bad", _("failed: {why}").format(why=why)

    def _output_rows(self, result: ToolResult, screen: Screen) -> list[str]:
        first, left_out, last = self._output.whole()
        if not first and result.tool == "BashOutput":
            self._output.feed(str(_data(result).get("output", "")))
            first, left_out, last = self._output.whole()
        while last and not last[-1]:
            last.pop()
        more = [counted(left_out, _("… 1 more line"), _("… {n} more lines"))] if left_out > 0 else []
        lines = [*first, *more, *last]
        rows = [row for line in lines for row in self._bounded(line, screen)]
        return [screen.paint("faint", row) for row in rows]

    def _bounded(self, line: str, screen: Screen) -> list[str]:
        if not screen.live:
            return [f"{_INDENT}{line}".rstrip()]
        rows = kept(line, screen.width, _INDENT)
        return rows if len(rows) <= 3 else [*rows[:2], f"{_INDENT}…"]

    def _attached_rows(self, result: ToolResult, screen: Screen) -> list[str]:
        rows = [f"{_INDENT}{words}" for words in attachment_words(result.attachments)]
        return [cut(row, screen.width) for row in rows] if screen.live else rows

    def _diff_rows(self, result: ToolResult, screen: Screen) -> list[str]:
        diff = result.metadata.get("diff")
        if self.shown_diff or not isinstance(diff, str) or not diff or result.tool == "FileSearch":
            return []
        return diff_rows(diff, screen, _DIFF_LINES)


def _data(result: ToolResult) -> dict[str, Any]:
    data: Any = result.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def diff_rows(diff: str, screen: Screen, most: int) -> list[str]:
    """A unified diff, indented and coloured, of at most so many lines."""
    lines = visible(diff).rstrip("\n").split("\n")
    rows = [row for line in lines[:most] for row in _diff_line(line, screen)]
    if len(lines) > most:
        rows.append(_INDENT + counted(len(lines) - most, _("… 1 more line"), _("… {n} more lines")))
    return rows


def _diff_line(line: str, screen: Screen) -> list[str]:
    if not screen.live:
        return [f"{_INDENT}{line}"]
    paint = screen.paint
    return [_INDENT + paint.diff_line(row) if at == 0 else _INDENT + _continued(paint, line, row)
            for at, row in enumerate(kept(line, screen.width - len(_INDENT)))]  # fmt: skip


def _continued(paint: Any, line: str, row: str) -> str:
    """A long line's later rows have its colour, whatever they begin with."""
    style = {"+": "good", "-": "bad"}.get(line[:1])
    return paint(style, row) if style else row
