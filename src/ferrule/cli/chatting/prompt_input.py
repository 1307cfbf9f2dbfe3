"""The input line: one editor for messages, lines typed while the model works, and answers.

prompt_toolkit reads the keys and edits the text; the rows are ours (editor_rows.py), below what the screen shows, so
that there is one who draws. Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line, and
pasted text keeps its lines.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Always, Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.containers import HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, SearchBufferControl
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.output.base import DummyOutput
from prompt_toolkit.search import SearchState

from ferrule.cli.chatting.commands import commands, known_commands
from ferrule.cli.chatting.editor_rows import typed_rows
from ferrule.cli.chatting.mentions import FileNames, quoted
from ferrule.cli.chatting.screen import Footer, cut
from ferrule.cli.words import _
from ferrule.core.shown_text import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from prompt_toolkit.filters import Filter
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding.key_bindings import KeyHandlerCallable

    from ferrule.cli.chatting.chat_session import Chat
    from ferrule.cli.chatting.screen import LiveScreen


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
            choices = command.choices if command is not None and chat.begun else ()
            for one in choices(chat) if callable(choices) else choices:
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


_MENU_ROWS = 6
_ESCAPE_SECONDS = 0.1
"""How long the terminal may take between an Esc and the rest of a key that begins with it."""
_CHORD_SECONDS = 1.0
_QUIET_SECONDS = 0.5
"""Whoever types gets no question in the middle of it: their next keys would answer what they have not read."""
_EDITORS = ("editor", "nano", "vi")


class PromptInput:
    """A terminal with a person at it; `chat` is asked what a key or a line does."""

    by_person = True

    def __init__(self, screen: LiveScreen, chat: Callable[[], Chat], history: Path | None) -> None:
        self._screen = screen
        self._chat = chat
        self._completer = ChatCompleter(chat)
        self._tabbed: Document | None = None
        """Where Tab was pressed before there was a list to choose from."""
        self._message = Buffer(
            multiline=True,
            completer=self._completer,
            complete_while_typing=Condition(_completes),
            history=_history(history),
            on_completions_changed=self._listed,
        )
        self._answer = Buffer(multiline=True, history=InMemoryHistory())
        self._search = SearchBufferControl()
        self._message_control = BufferControl(self._message, search_buffer_control=self._search)
        self._answer_control = BufferControl(self._answer)
        self._app: Application[None] | None = None
        self._drawn = asyncio.Event()
        self._waiting: asyncio.Future[str] | None = None
        self._asking: asyncio.Future[str] | None = None
        self._gone = False
        self._typed_at: float | None = None
        self._sent_at: float | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Read keys from here on."""
        layout = Layout(
            HSplit([Window(one, height=1) for one in (self._message_control, self._answer_control, self._search)]),
            focused_element=self._message_control,
        )
        self._app = app = Application[None](
            layout, key_bindings=self._keys(), output=DummyOutput(), terminal_size_polling_interval=None
        )
        app.ttimeoutlen = _ESCAPE_SECONDS
        app.key_processor.after_key_press += self._pressed
        app.after_render += self._rendered
        reading = asyncio.create_task(self._read(app))
        try:
            await asyncio.wait(
                {reading, drawn := asyncio.create_task(self._drawn.wait())}, return_when="FIRST_COMPLETED"
            )
            drawn.cancel()
            self._screen.footer = self._footer
            self._screen.pastes(True)
            yield
        finally:
            if app.is_running and not app.is_done:
                app.exit()
            await asyncio.wait({reading})
            self._screen.footer = None
            self._screen.refresh()
            self._screen.pastes(False)

    async def _read(self, app: Application[None]) -> None:
        try:
            await app.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:  # the terminal is gone; a signal says so too
            self._gone = True
            self._fail(EOFError())

    async def message(self) -> str:
        self._attend()
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await self._wait(self._waiting)
        except (KeyboardInterrupt, EOFError):
            self._chat().echo("")
            raise
        finally:
            self._waiting = self._typed_at = None

    async def answer(self) -> str:
        await self._quiet()
        self._attend()
        self._asking = asyncio.get_running_loop().create_future()
        self._focus(self._answer_control)
        text = ""
        try:
            text = await self._wait(self._asking)
            return text
        finally:
            self._asking = None
            self._chat().echo(text, "? ")
            self._answer.reset()
            self._focus(self._message_control)

    async def _wait(self, future: asyncio.Future[str]) -> str:
        if self._gone:
            raise EOFError
        self._screen.refresh()
        try:
            return await future
        finally:
            self._sent_at = monotonic()

    def put_back(self, text: str) -> None:
        """Have it edited once more, before what is there."""
        before = self._message.text
        self._message.document = Document(f"{text}\n{before}" if before else text, len(text))

    def interrupt(self) -> None:
        self._fail(KeyboardInterrupt())

    def _fail(self, error: BaseException) -> None:
        for future in (self._asking, self._waiting):
            if future is not None and not future.done():
                future.set_exception(error)
                return

    def _attend(self) -> None:
        """It is the user's turn now; after a long while they may be looking elsewhere."""
        if self._sent_at is not None:
            self._chat().call_back(monotonic() - self._sent_at)

    async def _quiet(self) -> None:
        """Until what was typed so far is read, and whoever types has stopped for a moment."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        while self._typed_at is not None and (left := self._typed_at + _QUIET_SECONDS - monotonic()) > 0:  # noqa: ASYNC110 - time itself is waited for
            await asyncio.sleep(left)

    def _focus(self, control: BufferControl) -> None:
        if self._app is not None:
            self._app.layout.focus(control)
            self._screen.refresh()

    # What is shown

    def _rendered(self, _app: object) -> None:
        self._drawn.set()
        self._screen.refresh()

    def _footer(self, width: int, height: int) -> Footer:
        most, paint = max(3, height // 2), self._screen.paint
        if self._asking is not None:
            return typed_rows(self._answer.text, self._answer.cursor_position, "? ", width, most, _mark(paint))
        chat, document = self._chat(), self._message.document
        prompt = chat.prompt if self._waiting is not None and not self._waiting.done() else "» "
        above = chat.status_rows(width)
        below = self._menu(width, min(_MENU_ROWS, height // 3))
        if self._app is not None and self._app.layout.is_searching:
            text, state = self._search.buffer.text, self._search.searcher_search_state
            if text:
                document = self._message.document_for_search(SearchState(text, state.direction))
            words = _("search: {text}").format(text=one_line(text))
            below = [paint("faint", cut(f"  {words}", width))]
        typed = typed_rows(document.text, document.cursor_position, prompt, width, most, _mark(paint))
        at, column = typed.cursor
        return Footer([*above, *typed.rows, *below], (len(above) + at, column))

    def _menu(self, width: int, most: int) -> list[str]:
        state = self._message.complete_state
        if state is None or not state.completions:
            return []
        from wcwidth import ljust
        from wcwidth import width as cells

        chosen = state.complete_index or 0
        top = min(max(0, chosen - most // 2), max(0, len(state.completions) - most))
        shown = state.completions[top : top + most]
        widest = max(cells(one.display_text) for one in shown) + 2
        rows: list[str] = []
        for index, one in enumerate(shown, top):
            row = cut(one_line(ljust(one.display_text, widest) + one.display_meta_text), width - 2)
            rows.append("  " + self._screen.paint("chosen" if index == state.complete_index else "faint", row))
        return rows

    # What keys do

    def _pressed(self, processor: Any) -> None:
        escaped = bool(processor.key_buffer) and processor.key_buffer[0].key == Keys.Escape
        if self._app is not None:
            self._app.timeoutlen = _ESCAPE_SECONDS / 2 if escaped else _CHORD_SECONDS
        if self._asking is None:
            self._typed_at = monotonic() if self._waiting is None or self._waiting.done() else None

    def _send(self, buffer: Buffer) -> None:
        text = buffer.text
        if buffer is self._answer:
            if self._asking is not None and not self._asking.done():
                self._asking.set_result(text)
            return
        buffer.append_to_history()
        buffer.reset()
        if not text.strip():
            return
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(text)  # from here on there is no prompt
            self._chat().echo(text)
        else:
            self._chat().take(text.strip())

    # Choosing from the list

    def _tab(self) -> None:
        """The next of the list. Commands need no disk: they are there at once, however fast somebody types."""
        buffer = self._message
        if buffer.complete_state is None or not buffer.complete_state.completions:
            found = self._commands()
            if not found:
                self._tabbed = buffer.document
                buffer.start_completion(insert_common_part=True)
                return
            if len(found) == 1:
                buffer.apply_completion(found[0])
                return
            buffer.complete_state = CompletionState(buffer.document, found)
        buffer.complete_next()

    def _listed(self, buffer: Buffer) -> None:
        state = buffer.complete_state
        if state is not None and state.completions and state.original_document == self._tabbed:
            self._tabbed = None
            buffer.complete_next()

    def _commands(self) -> list[Completion]:
        return list(self._completer.get_completions(self._message.document, CompleteEvent()))

    def _complete_command(self) -> None:
        """The beginning of one command's name is that command."""
        found, typed = self._commands(), _COMMAND.fullmatch(self._message.text)
        if typed and typed["name"] and typed["name"] not in known_commands(self._chat()) and len(found) == 1:
            self._message.apply_completion(found[0])

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        used: list[Any] = []
        typing = Condition(lambda: get_app().layout.has_focus(self._message_control))
        choosing = Condition(lambda: get_app().current_buffer.complete_state is not None)
        empty = Condition(lambda: not get_app().current_buffer.text)
        searching = Condition(lambda: get_app().layout.is_searching)
        queued = Condition(lambda: bool(self._chat().queue) and self._message.document.on_first_line)

        def on(*names: str, **when: Any) -> Callable[[Callable[[KeyPressEvent], None]], None]:
            return lambda do: used.append(keys.add(*names, **when)(do))

        @on("enter", filter=~searching)
        def _enter(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            chosen = buffer.complete_state is not None and buffer.complete_state.current_completion is not None
            buffer.complete_state = None
            if chosen and (not buffer.text.startswith("/") or _MENTION.search(buffer.document.text_before_cursor)):
                return  # it chose a file; the next one sends
            if buffer.document.current_line.endswith("\\") and buffer.document.is_cursor_at_the_end:
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
                return
            if buffer is self._message:
                self._complete_command()
            self._send(buffer)

        @on(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if text:
                event.current_buffer.insert_text(text)
            elif typing():  # what some terminals make of an image
                event.app.create_background_task(self._paste_image())

        @on("c-c", filter=~searching)
        def _stop(event: KeyPressEvent) -> None:
            if self._asking is not None:
                self.interrupt()
            elif self._waiting is None or self._waiting.done():
                self._chat().interrupted()
            elif event.current_buffer.text and not self._chat().just_stopped:
                event.current_buffer.reset()  # away with the line; an empty one is what Ctrl-C leaves by
            else:
                self.interrupt()

        @on("escape", filter=~searching)
        def _escape(event: KeyPressEvent) -> None:
            if event.current_buffer.complete_state is not None:
                event.current_buffer.cancel_completion()
            elif self._asking is not None:
                self.interrupt()
            else:
                self._chat().stop()

        simple: tuple[tuple[tuple[str, ...], Filter, KeyHandlerCallable], ...] = (
            (("tab",), typing & ~searching, lambda _event: self._tab()),
            (("escape", "enter"), Always(), lambda event: event.current_buffer.insert_text("\n")),
            (("c-v",), typing, lambda _event: self._paste_image()),
            (("c-d",), empty & ~searching, lambda _event: self._fail(EOFError())),
            (("up",), typing & queued & ~choosing, lambda _event: self.put_back(self._chat().recall())),
            (("s-tab",), typing & ~choosing, lambda _event: self._chat().next_mode()),
            (("c-o",), typing, lambda _event: self._chat().printer.unfold()),
            (("c-l",), Always(), lambda _event: self._screen.clear()),
            (("c-z",), Always(), lambda _event: self._suspend()),
            (("c-x", "c-e"), typing, lambda _event: self._edit()),
        )
        for names, when, do in simple:
            keys.add(*names, filter=when)(do)
        return keys

    async def _paste_image(self) -> None:
        if label := await self._chat().clipboard_image():
            self._message.insert_text(label)

    @asynccontextmanager
    async def away(self) -> AsyncGenerator[None]:
        with self._screen.away():
            if self._app is None or not self._app.is_running:
                yield
                return
            self._screen.pastes(False)
            with self._app.input.detach(), self._app.input.cooked_mode():
                yield
            self._screen.pastes(True)

    async def _suspend(self) -> None:
        """What Ctrl-Z does to a program that does not read it as a key."""
        async with self.away():
            os.kill(0, signal.SIGTSTP)

    async def _edit(self) -> None:
        """The text in `$VISUAL` or `$EDITOR`; it comes back, and is not sent."""
        from shutil import which

        named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        try:
            command = shlex.split(named) if named else [one for one in _EDITORS if which(one)][:1]
        except ValueError:
            command = []
        if not command or which(command[0]) is None:
            self._chat().say(_("No editor was found. Set EDITOR to the one you use."), "warned")
            return
        with tempfile.NamedTemporaryFile("w+", encoding="utf-8", errors="replace", suffix=".md") as file:
            file.write(self._message.text)
            file.flush()
            async with self.away():
                process = await asyncio.create_subprocess_exec(*command, file.name)
                code = await process.wait()
            if code:
                words = _("{editor} ended with code {code}; your text is as it was.")
                self._chat().say(words.format(editor=command[0], code=code), "warned")
                return
            text = await asyncio.to_thread(_content, file.name)
        self._message.document = Document(text, len(text))


def _content(name: str) -> str:
    """By its name: most editors put another file in its place."""
    return Path(name).read_text(encoding="utf-8", errors="replace").removesuffix("\n")


def _mark(paint: Callable[[str, str], str]) -> Callable[[str], str]:
    return lambda mark: paint("prompt", mark)


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
    """Only a command or a file is completed while it is typed."""
    before = get_app().current_buffer.document.current_line_before_cursor
    word = before.rpartition(" ")[2]
    return (
        word.startswith("@") or '@"' in before or (before.startswith("/") and get_app().current_buffer.text[:1] == "/")
    )
