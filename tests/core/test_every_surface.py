"""Whatever users and models look at hides the same characters, and cuts text in the same way."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule.acp_server.updates import code_content, plan_of
from ferrule.agent.todo_tool import Todo
from ferrule.cli.chatting.answer_lines import AnswerLines
from ferrule.cli.chatting.call_view import label, outcome
from ferrule.cli.chatting.editor_rows import typed_rows
from ferrule.cli.chatting.screen import Paint
from ferrule.cli.output import attachment_words, print_table, show_log_lines, write, write_json
from ferrule.cli.server_talk.form import one_row, theirs
from ferrule.core.call import RawCall
from ferrule.core.context import Session
from ferrule.core.description import Description
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.phrases import phrase
from ferrule.core.problems import show
from ferrule.core.result import Attachment, ToolResult
from ferrule.core.shown_text import (
    JOINERS,
    browser_pattern,
    columns,
    cut,
    cut_columns,
    cut_counted,
    flattened,
    head_and_tail,
    hidden_in,
    one_line,
    quoted,
    shown,
    shown_argument,
    shown_row,
    visible,
    well_formed,
    without_hidden,
)
from ferrule.mcp_client.failures import ServerLog
from ferrule.mcp_client.remote_tool import read_definition
from ferrule.mcp_server.asking import ShownQuestion, message_of
from ferrule.panel.words import shown_visibly, templates
from ferrule.pipeline.format import format_stopped, with_notes
from ferrule.records.telemetry import LogRecorder
from ferrule.toolbox.mail_message import readable
from ferrule.workspace import names

if TYPE_CHECKING:
    from collections.abc import Callable

# The characters that matter are rare among all; half of the text is made of them.
HIDDEN = (
    "\x00\x07\x08\x1b\x7f\x85\x9b\xad\u034f\u061c\u180e\u200b\u200e\u202e\u2028\u2060\u2066\ufeff\ufff9\U000e0041\ud800"
)
CHARACTERS = st.one_of(
    st.sampled_from(
        [*HIDDEN, *JOINERS, *"\r\n\t\ufe0f\ufe01", "[31m", "]0;", "a", " ", "é", "名", "👩", "e\u0301", "🇩"]
    ),
    st.characters(exclude_categories=()),
)
TEXTS = st.lists(CHARACTERS, max_size=30).map("".join)


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def printed(work: Callable[[], object], stream_type: type[io.TextIOWrapper] = io.TextIOWrapper) -> str:
    """What a command writes into a pipe, unless another kind of stream is named."""
    stream = stream_type(io.BytesIO(), encoding="utf-8", newline="")
    with redirect_stdout(stream), redirect_stderr(stream):
        work()
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def logged(text: str) -> str:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    logger = logging.getLogger("ferrule.calls")
    logger.addHandler(handler)
    try:
        LogRecorder().looked_up(RawCall(text, {}), Session(), found=False)
    finally:
        logger.removeHandler(handler)
    return lines.getvalue()


def log_line(text: str) -> str:
    before = logging.lastResort
    try:
        show_log_lines()
        assert logging.lastResort is not None
        record = logging.makeLogRecord({"msg": text.replace("%", ""), "levelno": logging.WARNING})
        return printed(
            lambda: logging.lastResort and logging.lastResort.emit(record), _Terminal
        )  # a pipe gets it as is
    finally:
        logging.lastResort = before


def answer(text: str) -> str:
    lines = AnswerLines(Paint(False), styled=True)
    return "\n".join([*lines.feed(text, 40), lines.unfinished, *lines.end(40)])


def mcp_words(text: str) -> str:
    schema = {"type": "object", "properties": {"default": {"type": "string", "description": text}}, "title": text}
    read = read_definition({"name": "t", "description": text, "inputSchema": schema, "annotations": {"title": text}})
    return json.dumps(read.payload, ensure_ascii=False)


SURFACES: dict[str, Callable[[str], str]] = {
    "a line of a command": lambda text: printed(lambda: write(text)),
    "an error of a command": lambda text: printed(lambda: write(text, err=True)),
    "a table of a command, as `ferrule tools`": lambda text: printed(lambda: print_table(["A", "B"], [[text, text]])),
    "JSON of a command": lambda text: printed(lambda: write_json({"text": text})),
    "attachments": lambda text: "\n".join(attachment_words([Attachment("x/y", name=text, uri=text)])),
    "a log line of the library": log_line,
    "the log of calls": logged,
    "the chat: an answer": answer,
    "the chat: a call": lambda text: label(RawCall("Bash", {"command": text})),
    "the chat: an outcome": lambda text: outcome(ToolResult("c", "t", True, "", text)),
    "the chat: what is typed": lambda text: "\n".join(typed_rows(text, 0, "> ", 40).rows),
    "a form of an MCP server": lambda text: "\n".join(line.words for line in theirs(text)),
    "a field of a form": one_row,
    "an approval over MCP": lambda text: message_of(ShownQuestion(text, text, text, text, text, text, (text,))),
    "a tool call in an editor": lambda text: code_content(text).content.text,
    "a plan in an editor": lambda text: plan_of([todo(well_formed(text))]).entries[0].content,
    "a page": lambda text: templates("en").from_string("{{ text }} {{ _('%(a)s', a=text) }}").render(text=text),
    "a page: a result": lambda text: templates("en").from_string("{{ text|json }}").render(text={"a": text}),
    "a page: an approval": shown_visibly,
    "an approval, the consent screen": shown,
    "an approval, on one row": shown_row,
    "a command to copy": shown_argument,
    "a description of a tool": lambda text: Description(text, text, (text,), (text,)).text,
    "a definition of an MCP server": mcp_words,
    "standard error of an MCP server": lambda text: server_error(text),
    "an error of a call": lambda text: stopped(text),
    "an error in another language": lambda text: stopped(phrase("no {what}", what=text)),
    "a note on a result": lambda text: with_notes(ToolResult("c", "t", True, "", ""), [text]).llm_content,
    "a value in an error": show,
    "a name of a file": names.one_line,
    "a header of a mail": readable,
    "text of others, on several lines": visible,
    "text of others, on one line": one_line,
    "prose of others, on one line": flattened,
    "text in quotes": quoted,
    "text without it": without_hidden,
}


def todo(text: str) -> Todo:
    return Todo(content=f"a{text}", status="pending")


def server_error(text: str) -> str:
    log = ServerLog()
    log.add(text.encode("utf-8", "replace"))
    return log.last_line


def stopped(text: str) -> str:
    result = format_stopped("c", "t", StoppedError(Stage.EXECUTE, ErrorKind.EXECUTION, text, text))
    assert result.error is not None
    shown = (result.llm_content, result.display_content, result.error.message, result.error.suggestion)
    return "\n".join(map(str, shown))


@pytest.mark.parametrize("surface", SURFACES)
@given(text=TEXTS)
@example(text="\ufe0f\ufe0f\u200c")  # the second variant is shown, and then the joiner joins nothing
def test_every_surface_hides_the_same_characters(surface: str, text: str) -> None:
    assert hidden_in(SURFACES[surface](text)) == []


@given(TEXTS)
def test_nothing_else_of_a_text_is_changed(text: str) -> None:
    plain = without_hidden(text)
    assert visible(plain) == plain
    assert visible(visible(text)) == visible(text)


def test_the_set_has_every_character_that_unicode_calls_invisible() -> None:
    """Kinds of Unicode: controls, format characters, halves of pairs, and line ends of no program's own."""
    known = {
        one
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(one := chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one not in f"\n\t{JOINERS}"
    }
    assert [f"U+{ord(one):04X}" for one in sorted(known) if hidden_in(f"名{one}名") != [one]] == []


@pytest.mark.parametrize(
    "text",
    ["👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "می\u200cخواهم", "API\u200cها", "1\ufe0f\u20e3", "क्\u200dष", "a\tb\nc"],
)
def test_joiners_of_emoji_and_scripts_stay(text: str) -> None:
    assert visible(text) == text


def test_joiners_that_join_nothing_and_piled_up_variants_are_shown() -> None:
    assert visible("r\u200dm") == "r\\u{200d}m"
    assert visible("x\ufe00\ufe01\ufe02") == "x\ufe00\\u{fe01}\\u{fe02}"


def test_a_page_gets_the_same_set_for_its_script() -> None:
    source = re.sub(r"\\u\{(\w+)\}", lambda found: re.escape(chr(int(found[1], 16))), browser_pattern())
    assert [one for one in HIDDEN if not re.fullmatch(source, one)] == []


# Cutting


def clusters_kept(text: str, kept: str) -> bool:
    """Whether what follows the cut begins a character of its own, unless one was longer than any should be."""
    rest = text[len(kept) :]
    if not rest or not kept:
        return True
    if unicodedata.category(rest[0])[0] != "M":
        return rest[0] not in JOINERS
    return len(kept) > 30 and all(unicodedata.category(one)[0] == "M" or one in JOINERS for one in kept[-30:])


@given(TEXTS, st.integers(min_value=1, max_value=40))
def test_no_text_is_longer_than_its_limit(text: str, most: int) -> None:
    assert len(cut(text, most)) <= most
    assert len(one_line(text, most)) <= most
    assert len(flattened(text, most)) <= most
    assert len(shown_row(text, most)) <= most
    assert columns(cut_columns(text, most)) <= most
    counted = cut_counted(text, most)
    assert len(counted.rpartition("… (")[0] if len(text) > most else counted) <= most


@given(TEXTS, st.integers(min_value=1, max_value=40))
def test_what_is_cut_says_so_and_no_character_is_cut_in_two(text: str, most: int) -> None:
    short = cut(text, most)
    assert (short == text) == (len(text) <= most)
    if short != text:
        assert text.startswith(short[:-1])
        assert clusters_kept(text, short[:-1])


@given(TEXTS, st.integers(min_value=4, max_value=40))
def test_of_a_long_text_both_ends_are_kept_and_the_gap_is_counted(text: str, most: int) -> None:
    if len(text) > most:
        seen, left_out = head_and_tail(text, most)
        head, tail = seen.split(f"\n[… {left_out:,} of {len(text):,} characters left out …]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + left_out + len(tail) == len(text)
        assert len(head) + len(tail) <= most


@pytest.mark.parametrize(
    ("text", "short"), [("ae\u0301o", "a…"), ("👩\u200d👧!", "…"), ("🇩🇪🇫🇷", "🇩🇪…"), ("abcd", "ab…")]
)
def test_accents_families_and_flags_stay_whole(text: str, short: str) -> None:
    assert cut(text, 3) == short


def test_importing_it_loads_no_tables() -> None:
    import subprocess

    code = (
        "import sys, json, re; before = {*sys.modules}; import ferrule.core.shown_text; "
        "print({'unicodedata', 'wcwidth', 'shlex'} & ({*sys.modules} - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
