"""Asks the person at the terminal before something runs."""

from __future__ import annotations

import asyncio
import os
import re
import select
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ferrule.cli.output import at_a_terminal, log_lines_held
from ferrule.cli.words import _, as_warning, localised, said_of
from ferrule.core.call import MOST_LINES
from ferrule.core.shown_text import shown, shown_row, visible
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.pipeline.loop_watch import blocked_on_purpose

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.events import Question
    from ferrule.pipeline.confirm import Asker


def typed_line() -> str:
    """A line from the terminal, like `input`: `EOFError` at its end; Ctrl-C raises what its handler raises."""
    with log_lines_held(), blocked_on_purpose():
        if sys.platform == "win32":
            return input()
        heard, told = os.pipe()
        os.set_blocking(told, False)
        os.set_blocking(heard, False)
        before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        try:
            while sys.stdin not in select.select([sys.stdin, heard], [], [])[0]:
                os.read(heard, 4096)  # a signal whose handler raised nothing
            return input()
        finally:
            signal.set_wakeup_fd(before)
            os.close(heard)
            os.close(told)


_YES = ("y", "yes", "是")
_ALWAYS = ("a", "always", "总是")
_SAVE = ("s", "save", "保存")
_FILES = ("f", "files", "文件")
_NO = re.compile(r"(?:no?|否)(?:[\s:,，：]+(?P<why>.*))?", re.IGNORECASE | re.DOTALL)
_MOST_REASON = 2000
DIFF_LINES = 500
"""Lines of a change that are shown at most, unless the user wants to see all."""
_FEWEST, _BESIDES = 6, 14
"""The least that a list is given, and what else of a question has to fit into the window with it."""
_LONG_RULE = 200


async def say_yes(question: Question) -> Answer:
    """The answer of `--yes`. A drafted tool is code and words that a model wrote, so a person has to look at it."""
    if question.invocation.tool.name == "draft_tool":
        return Answer(Choice.NO, "--yes accepts no drafted tool; the user can run `ferrule draft` at a terminal")
    return Answer(Choice.ONCE)


def asker(yes: bool, on_sigterm: Callable[[], None]) -> Asker | None:
    """Who answers: `--yes`, the person at the terminal, or nobody, so that what would ask is refused."""
    if yes:
        return say_yes
    return TerminalAsker(on_sigterm) if at_a_terminal() else None


def confirmed(prompt: str) -> bool:
    """Whether the user at the terminal says yes; the end of input means no."""
    forget_what_was_typed()
    click.echo(prompt, nl=False, err=True)
    try:
        return typed_line().strip().lower() in _YES
    except EOFError:
        return False


class TerminalAsker:
    """Shows exactly what will run and takes yes, always or no; Ctrl-C, SIGTERM and end of input mean no."""

    def __init__(self, on_sigterm: Callable[[], None] = lambda: None) -> None:
        self._on_sigterm = on_sigterm

    async def __call__(self, question: Question) -> Answer:
        if not sys.stdin.isatty():  # whoever fills a pipe is not the person
            return Answer(Choice.NO, "there is no terminal to ask them at")
        # asyncio keeps both for itself until it runs again; at a prompt they must end the prompt.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        before_term = signal.signal(signal.SIGTERM, self._terminated)
        try:
            forget_what_was_typed()
            self.show(question)
            typed = typed_line()  # nothing else should go on while the person thinks
            while whole := opened(typed, question, shutil.get_terminal_size().lines):
                _write([*_change(whole[0]), *(AnswerLine(line, of_the_call=True) for line in whole[1])])
                click.echo(choices_of(question), nl=False, err=True)
                typed = typed_line()
        except EOFError:
            typed = ""
        except KeyboardInterrupt:
            click.echo(err=True)
            if (task := asyncio.current_task()) is not None:
                task.cancel()
            await asyncio.sleep(0)  # raises CancelledError
            raise asyncio.CancelledError from None
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, before_term)
        return self.understood(typed, question)

    def show(self, question: Question) -> None:
        show(question)

    def understood(self, typed: str, question: Question) -> Answer:
        return understood(typed, question)

    def _terminated(self, _number: int, _frame: object) -> None:
        self._on_sigterm()
        raise KeyboardInterrupt


@dataclass(slots=True, frozen=True)
class AnswerLine:
    """One line of what a person is told before they decide."""

    words: str
    warning: bool = False
    of_the_call: bool = False
    """Whether it is the call's own text, which must not pass for ours."""


def head_of(question: Question) -> list[AnswerLine]:
    """Why it asks and what would run, safe to show; what would change comes after it, and then `tail_of`."""
    lines = [AnswerLine(_("{reason}:").format(reason=shown(localised(question.reason))))]
    return [*lines, *(AnswerLine(line, of_the_call=True) for line in shown(question.summary).split("\n"))]


def tail_of(question: Question, height: int) -> list[AnswerLine]:
    """The rest that the person needs to decide, for a window so high; `choices_of` comes after it.

    The list of changes is here, next to the answer: the diff before it may be long.
    """
    lines: list[AnswerLine] = []
    if question.effects is not None:
        listed = question.effects.lines(_room_for(question, height)[0])
        lines += [AnswerLine(f"- {shown_row(localised(line))}", of_the_call=True) for line in listed]
    if _leaves_out(question, height):
        lines.append(
            AnswerLine(
                _("Type f to see the whole change.")
                if question.effects is None
                else _("Type f to list every file and see the whole change.")
            )
        )
    if found := question.disguises:
        lines.append(
            AnswerLine(_("it contains {what}").format(what=_(", ").join(_(one) for one in found)), warning=True)
        )
    if question.warning:
        lines.append(AnswerLine(shown(localised(question.warning)), warning=True))
    if len(question.rule) > _LONG_RULE and question.summary.split(" ", 1)[1:] == [question.covers]:
        return [*lines, AnswerLine(_('"Always" would mean: exactly this command'))]
    if question.rule:
        lines.append(AnswerLine(_('"Always" would mean: {rule}').format(rule=shown_row(question.rule))))
    if question.rule and question.covers:
        lines.append(AnswerLine(_("  it covers:         {call}").format(call=shown_row(localised(question.covers)))))
    if question.rule and question.not_covers:
        lines.append(
            AnswerLine(_("  it does not cover: {call}").format(call=shown_row(localised(question.not_covers))))
        )
    return lines


