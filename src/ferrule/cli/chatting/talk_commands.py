"""/cost, /compact, /clear, /sessions and /resume: the conversation itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ferrule.cli.chatting.answer_lines import AnswerLines
from ferrule.cli.chatting.event_printer import usage_words
from ferrule.cli.chatting.text_rows import one_line
from ferrule.cli.words import _
from ferrule.core.model import AssistantMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.agent.conversation import Conversation
    from ferrule.cli.chatting.chat import Chat

_LISTED = 20


async def cost(chat: Chat, _rest: str) -> None:
    conversation = chat.assistant.agent.conversation
    chat.say(usage_words(conversation.usage) or _("Nothing was used yet."))


async def compact(chat: Chat, _rest: str) -> None:
    chat.say(_("Putting earlier messages into a summary…"), "faint")
    compacted = await chat.assistant.agent.compact()
    if compacted is None:
        chat.say(_("There is too little to put together."))
        return
    chat.printer.handle(compacted)


async def clear(chat: Chat, _rest: str) -> None:
    chat.assistant.begin()
    chat.notes_for_model.clear()
    chat.say(_("A new conversation. `/sessions` lists the ones before."))


async def sessions(chat: Chat, _rest: str) -> None:
    listed = chat.assistant.sessions()[:_LISTED]
    if not listed:
        chat.say(_("No conversation of this folder is saved."))
    for one in listed:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
        chat.say(f"{one.id[:8]}  {when}  {one_line(one.request)}")


async def resume(chat: Chat, rest: str) -> None:
    chat.assistant.resume(rest)
    show_resumed(chat, chat.assistant.id, chat.assistant.agent.conversation)


def session_ids(chat: Chat) -> Sequence[str]:
    return [one.id[:8] for one in chat.assistant.sessions()[:_LISTED]]


def show_resumed(chat: Chat, session: str, conversation: Conversation) -> None:
    """Where the conversation was left: the last thing that was said by either."""
    messages, turns = conversation.messages, conversation.turn
    chat.say(_("Going on with {id}; turns so far: {turns}.").format(id=session[:8], turns=turns), "faint")
    asked = next((one for one in reversed(messages) if isinstance(one, UserMessage)), None)
    answered = next((one for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text), None)
    if asked is not None:
        chat.say(f"› {one_line(asked.text)[:300]}", "strong")
    if answered is not None:
        lines = AnswerLines(chat.screen.paint, styled=chat.screen.live)
        width = chat.screen.width
        chat.rows(["", *lines.feed(answered.text, width), *lines.end(width)])
