"""Completes `/commands`, what comes after them, and `@files`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion

from ferrule.cli.chatting.mentions import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from prompt_toolkit.document import Document

    from ferrule.cli.chatting.file_names import FileNames

_COMMAND = re.compile(r"/(?P<name>[\w-]*)\Z")
_ARGUMENT = re.compile(r"/(?P<name>[\w-]+)\s+(?P<part>\S*)\Z")
_MENTION = re.compile(r"""(?<![\w@])@(?:"(?P<quoted>[^"\n]*)|(?P<bare>[^\s"]*))\Z""")


class ChatCompleter(Completer):
    """`commands` are names with a line about each; `arguments` gives what may follow one of them."""

    def __init__(
        self, commands: Mapping[str, str], arguments: Callable[[str], Sequence[str]], files: FileNames
    ) -> None:
        self._commands = commands
        self._arguments = arguments
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What needs no disk."""
        before = document.text_before_cursor
        if found := _COMMAND.fullmatch(before):
            for name, about in self._commands.items():
                if name.startswith(found["name"]):
                    yield Completion(name, -len(found["name"]), display=f"/{name}", display_meta=about)
        elif found := _ARGUMENT.fullmatch(before):
            for one in self._arguments(found["name"]):
                if one.startswith(found["part"]):
                    yield Completion(one, -len(found["part"]))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        for one in self.get_completions(document, complete_event):
            yield one
        if mention := _MENTION.search(document.text_before_cursor):
            part = mention["quoted"] if mention["quoted"] is not None else mention["bare"]
            for name in await self._files.matching(part):
                yield Completion(quoted(name), mention.start() - len(document.text_before_cursor), display=name)
