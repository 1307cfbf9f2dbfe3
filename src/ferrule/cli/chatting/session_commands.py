"""`/resume`, `/rewind`, `/fork`, `/todos`, `/init`, `/copy` and `/export`: what a user does with a conversation."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from ferrule.agent.conversation import said_by_user, turn_starts
from ferrule.agent.saved_sessions import SavedConversationError
from ferrule.cli.chatting.answer_lines import AnswerLines
from ferrule.cli.chatting.call_view import counted, label, todo_rows
from ferrule.cli.chatting.picker import pick
from ferrule.cli.words import _, localised
from ferrule.core.errors import ErrorKind
from ferrule.core.model import AssistantMessage, ToolResults, UserMessage
from ferrule.core.shown_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ferrule.agent.conversation import Conversation
    from ferrule.agent.saved_sessions import SessionLine
    from ferrule.agent.turn_log import OpenTurn
    from ferrule.cli.chatting.chat_session import Chat
    from ferrule.cli.chatting.input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.model import Message
    from ferrule.workspace.snapshots.history import History
    from ferrule.workspace.snapshots.undo_report import Report


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    if seconds < 60:
        return _("just now")
    for unit, words in ((86_400, _("{n} d ago")), (3_600, _("{n} h ago")), (60, _("{n} min ago"))):
        if seconds >= unit:
            return words.format(n=f"{seconds // unit:,.0f}")
    raise AssertionError(seconds)


def session_rows(sessions: Sequence[SessionLine]) -> list[str]:
    """A row for each: how old, its title, its id."""
    from wcwidth import ljust, width

    ages = [age(max(0.0, time.time() - one.changed)) for one in sessions]
    widest, nothing = max(map(width, ages), default=0), _("(nothing said)")
    return [
        f"{ljust(said, widest)}  {one_line(one.request) or nothing}  {one.id[:8]}"
        for said, one in zip(ages, sessions, strict=True)
    ]


async def pick_session(screen: Screen, person: PersonInput, sessions: Sequence[SessionLine]) -> str | None:
    """The id of the one that the user chose."""
    chosen = await pick(screen, person, _("Which conversation?"), session_rows(sessions))
    return None if chosen is None else sessions[chosen].id


async def resume_command(chat: Chat, rest: str) -> None:
    """The one that is named, or chosen from a list; where nobody can choose, the last one but this."""
    if not rest and chat.person.by_person:
        others = [one for one in chat.assistant.sessions() if one.id != chat.assistant.id]
        if not others:
            raise SavedConversationError(_("No other conversation is saved for this folder."))
        chosen = await pick_session(chat.screen, chat.person, others)
        if chosen is None:
            return
        rest = chosen
    chat.assistant.resume(rest)
    show_resumed(chat, chat.assistant.id, chat.assistant.agent.conversation)


async def continue_command(chat: Chat, rest: str) -> None:
    """A turn that was cut off goes on from its last step: what had ended is not run again."""
    if chat.assistant.agent.conversation.open is None:
        chat.say(_("No turn was cut off."), "faint")
    else:
        await chat.go_on()


def show_resumed(chat: Chat, session: str, conversation: Conversation, *, goes_on: bool = True) -> None:
    """Where the conversation was left: the last thing that was said by either, and what was cut off.

    A turn that was cut off goes on, unless the user says something else.
    """
    messages = conversation.messages
    chat.say(_("Continuing {id}; turns so far: {turns}.").format(id=session[:8], turns=conversation.turn), "faint")
    asked = next((at for at in reversed(range(len(messages))) if said_by_user(messages[at])), None)
    if asked is not None:
        chat.say(f"› {one_line(said_by_user(messages[asked]), 300)}", "strong")
    answered = next((one for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text), None)
    if answered is not None:
        lines = AnswerLines(chat.screen.paint, styled=chat.screen.live)
        width = chat.screen.width
        chat.rows(["", *lines.feed(answered.text, width), *lines.end(width)])
    open_turn = conversation.open
    for words in _cut_off(messages, open_turn):
        chat.say(words, "warned")
    if open_turn is not None and goes_on:
        chat.say(_("It goes on now; Esc stops it."), "faint")
        chat.do_next("/continue")


def _cut_off(messages: Sequence[Message], open_turn: OpenTurn | None) -> list[str]:
    """What the end of a conversation lacks: calls that did not finish, or an answer."""
    last = messages[-1] if messages else None
    if isinstance(last, AssistantMessage) and open_turn is not None:
        from ferrule.agent.calling import lost_call  # with the pipeline: not before the first prompt

        lost = [call for call in last.calls if call.id in open_turn.began and call.id not in open_turn.done]
        return [
            _("{call} was cut off: {why}").format(call=f"`{label(call)}`", why=localised(lost_call(call.name).message))
            for call in lost
        ] or [_("The last turn was cut off before an answer.")]
    if isinstance(last, UserMessage):
        return [_("The last turn was cut off before an answer.")]
    if not isinstance(last, ToolResults):
        return []
    before = messages[-2]
    calls = {call.id: call for call in before.calls} if isinstance(before, AssistantMessage) else {}
    stopped = [one for one in last.results if one.error is not None and one.error.kind is ErrorKind.CANCELLED]
    return [
        _("{call} was cut off: {why}").format(
            call=f"`{label(calls[one.call_id])}`" if one.call_id in calls else one.tool,
            why=localised(one.error.message) if one.error is not None else "",
        )
        for one in stopped
    ] or [_("The last turn was cut off before an answer.")]


def say_undone(chat: Chat, history: History, report: Report) -> None:
    """Say what was undone or redone, and let the model know with the next message."""
    from ferrule.cli.past import MOST_FILES, undone_files  # with the database of changes: not before the first prompt

    changes = report.changes
    if changes:
        words = (
            counted(len(changes), _("1 change undone:"), _("{n} changes undone:"))
            if report.undo
            else counted(len(changes), _("1 change redone:"), _("{n} changes redone:"))
        )
        chat.say(words, "good")
        for row in undone_files(report, history):
            chat.say(row)
        verb = "undid" if report.undo else "redid"
        listed = ", ".join(
            f"`{history.show(path)}`" for path in dict.fromkeys(one.path for one in changes[:MOST_FILES])
        )
        chat.notes_for_model.append(f"The user {verb} your changes to {listed}. Read a file again before you edit it.")
    elif report.refused is None and not report.uncovered and not report.in_git:
        chat.say(_("Nothing to undo.") if report.undo else _("Nothing to redo."))
    if report.refused is not None or report.uncovered:
        chat.say(localised(report.trouble if changes else report.words), "warned")
    if report.in_git:
        chat.say(localised(report.in_git), "faint")


async def rewind_command(chat: Chat, rest: str) -> None:
    """Back to before a message: chosen from a list, or so many turns back; `files` undoes their changes too."""
    words = rest.split()
    number = next((int(one) for one in words if one.isdecimal()), 0)
    if any(not one.isdecimal() and one not in ("files", "keep") for one in words):
        chat.say(_("/rewind takes a number of turns, and `files` or `keep`."), "warned")
        return
    messages = chat.assistant.agent.conversation.messages
    starts = turn_starts(messages)[::-1]  # the newest first
    if not starts:
        chat.say(_("There is no message to go back to."))
        return
    if number > len(starts):
        too_many = counted(len(starts), _("Only 1 turn can be gone back."), _("Only {n} turns can be gone back."))
        chat.say(too_many, "warned")
        return
    if not number:
        rows = [one_line(said_by_user(messages[at]), 200) for at in starts]
        chosen = await pick(chat.screen, chat.person, _("Go back to before which message?"), rows)
        if chosen is None:
            return
        number = chosen + 1
    at = starts[number - 1]
    message = messages[at]
    assert isinstance(message, UserMessage)  # noqa: S101 - a turn begins with one
    files = await _with_files(chat, message.turn, words)
    if files is None:
        return
    if files:
        from ferrule.workspace.files import files_of

        history, session = files_of(chat.assistant.app.runtime.session).history, chat.assistant.id
        report, _turns = await asyncio.to_thread(history.undo_turns, session, since=message.turn)
        say_undone(chat, history, report)
    said = chat.assistant.rewind(at)
    chat.person.put_back(said)
    chat.say(_("Back to before: {words}").format(words=one_line(said, 200)), "good")
    if not files:
        chat.say(_("Files stay as they are; `/undo` undoes changes."), "faint")


async def _with_files(chat: Chat, turn: int, words: Sequence[str]) -> bool | None:
    """Whether files go back too; None where the user wants nothing after all. Only asked where something changed."""
    if "keep" in words or "files" in words:
        return "files" in words
    from ferrule.workspace.files import files_of

    history, session = files_of(chat.assistant.app.runtime.session).history, chat.assistant.id
    if not chat.person.by_person or not await asyncio.to_thread(history.changed_since, session, turn):
        return False
    rows = [_("The conversation and the files"), _("Only the conversation")]
    chosen = await pick(chat.screen, chat.person, _("What goes back?"), rows)
    return None if chosen is None else chosen == 0


async def fork_command(chat: Chat, _rest: str) -> None:
    before = chat.assistant.id
    chat.assistant.fork()
    words = _("This is {new} now, a copy; {old} stays as it was.")
    chat.say(words.format(new=chat.assistant.id[:8], old=before[:8]))


async def todos_command(chat: Chat, _rest: str) -> None:
    from ferrule.agent.todo_tool import todos_of  # with pydantic, which the first prompt need not have

    todos = [one.model_dump() for one in todos_of(chat.assistant.app.runtime.session).todos]
    if not todos:
        chat.say(_("The model has written no list of steps."))
    chat.rows(todo_rows(todos, chat.screen))


INIT = """\
Write an AGENTS.md for this project: what an assistant that works here must know and cannot see at a glance. Read the \
README, the build and test settings and the main code first. Cover, each in a few lines: what the project is, how it \
is laid out, the exact commands that build, test, lint and run it, the conventions of its code, and what to be careful \
with. Write only what you found in the project, in the language of its documentation, in at most 60 lines. If there is \
an AGENTS.md or a CLAUDE.md already, keep what is right in it and fix the rest. Then tell the user briefly what you \
wrote."""


async def init_command(chat: Chat, rest: str) -> None:
    """The model writes it, by the same rules as any file."""
    chat.for_model[f"/init {rest}".strip()] = INIT + (f"\n\nThe user adds: {rest}" if rest else "")


async def copy_command(chat: Chat, _rest: str) -> None:
    """The model's last answer."""
    messages = chat.assistant.agent.conversation.messages
    text = next((one.text for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text), "")
    if not text:
        chat.say(_("There is no answer to copy."))
        return
    if await asyncio.to_thread(_to_program, text):
        chat.say(_("Copied {n} characters to the clipboard.").format(n=f"{len(text):,}"))
    elif chat.screen.live:
        sys.stdout.write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\a")
        sys.stdout.flush()
        chat.say(_("Sent {n} characters to the terminal's clipboard.").format(n=f"{len(text):,}"))
    else:
        chat.say(_("There is no clipboard here; `/export` writes the conversation to a file."), "warned")


