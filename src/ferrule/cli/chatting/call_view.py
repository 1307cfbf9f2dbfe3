"""One call as the person sees it: a live row while it runs, and when it is over a row that stays.

Its state is told by a symbol and by words; where symbols may not be seen, by words alone.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from ferrule.agent.agent_events import CALLING, TODO
from ferrule.cli.chatting.screen import cut, kept, wrapped
from ferrule.cli.output import attachment_words
from ferrule.cli.words import _, localised
from ferrule.core.errors import ErrorKind
from ferrule.core.shown_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.agent.agent_events import CallAsked
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.call import RawCall
    from ferrule.core.events import PartialOutput, Progress
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool


# The first of these that a call has is what a person knows it by.
_TELLING = (
    "command", "file_path", "filePath", "pattern", "directoryPath", "shell_id", "path", "description", "url", "query",
    "prompt", "name",
)  # fmt: skip
_MOST = 200


def arguments_of(call: RawCall) -> dict[str, Any]:
    """The arguments as far as they can be read; a call that cannot be read at all has none."""
    given = call.arguments
    if isinstance(given, (str, bytes)):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def label(call: RawCall) -> str:
    """`Read src/a.py`, `Bash npm test`: safe to show, on one line."""
    arguments = arguments_of(call) if call.name != TODO else {}  # its steps are shown below it
    telling = next((str(arguments[key]) for key in _TELLING if isinstance(arguments.get(key), str)), None)
    if telling is None:
        telling = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return one_line(f"{call.name} {telling}", _MOST)


_TODO = {"completed": ("☒", "[x]"), "in_progress": ("▸", "[~]"), "pending": ("☐", "[ ]")}


def todo_rows(todos: Sequence[Mapping[str, Any]], screen: Screen) -> list[str]:
    """The model's list of steps, a row or more for each."""
    rows: list[str] = []
    for one in todos:
        mark = _TODO[one["status"]][not screen.live]
        found = wrapped(f"{mark} {one_line(one['content'])}", screen.width, _INDENT, _INDENT + "  ")
        style = {"completed": "faint", "in_progress": "strong"}.get(one["status"])
        rows += [screen.paint(style, row) if style else row for row in found]
    return rows


def doing(asked: CallAsked) -> str:
    """What a call does, as its tool words it and in the user's language: reading `src/a.py`."""
    return one_line(_(asked.pattern).format(**asked.values) if asked.pattern else asked.doing)


def outcome(result: ToolResult) -> str:
    """What came of a call that went well, as its tool words it and in the user's language."""
    return one_line(localised(result.display_content).split("\n")[0], 200) or _("done")


def shows_output(tool: Tool[Any] | None) -> bool:
    """Whether what a tool streams is for the user. What a search streams is its result again, and for the model."""
    return tool is None or "search" not in tool.tags


def counted(number: int, one: str, many: str) -> str:
    """`1 line`, `1,200 lines`."""
    return one if number == 1 else many.format(n=f"{number:,}")


# What a running command writes, kept small: its first lines, its last lines, and how many there were.


_FIRST = 4
_LAST = 6
_LONGEST = 2000


class OutputTail:
    """Takes output in pieces, escape sequences and all, and gives safe lines."""

    def __init__(self) -> None:
        from ferrule.process.output import StreamCleaner

        self._cleaner = StreamCleaner()
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_LAST)
        self._line = ""
        self._count = 0

    @property
    def is_empty(self) -> bool:
        return not self._count and not self._line

    def feed(self, text: str) -> None:
        *lines, self._line = (self._line + self._cleaner.feed(text)).split("\n")
        for line in lines:
            self._add(line)
        if len(self._line) > _LONGEST:  # a line without end is no reason to keep all of it
            self._line = self._line[-_LONGEST:]

    def _add(self, line: str) -> None:
        self._count += 1
        kept = visible(line[:_LONGEST]).rstrip()
        if len(self._first) < _FIRST:
            self._first.append(kept)
        else:
            self._last.append(kept)

    def live(self, most: int) -> list[str]:
        """The last lines, the unfinished one too."""
        lines = [*self._first, *self._last, *([visible(self._line)] if self._line.strip() else [])]
        return lines[-most:] if most > 0 else []

    def whole(self) -> tuple[list[str], int, list[str]]:
        """When it is over: the first lines, how many were left out after them, and the last ones."""
        self._line += self._cleaner.rest()
        if self._line:
            self._add(self._line)
            self._line = ""
        return list(self._first), self._count - len(self._first) - len(self._last), list(self._last)


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LIVE_LINES = 4
_DIFF_LINES = 40
_INDENT = "    "


