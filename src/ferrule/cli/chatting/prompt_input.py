"""The input line: edited, remembered, completed, and as many lines as the person wants.

Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line, and pasted text keeps its lines.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts.prompt import PromptSession
from prompt_toolkit.styles import Style

from ferrule.cli.ask import forget_what_was_typed
from ferrule.cli.chatting.commands import commands, known_commands
from ferrule.cli.chatting.mentions import FileNames, quoted
from ferrule.cli.chatting.screen import terminal_size

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable
    from pathlib import Path

    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History

    from ferrule.cli.chatting.chat_session import Chat


# Completes `/commands`, what comes after them, and `@files`.


_COMMAND = re.compile(r"/(?P<name>[\w:-]*)\Z")
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
            for name, command in known_commands(self._chat()).items():
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


_LOOK = Style.from_dict(
    {
        "prompt": "bold ansicyan",
        "completion-menu": "bg:default default",
        "completion-menu.completion": "",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "ansibrightblack",
        "completion-menu.meta.completion.current": "reverse",
    }
)


class PromptInput:
    """A terminal with a person at it."""

    by_person = True

    def __init__(self, completer: Completer, history: Path | None) -> None:
        # Without asking the terminal where the cursor is: an answer that comes late would be read as typed.
        output = Vt100_Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", "› ")],
            prompt_continuation=[("class:prompt", "… ")],
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(_completes),
            reserve_space_for_menu=6,
            history=_history(history),
            key_bindings=_keys(),
            output=output,
            style=_LOOK,
        )
        self._escapes = False
        self._answers: PromptSession[str] = PromptSession(
            [("class:prompt", "? ")],
            history=InMemoryHistory(),
            key_bindings=_escape(Condition(lambda: self._escapes)),
            output=output,
            style=_LOOK,
        )

    async def message(self, typed: str = "") -> str:
        return await self._session.prompt_async(default=typed, handle_sigint=False)

    async def answer(self, *, escapes: bool = False) -> str:
        self._escapes = escapes
        clear_typeahead(self._answers.input)
        forget_what_was_typed()
        return await self._answers.prompt_async(handle_sigint=False)

    def interrupt(self) -> None:
        for session in (self._session, self._answers):
            if session.app.is_running and not session.app.is_done:
                session.app.exit(exception=KeyboardInterrupt())


def _size() -> Size:
    size = terminal_size()
    return Size(rows=size.lines, columns=size.columns)


def _history(file: Path | None) -> History:
    """Kept in a file that nobody else can read; where that cannot be, for this session."""
    if file is None:
        return InMemoryHistory()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def _completes() -> bool:
    """Only a command or a file is completed while it is typed; room for a list is made only then."""
    before = get_app().current_buffer.document.current_line_before_cursor
    word = before.rpartition(" ")[2]
    return (
        word.startswith("@") or '@"' in before or (before.startswith("/") and get_app().current_buffer.text[:1] == "/")
    )


def _escape(allowed: Condition) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", eager=True, filter=allowed)
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    _used: list[Any] = [leave]
    return keys


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # it chose from the list; the next one sends
            return
        if buffer.document.current_line.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def stop(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()  # away with the line; an empty one is what Ctrl-C leaves by
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    _used: list[Any] = [send, break_line, stop]
    return keys