_CLIPBOARDS = (("WAYLAND_DISPLAY", ["wl-copy"]), ("DISPLAY", ["xclip", "-selection", "clipboard"]), ("", ["pbcopy"]))


def _to_program(text: str) -> bool:
    for variable, command in _CLIPBOARDS:
        if (variable and not os.environ.get(variable)) or shutil.which(command[0]) is None:
            continue
        nowhere: Any = subprocess.DEVNULL
        try:
            done = subprocess.run(command, input=text.encode(), stdout=nowhere, stderr=nowhere, timeout=5, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            continue
        if not done.returncode:
            return True
    return False


async def export_command(chat: Chat, rest: str) -> None:
    """The conversation as Markdown, in a new file."""
    messages = chat.assistant.agent.conversation.messages
    if not messages:
        chat.say(_("Nothing was said yet."))
        return
    folder = chat.assistant.app.runtime.session.workspace
    path = folder / os.path.expanduser(rest or f"conversation-{chat.assistant.id[:8]}.md")  # noqa: PTH111, ASYNC240
    try:
        await asyncio.to_thread(_write_new, path, exported(messages))
    except FileExistsError:
        chat.say(_("There is a file at {path}; name another one: /export FILE").format(path=path), "warned")
        return
    chat.say(_("Written to {path}.").format(path=path))


def _write_new(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def exported(messages: Sequence[Message]) -> str:
    """What was said, called and found, without the secrets that can be recognised in it."""
    from ferrule.core.secrets import redact_text

    parts: list[str] = []
    user, assistant = _("User"), _("Assistant")
    for message in messages:
        if isinstance(message, ToolResults):
            parts += [f"{_fenced(one.llm_content)}" for one in message.results]
        elif isinstance(message, AssistantMessage):
            parts += [f"## {assistant}\n\n{message.text.strip()}"] if message.text.strip() else []
            parts += [f"`{label(call).replace('`', chr(39))}`" for call in message.calls]
        elif said := said_by_user(message):
            parts.append(f"## {user}\n\n{said.strip()}")
    return redact_text("\n\n".join(parts)) + "\n"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
