"""/undo, /redo and /diff: what the conversation did to the files, shown and taken back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ferrule.cli.chatting.call_view import counted, diff_rows
from ferrule.cli.undone_files import MOST_FILES, undone_files
from ferrule.cli.words import _, localised
from ferrule.workspace.files import files_of
from ferrule.workspace.snapshots.changes import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.cli.chatting.chat import Chat
    from ferrule.workspace.snapshots.changes import Group
    from ferrule.workspace.snapshots.history import History
    from ferrule.workspace.snapshots.undo_report import Report

_MOST_GROUPS = 1000
_MOST_LINES = 500


def _history(chat: Chat) -> tuple[History, str]:
    session = chat.assistant.app.runtime.session
    return files_of(session).history, session.id


async def undo(chat: Chat, rest: str) -> None:
    """The last turn that changed something, or the last N of them, or one change."""
    history, session = _history(chat)
    if rest == "call":
        _told(chat, history, await asyncio.to_thread(history.undo, session=session))
        return
    turns = int(rest) if rest.isdecimal() and int(rest) > 0 else 0 if rest else 1
    if not turns:
        chat.say(_("/undo takes a number of turns, or `call`."), "warned")
        return
    for number in range(turns):
        done = [one for one in await _groups(history, session) if one.phase is Phase.DONE]
        turn = done[0].origin.turn if done else ""
        report = await asyncio.to_thread(history.undo, session=session, turn=turn or None)
        if number and not report.groups and report.refused is None:
            return
        _told(chat, history, report)
        if report.refused is not None or not report.groups:
            return


def choices(_chat: Chat) -> Sequence[str]:
    return ("call",)


async def redo(chat: Chat, _rest: str) -> None:
    """What was undone last, with all of its turn."""
    history, session = _history(chat)
    undone = [one for one in await _groups(history, session) if one.phase is Phase.UNDONE]
    turn = undone[-1].origin.turn if undone else ""
    _told(chat, history, await asyncio.to_thread(history.redo, session=session, turn=turn or None))


async def diff(chat: Chat, rest: str) -> None:
    """All that this conversation changed and that still stands, or one change."""
    history, session = _history(chat)
    if rest.isdecimal():
        text = await asyncio.to_thread(history.diff, int(rest))
    else:
        done = [one for one in await _groups(history, session) if one.phase is Phase.DONE]
        if not done:
            chat.say(_("Nothing was changed in this conversation."))
            return
        text = "".join([await asyncio.to_thread(history.diff, one.number) for one in reversed(done)])
    chat.rows(diff_rows(text, chat.screen, _MOST_LINES))


async def _groups(history: History, session: str) -> list[Group]:
    """The newest first."""
    return await asyncio.to_thread(history.recent, _MOST_GROUPS, session=session)


def _told(chat: Chat, history: History, report: Report) -> None:
    """Say what was undone or made again, and let the model know with the next message."""
    changes = report.changes
    if changes:
        words = (
            counted(len(changes), _("1 change taken back:"), _("{n} changes taken back:"))
            if report.undo
            else counted(len(changes), _("1 change made again:"), _("{n} changes made again:"))
        )
        chat.say(words, "good")
        for row in undone_files(report, history):
            chat.say(row)
        verb = "took back" if report.undo else "made again"
        listed = ", ".join(
            f"`{history.show(path)}`" for path in dict.fromkeys(one.path for one in changes[:MOST_FILES])
        )
        chat.notes_for_model.append(
            f"The person {verb} your changes of {listed}. Read a file again before you edit it."
        )
    elif report.refused is None and not report.uncovered:
        chat.say(_("There is nothing to take back.") if report.undo else _("There is nothing to make again."))
    if report.refused is not None or report.uncovered:
        chat.say(localised(report.trouble if changes else report.words), "warned")
