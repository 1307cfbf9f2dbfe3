"""What a command writes. Nothing in it can drive a terminal, hide or turn the text; a pipe gets a result as it is.

`own_stdout` keeps standard output for the command alone: whatever a tool, its children, a C library or a plugin print
goes to standard error from then on. With `--json` standard output holds one document, also when something goes wrong,
and with `--stream-json` lines of JSON alone.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from ferrule.cli.words import _
from ferrule.core.files import write_all
from ferrule.core.shown_text import columns, cut_columns, one_line, shown_row, visible, visible_json
from ferrule.core.standard_streams import take_stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from ferrule.core.result import Attachment

_clear_row: Callable[[], None] | None = None


def clear_before_writing(clear: Callable[[], None] | None) -> None:
    """What takes a row away that stands at the end of the terminal for a while, so that no line is written into it."""
    global _clear_row
    _clear_row = clear


class _OwnOutput:
    """Standard output after it was taken away from everybody else. Nothing is buffered, so nothing is left behind."""

    def __init__(self, descriptor: int, encoding: str, errors: str) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._errors = errors

    @property
    def encoding(self) -> str:
        return self._encoding

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> None:
        self.write_bytes(text.encode(self._encoding, self._errors))

    def write_bytes(self, data: bytes) -> None:
        write_all(self._descriptor, data)

    def flush(self) -> None:
        """There is nothing to flush."""


_own: _OwnOutput | None = None


def at_a_terminal() -> bool:
    """A confirmation is never taken from a pipe: whoever fills it is not the person. A closed one is None."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def own_stdout() -> None:
    """Keep standard output for this command: what others print goes to standard error. To be called before a plugin is
    imported, which may print.
    """
    global _own
    stream = sys.stdout
    if _own is not None or not _is_descriptor_1(stream):
        return
    stream.flush()
    _own = _OwnOutput(take_stdout(), stream.encoding, stream.errors or "strict")
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)  # as standard error is


