"""One call as the person sees it: a live row while it runs, and when it is over a row that stays.

Its state is told by a symbol and by words; where symbols may not be seen, by words alone.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from ferrule.agent.calling import CALLING
from ferrule.cli.attachment_words import attachment_words
from ferrule.cli.chatting.text_rows import cut, kept, one_line, visible, wrapped
from ferrule.cli.words import _, localised
from ferrule.core.errors import ErrorKind
from ferrule.process.output import StreamCleaner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.agent.agent_events import CallAsked
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.call import RawCall
    from ferrule.core.events import Partial, Progress
    from ferrule.core.result import ToolResult


# What a call is about, in a few words: the tool and the one argument that tells it from others.


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
    arguments = arguments_of(call)
    telling = next((str(arguments[key]) for key in _TELLING if isinstance(arguments.get(key), str)), None)
    if telling is None:
        telling = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    words = one_line(f"{call.name} {telling}"[: _MOST * 4])
    return words if len(words) <= _MOST else f"{words[:_MOST]}…"


# What each tool is doing and what came of it, in the person's language («reading…», «found 12 files»; M2).


Data = dict[str, Any]


def doing(tool: str, said: str = "") -> str:
    """While it runs; of a tool that is not ours, what it says of itself, if that is more than its name."""
    if said == CALLING.format(tool=tool):
        said = ""
    return _doing().get(tool) or (f"{one_line(said)}…" if said else _("working…"))


def outcome(result: ToolResult) -> str:
    """Of a call that went well; a tool of someone else's says it in its own words."""
    words = _OUTCOMES.get(result.tool)
    data = result.data
    if words is not None and isinstance(data, dict):
        said = words({**cast("Data", data), **{f"meta_{key}": value for key, value in result.metadata.items()}})
        if said:
            return said
    return one_line(result.display_content.split("\n")[0])[:200] or _("done")


def _doing() -> Mapping[str, str]:
    reading, searching, running = _("reading…"), _("searching…"), _("running…")
    listing, writing, looking = _("listing…"), _("writing…"), _("looking for files…")
    return {
        "Read": reading, "readFile": reading, "Write": writing, "Edit": _("editing…"), "MultiEdit": _("editing…"),
        "Glob": looking, "searchFiles": looking, "Grep": searching, "FileSearch": searching,
        "listFiles": listing, "LS": listing,
        "Bash": running, "executeCommand": running, "BashInput": _("typing…"), "BashOutput": _("reading output…"),
        "KillShell": _("stopping…"), "Task": _("working on it…"),
    }  # fmt: skip


def counted(number: object, one: str, many: str) -> str:
    """`1 line`, `1,200 lines`."""
    return one if number == 1 else many.format(n=f"{number:,}" if isinstance(number, int) else number)


def _read(data: Data) -> str:
    if "lines_read" in data and data.get("encoding", "") is not None:  # which a binary file has none of
        if data.get("media_type") == "application/x-ipynb+json":
            return counted(data["lines_read"], _("read 1 cell"), _("read {n} cells"))
        said = counted(data["lines_read"], _("read 1 line"), _("read {n} lines"))
        total = data.get("total_lines")
        return said + (_(" of {n}").format(n=f"{total:,}") if data.get("has_more") and total else "")
    return counted(data["size"], _("read 1 byte"), _("read {n} bytes")) if "size" in data else ""


def _written(data: Data) -> str:
    lines = counted(data.get("line_count", 0), _("1 line"), _("{n} lines"))
    return (_("overwritten, {lines}") if data.get("is_overwrite") else _("created, {lines}")).format(lines=lines)


def _edited(data: Data) -> str:
    return _("edited (+{added} −{removed})").format(added=data.get("added", 0), removed=data.get("removed", 0))


def _files(data: Data) -> str:
    count = data.get("count")
    return counted(count, _("found 1 file"), _("found {n} files")) if isinstance(count, int) else ""


def _matches(data: Data) -> str:
    files = data.get("total_files")
    if not isinstance(files, int):
        return ""
    if not files:
        return _("found nothing")
    matches = data.get("total_matches", data.get("matches"))
    if not isinstance(matches, int):
        return counted(files, _("found 1 file"), _("found {n} files"))
    return counted(matches, _("found 1 match"), _("found {n} matches")) + counted(
        files, _(" in 1 file"), _(" in {n} files")
    )


def _replaced(data: Data) -> str:
    if data.get("applied") is None:
        return _matches(data)
    many = counted(data.get("matches", 0), _("1 place"), _("{n} places"))
    in_files = counted(data.get("total_files", 0), _(" in 1 file"), _(" in {n} files"))
    if data["applied"]:
        return _("replaced {where}").format(where=many + in_files)
    return _("would replace {where}").format(where=many + in_files) if data.get("total_files") else _("found nothing")


def _ran(data: Data) -> str:
    if data.get("shell_id"):
        goes_on = _("goes on as {id}") if data.get("timed_out") else _("started as {id}")
        return goes_on.format(id=data["shell_id"])
    if data.get("waiting_for_input") is not None:
        return _("waits for input")
    code = data.get("exit_code", data.get("exitCode"))
    if code is None:
        return _("done")
    said = _("done") if code == 0 else _("ended with code {code}").format(code=code)
    changed = data.get("meta_changed")
    return said + (counted(changed, _(", changed 1 file"), _(", changed {n} files")) if changed else "")


def _shell(data: Data) -> str:
    return one_line(f"{data.get('shell_id', '')}: {_(str(data.get('status', '')))}")


def _listed(data: Data) -> str:
    entries = data.get("entries")
    total = len(cast("list[Any]", entries)) if isinstance(entries, list) else data.get("total")
    return counted(total, _("found 1 entry"), _("found {n} entries")) if isinstance(total, int) else ""


_OUTCOMES: Mapping[str, Callable[[Data], str]] = {
    "Read": _read, "readFile": _read, "Write": _written, "Edit": _edited, "MultiEdit": _edited,
    "Glob": _files, "searchFiles": _files, "Grep": _matches, "FileSearch": _replaced,
    "listFiles": _listed, "LS": _listed,
    "Bash": _ran, "executeCommand": _ran, "BashInput": _ran, "BashOutput": _shell, "KillShell": _shell,
}  # fmt: skip


# What a running command writes, kept small: its first lines, its last lines, and how many there were.


_FIRST = 4
_LAST = 6
_LONGEST = 2000


class OutputTail:
    """Takes output in pieces, escape sequences and all, and gives safe lines."""

    def __init__(self) -> None:
        self._cleaner = StreamCleaner()
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_LAST)
        self._line = ""
        self._count = 0
        self.dropped = 0

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