class CallView:
    """A call from the moment the model asks for it. Without `shows_output`, what it streams is not shown."""

    def __init__(self, asked: CallAsked, now: float, *, shows_output: bool = True) -> None:
        self.label = label(asked.call)
        self.began = now
        self.told = False
        """Whether it was said that it runs, where there is no live row to say so."""
        self.shown_diff = False
        self.refused_because: str | None = None
        # That it is called goes without saying: then the label, which has its arguments, tells more.
        self._doing = (asked.pattern != CALLING and doing(asked)) or self.label
        self._shows_output = shows_output
        self._output = OutputTail()
        self._progress = ""

    def partial(self, event: PartialOutput) -> None:
        if self._shows_output and isinstance(event.content, str):
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
        state = f"{self._progress}{took}"
        words = f"{SPINNER[frame % len(SPINNER)]} {self._doing}…"
        row = cut(words, max(8, screen.width - cells(state))) + state
        paint = screen.paint
        lines = [paint("faint", cut(f"{_INDENT}{line}", screen.width)) for line in self._output.live(_LIVE_LINES)]
        return [paint("warned", cut(row, screen.width)), *lines]

    def running_row(self) -> str:
        """What is said once of a call that takes long, where there is no live row."""
        return "[" + _("running") + f"] {self._doing}…"

    def final_rows(self, result: ToolResult, now: float, screen: Screen) -> list[str]:
        """What stays: how it ended, how long it took, and a little of what it wrote or changed."""
        symbol, word, style, said = self._ending(result)
        took = f"({now - self.began:.1f} s)"
        head = f"{symbol} {self.label}" if screen.live else f"[{word}] {self.label}"
        text = f"{head} — {said} {took}" if said else f"{head} {took}"
        rows = wrapped(text, screen.width, "", "  ") if screen.live else [text]
        rows = [screen.paint(style, rows[0][:1]) + rows[0][1:], *rows[1:]]
        attached = [f"{_INDENT}{words}" for words in attachment_words(result.attachments)]
        attached = [screen.paint("faint", cut(row, screen.width) if screen.live else row) for row in attached]
        diff = result.metadata.get("diff")
        changed = diff_rows(diff, screen, _DIFF_LINES) if isinstance(diff, str) and diff and not self.shown_diff else []
        todos = todo_rows(_data(result)["todos"], screen) if result.success and result.tool == TODO else []
        return [*rows, *todos, *self._output_rows(result, screen), *changed, *attached]

    def _ending(self, result: ToolResult) -> tuple[str, str, str, str]:
        error = result.error
        if error is None and result.success:
            return "✓", _("done"), "good", outcome(result)
        why = one_line(localised(result.display_content or (error.message if error is not None else "")))
        if result.metadata.get("exit_code"):
            return "✗", _("ended"), "bad", why
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
        if self._output.is_empty and isinstance(output := _data(result).get("output"), str):
            self._output.feed(output)  # what it did not stream
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
    first, *rest = kept(line, screen.width - len(_INDENT))
    style = {"+": "good", "-": "bad"}.get(line[:1])  # the later rows have the line's colour, whatever they begin with
    later = [screen.paint(style, row) if style else row for row in rest]
    return [_INDENT + row for row in (screen.paint.diff_line(first), *later)]
