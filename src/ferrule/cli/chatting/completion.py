"""Completes `/commands`, what comes after them, and `@files`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion

from ferrule.cli.chatting.commands import commands
from ferrule.cli.chatting.file_names import FileNames
from ferrule.cli.chatting.mentions import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from prompt_toolkit.document import Document

    from ferrule.cli.chatting.chat import Chat

_COMMAND = re.compile(r"/(?P<name>[\w-]*)\Z")
_ARGUMENT = re.compile(r"/(?P<name>[\w-]+)\s+(?P<part>\S*)\Z")
_MENTION = re.compile(r"""(?<![\w@])@(?:"(?P<quoted>[^"\n]*)|(?P<bare>[^\s"]*))\Z""")


class ChatCompleter(Completer):
    """Completes for a conversation, which begins after its input line is made."""

    def __init__(self, chat: Callable[[], Chat]) -> None:
        self._chat = chat
        self._files: FileNames | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What needs no disk."""
        before = document.text_before_cursor
        if found := _COMMAND.fullmatch(before):
            for name, command in commands().items():
                if name.startswith(found["name"]):
                    yield Completion(name, -len(found["name"]), display=f"/{name}", display_meta=command.about)
        elif found := _ARGUMENT.fullmatch(before):
            command, chat = commands().get(found["name"]), self._chat()
            choices = command.choices if command is not None and chat.begun else None
            for one in choices(chat) if choices is not None else ():
                if one.startswith(found["part"]):
                    yield Completion(one, -len(found["part"]))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        for one in self.get_completions(document, complete_event):
            yield one
        if self._chat().begun and (mention := _MENTION.search(document.text_before_cursor)):
            part = mention["quoted"] if mention["quoted"] is not None else mention["bare"]
            for name in await self._matching(part):
                yield Completion(quoted(name), mention.start() - len(document.text_before_cursor), display=name)

    async def _matching(self, part: str) -> list[str]:
        session = self._chat().assistant.app.runtime.session
        if self._files is None:
            self._files = FileNames(session)
        return await self._files.matching(part)