def _room_for(question: Question, height: int) -> tuple[int, int]:
    """How many lines the list of changes and the diff may take, so that the list is still seen with the choices."""
    listed = max(_FEWEST, min(MOST_LINES, height - _BESIDES))
    are_many = question.effects is not None and sum(question.effects.counts.values()) > listed
    return listed, max(_FEWEST, height // 2) if are_many else DIFF_LINES


def _leaves_out(question: Question, height: int) -> bool:
    listed, change = _room_for(question, height)
    cut = question.preview.rstrip("\n").count("\n") >= change
    return cut or (question.effects is not None and question.effects.folded(listed))


def change_of(question: Question, height: int) -> tuple[str, int]:
    """What the call would change, and how many lines of that are shown."""
    return localised(question.preview), _room_for(question, height)[1]


def opened(typed: str, question: Question, height: int) -> tuple[str, list[str]] | None:
    """The whole change and a line for every file, where the person asked for what the question left out."""
    if typed.strip().lower() not in _FILES or not _leaves_out(question, height):
        return None
    listed = question.effects.every_line if question.effects is not None else []
    return localised(question.preview), [f"- {shown_row(localised(line))}" for line in listed]


def choices_of(question: Question) -> str:
    """The question itself, with what can be answered."""
    if question.effects is not None and not question.effects.barriers:
        if not question.rule:
            return _("Keep these changes? Yes (y) or no (n, or say what to do instead) [y/N] ")
        if question.rules:
            return _(
                "Keep these changes? Once (y), always in this session (a), always and saved in your settings (s), "
                "or no (n, or say what to do instead) [y/a/s/N] "
            )
        return _(
            "Keep these changes? Once (y), always in this session (a), or no (n, or say what to do instead) [y/a/N] "
        )
    if not question.rule:
        return _("Run it? Yes (y) or no (n, or say what to do instead) [y/N] ")
    if question.rules:
        return _(
            "Run it? Once (y), always in this session (a), always and saved in your settings (s), "
            "or no (n, or say what to do instead) [y/a/s/N] "
        )
    return _("Run it? Once (y), always in this session (a), or no (n, or say what to do instead) [y/a/N] ")


def _change(preview: str, most: int | None = None) -> list[AnswerLine]:
    """What the call would change; the diff is the call's own text."""
    rows = visible(preview).rstrip("\n").split("\n") if preview else []
    lines = [AnswerLine(f"  {row}", of_the_call=True) for row in rows[:most]]
    if more := len(rows) - len(lines):
        lines.append(
            AnswerLine("    " + (_("… 1 more line") if more == 1 else _("… {n} more lines").format(n=f"{more:,}")))
        )
    return lines


def show(question: Question, choices: str = "") -> None:
    """Everything the person needs to decide, and the prompt. A call's lines are indented: none can pass for ours."""
    height = shutil.get_terminal_size().lines
    _write([*head_of(question), *_change(*change_of(question, height)), *tail_of(question, height)])
    click.echo(choices or choices_of(question), nl=False, err=True)


def _write(lines: list[AnswerLine]) -> None:
    for line in lines:
        if line.warning:
            _warn(line.words)
        else:
            _say(f"  {line.words}" if line.of_the_call else line.words)


def understood(typed: str, question: Question, tell: Callable[[str], None] | None = None) -> Answer:
    """What the person's words mean. Only what was offered is a yes; anything else is a no, and the reason for it."""
    words = typed.strip()
    if words.lower() in _YES:
        return Answer(Choice.ONCE)
    if question.rule and words.lower() in _ALWAYS:
        return Answer(Choice.ALWAYS)
    if question.rules and words.lower() in _SAVE:
        (tell or _say)(_saved(question))
        return Answer(Choice.ALWAYS)
    if words.lower() in (*_ALWAYS, *_SAVE):
        (tell or _say)(_("`{answer}` is not offered here, so this was denied.").format(answer=words))
        return Answer(Choice.NO)
    no = _NO.fullmatch(words)
    return Answer(Choice.NO, ((no["why"] or "").strip() if no else words)[:_MOST_REASON])


def _saved(question: Question) -> str:
    """Add the rules that were shown to the person's own settings, and say so. When that fails they hold for the
    session.
    """
    from ferrule.app.settings import user_settings_file
    from ferrule.pipeline.stages import Verdict
    from ferrule.policy.patterns import RuleError
    from ferrule.policy.rule_file import RuleFile

    file = RuleFile(user_settings_file())
    try:
        for rule in question.rules:
            file.add(rule, Verdict.ALLOW)
    except RuleError as error:
        words = _("the rule was not saved: {why}").format(why=said_of(error))
        return f"  {as_warning(words)}"
    return _("Saved in {file}; `ferrule rules remove` removes it.").format(file=file.path)


def forget_what_was_typed() -> None:
    """What was typed before the question was there is no answer to it."""
    with suppress(ImportError, OSError, ValueError):
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _warn(words: str) -> None:
    click.echo(click.style(f"  {as_warning(words)}", bold=True), err=True)