def _is_descriptor_1(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 1
    except (OSError, ValueError):  # something that stands in for it
        return False


def terminal_columns() -> int | None:
    """How wide the terminal behind standard output is; None where there is none."""
    stream = _own or sys.stdout
    if not stream.isatty():
        return None
    import shutil

    columns = os.environ.get("COLUMNS", "")
    if (columns.isdecimal() and int(columns)) or _own is None:
        return shutil.get_terminal_size().columns
    try:
        return os.get_terminal_size(_own.fileno()).columns
    except OSError:
        return shutil.get_terminal_size().columns


def write_styled(text: str) -> None:
    """A line of our own with colours, which only a terminal gets; what others wrote in it went through `visible`."""
    click.echo(text, file=cast("Any", _own or sys.stdout))


def write(text: str, *, err: bool = False, end: str = "\n", exact: bool = False) -> None:
    """A line of output, whatever others wrote in it. With `exact`, for a result, a pipe gets the text unchanged."""
    stream = sys.stderr if err else _own or sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is None when the caller closed it
        return
    if _clear_row is not None:
        _clear_row()
    stream.write((text if exact and not stream.isatty() else visible(text)) + end)
    stream.flush()


def write_past_buffers(text: str) -> None:
    """A line of standard error from a thread that may wait for its reader for ever, and then holds no lock."""
    stream = sys.stderr
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is None when the caller closed it
        return
    line = f"{visible(text)}\n"
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # no file at all
        stream.write(line)
    else:
        _OwnOutput(descriptor, stream.encoding, stream.errors or "strict").write(line)


@dataclass
class _Promise:
    """Whether the caller was promised JSON, and whether they have all of it."""

    given: bool = False
    lines: bool = False
    kept: bool = False


_promise = _Promise()


def promise_json(*, lines: bool = False) -> None:
    """From now on standard output gets one document, or lines of JSON alone; how the command fails is one of them."""
    _promise.given = True
    _promise.lines = _promise.lines or lines


def document_promised() -> bool:
    return _promise.given and not _promise.lines


def write_json(document: Any) -> None:
    """The document. What could steer or deceive is written as JSON's own escapes, and means the same."""
    _promise.kept = True  # half a document is not mended by another one
    _write_json_text(_json_text(document, indent=2))


def write_json_line(form: Any, *, last: bool = False) -> None:
    """One of many; `last` after which nothing is missing any more."""
    _promise.kept = _promise.kept or last
    _write_json_text(_json_text(form))


def write_json_error(kind: str, message: str, suggestion: str | None = None) -> bool:
    """Why there is no other document; False where none was promised, or there is one already."""
    if not _promise.given or _promise.kept:
        return False
    error = {"type": kind, "message": message, "details": None, "suggestion": suggestion}
    if _promise.lines:
        write_json_line({"type": "error", "error": error}, last=True)
    else:
        write_json({"error": error})
    return True


def _json_text(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=str)
    except ValueError:  # a number that JSON has no form for
        from ferrule.core.result import finite

        return json.dumps(finite(value), ensure_ascii=False, indent=indent, default=str)


def _write_json_text(text: str) -> None:
    stream = _own or sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - as above
        return
    if _clear_row is not None:
        _clear_row()
    text = visible_json(text)
    if stream.isatty() and stream.encoding.lower().replace("-", "") != "utf8":
        text = re.sub(r"[^ -~\n]", lambda found: json.dumps(found[0])[1:-1], text)
    data = f"{text}\n".encode()
    if isinstance(stream, _OwnOutput):
        stream.write_bytes(data)
    else:
        stream.flush()
        stream.buffer.write(data)
        stream.flush()


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout. On a terminal the last column is cut to fit; in a pipe it is whole."""
    table = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(headers, *table, strict=True)]
    room = terminal_columns()
    for number, row in enumerate([list(headers), *table]):
        *first, last = row
        line = "".join(cell + " " * (widths[column] - columns(cell) + 2) for column, cell in enumerate(first))
        if room is not None:
            last = cut_columns(last, max(8, room - columns(line)))
        text = (line + last).rstrip()
        write_styled(text if number else click.style(text, bold=True))


def show_list(
    documents: Sequence[Any], as_json: bool, nothing: str, headers: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """What a command lists: one JSON document, a table, or on standard error that there is nothing."""
    if as_json:
        write_json(documents)
    elif not documents:
        click.echo(nothing, err=True)
    else:
        print_table(headers, list(rows))


# What the library logs, on standard error as the command's own words are: safe for a terminal.


_held: list[str] | None = None


def show_log_lines() -> None:
    """In place of Python's own last resort, and like it for warnings alone and only where nobody else listens."""
    import logging

    class LogLines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if _held is not None:
                _held.append(self.format(record))
                return
            with suppress(OSError, ValueError):  # standard error is closed
                write(self.format(record), err=True, exact=True)

    logging.lastResort = LogLines(logging.WARNING)
    logging.getLogger("ferrule.crashes").addHandler(logging.NullHandler())  # the call has its error on the screen


@contextmanager
def log_lines_held() -> Generator[None]:
    """Show what is logged in here when it is over, and not in the middle of a question."""
    global _held
    if _held is not None:
        yield
        return
    held: list[str] = []
    _held = held
    try:
        yield
    finally:
        _held = None
        for line in held:
            with suppress(OSError, ValueError):
                write(line, err=True, exact=True)


# What a result holds besides its text, one line for each: an image, a sound, a file, or a link to one.


_MOST_ATTACHMENTS = 20
_LONGEST_PART = 200


def attachment_words(attachments: Sequence[Attachment]) -> list[str]:
    """Lines that are safe to show, whatever a server wrote into them: kind, MIME type, size, name and address."""
    lines = [_("Attached: {what}").format(what=_attachment(one)) for one in attachments[:_MOST_ATTACHMENTS]]
    if (more := len(attachments) - _MOST_ATTACHMENTS) > 0:
        lines.append(_("Attached: {count} more").format(count=f"{more:,}"))
    return lines


def _attachment(one: Attachment) -> str:
    media_type, name, uri = (
        shown_row(" ".join((text or "").split()), _LONGEST_PART) for text in (one.media_type, one.name, one.uri)
    )
    kind = _("link")
    if one.data is not None:
        kinds = {"image": _("image"), "audio": _("audio"), "video": _("video"), "text": _("text")}
        kind = kinds.get(one.media_type.partition("/")[0], _("file"))
    told = (one.details or {}).get("size")
    size = len(one.data) if one.data is not None else told if isinstance(told, int) else None
    sized = "" if size is None else _("1 byte") if size == 1 else _("{n} bytes").format(n=f"{size:,}")
    return ", ".join(part for part in (kind, media_type, sized, name, f"<{uri}>" if uri else "") if part)
