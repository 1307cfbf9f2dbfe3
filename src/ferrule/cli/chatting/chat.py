"""One conversation at a terminal: what the person says goes to a command or to the agent, until they leave."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
from contextlib import aclosing, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.cli.chatting.commands import run_command
from ferrule.cli.chatting.event_printer import EventPrinter
from ferrule.cli.chatting.mentions import expand
from ferrule.cli.chatting.question_place import QuestionPlace
from ferrule.cli.chatting.text_rows import visible, wrapped
from ferrule.cli.server_talk.questions import ServerQuestions
from ferrule.cli.words import _
from ferrule.process.signals import on_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ferrule.cli.chatting.assistant import ChatAssistant
    from ferrule.cli.chatting.person_input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.mcp_client.servers import RemoteServer
    from ferrule.plugins.plugin import BrokenModule


# Ctrl-C: once stops what runs, twice within two seconds leaves.


SECONDS = 2.0


class Interrupts:
    """Remembers when Ctrl-C was pressed last."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._last: float | None = None

    def again(self) -> bool:
        """Note one more, and say whether it came so soon after the one before that it means to leave."""
        last, self._last = self._last, self._now()
        return last is not None and self._last - last <= SECONDS


# What the person types while the agent works: a line of it goes to the agent, and nothing is echoed by the terminal.


_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_MOST = 10_000
_JOINERS = "\u200c\u200d"  # between the parts of one emoji, or of one syllable


class TypedLine:
    """The line as it grows; keys that move or complete are passed over."""

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._kept = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines that were finished."""
        keys = _SEQUENCE.sub("", self._kept + self._decoder.decode(data))
        self._kept = ""
        if cut := _UNFINISHED.search(keys):
            self._kept, keys = cut[0], keys[: cut.start()]
        lines: list[str] = []
        for key in keys:
            if key in "\r\n":
                if self.text.strip():
                    lines.append(self.text.strip())
                self.text = ""
            else:
                self._press(key)
        return lines

    def _press(self, key: str) -> None:
        if key in "\x7f\x08":
            self.text = _without_last(self.text)
        elif key == "\x15":
            self.text = ""
        elif key == "\x17":
            self.text = self.text.rstrip().rpartition(" ")[0]
        elif (key.isprintable() or key in _JOINERS) and len(self.text) < _MOST:
            self.text += key


def _without_last(text: str) -> str:
    from wcwidth import iter_graphemes

    return "".join(list(iter_graphemes(text))[:-1])


class Steering:
    """Listens at a terminal; `off` is for places where nobody types, or where lines are read whole."""

    def __init__(
        self, descriptor: int | None, on_line: Callable[[str], None], on_change: Callable[[str], None]
    ) -> None:
        self._descriptor = descriptor
        self._on_line = on_line
        self._on_change = on_change
        self._line = TypedLine()
        self._before: list[object] | None = None

    @contextmanager
    def listening(self) -> Generator[None]:
        self._listen()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Generator[None]:
        """While a question is open: its answer is read in another way."""
        listened = self._before is not None
        self._stop()
        try:
            yield
        finally:
            if listened:
                self._listen()

    def unfinished(self) -> str:
        """What was typed and not sent; it is given once."""
        text, self._line = self._line.text, TypedLine()
        self._on_change("")
        return text

    def _listen(self) -> None:
        if self._descriptor is None or self._before is not None or os.name == "nt":
            return
        import termios

        with suppress(termios.error):
            before = termios.tcgetattr(self._descriptor)
            silent = list(before)
            silent[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, silent)
            self._before = before
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _stop(self) -> None:
        if self._descriptor is None or self._before is None:
            return
        import termios

        asyncio.get_running_loop().remove_reader(self._descriptor)
        before, self._before = self._before, None
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)  # pyright: ignore[reportArgumentType]

    def _read(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - it listens
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        if not data:  # the terminal is gone; a signal says so
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        for line in self._line.feed(data):
            self._on_line(line)
        self._on_change(self._line.text)


_TICK = 0.08
_LEFT_BY_SIGNAL = {"SIGTERM": 143, "SIGHUP": 129}


class Chat:
    """The parts of a conversation that its commands may use."""

    def __init__(self, screen: Screen, person: PersonInput) -> None:
        self.screen = screen
        self.person = person
        self.printer = EventPrinter(screen)
        self.steering = Steering(
            sys.stdin.fileno() if screen.live and person.by_person else None, self._steer, self._typing
        )
        self.leaving = False
        self.exit_code = 0
        self.notes_for_model: list[str] = []
        """What the person did that the model should know of; it goes along with the next message."""
        self._interrupts = Interrupts()
        self._working = False
        self.place = QuestionPlace(
            screen, self.printer, person, paused=self.steering.paused, working=lambda: self._working
        )
        self.questions = ServerQuestions(self.place)
        """What MCP servers ask of the person."""
        self._said_broken: list[BrokenModule] = []
        self._signing_in: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._assistant: ChatAssistant | None = None

    @property
    def assistant(self) -> ChatAssistant:
        if self._assistant is None:
            raise RuntimeError("The conversation has not begun.")
        return self._assistant

    @property
    def begun(self) -> bool:
        """Whether there is an assistant yet; the first prompt is there before."""
        return self._assistant is not None

    # Saying things

    def say(self, text: str, style: str = "") -> None:
        """Words of ours, safe and wrapped."""
        rows = wrapped(visible(text), self.screen.width, "  ")
        self.screen.write([self.screen.paint(style, row) if style else row for row in rows])

    def rows(self, rows: list[str]) -> None:
        """Rows that are laid out already."""
        self.screen.write(rows)

    # The conversation

    async def converse(self, opening: asyncio.Task[ChatAssistant]) -> int:
        """Until the person leaves; gives the exit code. What goes wrong while `opening` is raised."""
        self._task = asyncio.current_task()
        self._watch_signals()
        opening.add_done_callback(self._opened)
        try:
            while not self.leaving:
                await self._once(opening)
        except asyncio.CancelledError:
            if not self.leaving:
                raise
            if self._task is not None:
                self._task.uncancel()
        self._say_goodbye()
        return self.exit_code

    def _opened(self, opening: asyncio.Task[ChatAssistant]) -> None:
        if not opening.cancelled() and opening.exception() is not None:
            self.person.interrupt()  # nobody should go on typing for nothing

    async def _begin(self, opening: asyncio.Task[ChatAssistant]) -> None:
        if self._assistant is None:
            self._assistant = await opening
            self._say_broken()
            for note in self.assistant.app.notes:
                self.say(note, "warned")
            self._say_server_problems()

    def _say_broken(self) -> None:
        """What could not be loaded, once for each; the files of a folder may change between turns."""
        broken = self.assistant.app.tools.broken
        for one in broken:
            if one not in self._said_broken:
                self.say(_("{source} was skipped: {reason}").format(source=one.source, reason=one.reason), "warned")
        self._said_broken = broken

    def _say_server_problems(self) -> None:
        servers = self.assistant.app.tools.servers
        for name, one in servers.joined.items() if servers is not None else ():
            if name not in self.questions.waiting_to_sign_in:
                self._say_server_problem(name, one.server)

    def _say_server_problem(self, name: str, server: RemoteServer) -> None:
        from ferrule.cli.mcp_state import problem_line

        if line := problem_line(name, server):
            self.say(line, "warned")

    async def _sign_in(self) -> None:
        """Servers that want the person to sign in are offered it before a turn, so that it has their tools."""
        servers = self.assistant.app.tools.servers
        while self.questions.waiting_to_sign_in and servers is not None:
            name, _none = self.questions.waiting_to_sign_in.popitem()
            server = servers.joined[name].server
            self.screen.write([""])
            self._working = True
            self._signing_in = asyncio.create_task(_started(server))
            try:
                await asyncio.wait({self._signing_in})
            finally:
                self._signing_in.cancel()
                self._working, self._signing_in = False, None
            self._say_server_problem(name, server)

    async def _once(self, opening: asyncio.Task[ChatAssistant]) -> None:
        self.screen.write([""])
        try:
            said = (await self.person.message(self.steering.unfinished())).strip()
        except EOFError:
            self.leaving = True
            if not self.screen.live:
                self.screen.write([""])  # the prompt stands on a row of its own
            return
        except KeyboardInterrupt:
            if opening.done():
                await self._begin(opening)
            if self._interrupts.again():
                self.leaving = True
            else:
                self.say(_("Ctrl-C again leaves."), "faint")
            return
        if not said:
            return
        await self._begin(opening)
        if not await run_command(self, said):
            await self._sign_in()
            self._say_broken()
            await self._turn(said)

    def _say_goodbye(self) -> None:
        saved = self._assistant.saved if self._assistant is not None else None
        if saved is not None and saved.problem:
            self.say(_("The conversation could not be saved: {why}").format(why=saved.problem), "warned")
        elif saved is not None and self.assistant.agent.conversation.messages:
            self.say(_("To go on later: ferrule chat --resume {id}").format(id=saved.id[:8]), "faint")

    async def _turn(self, said: str) -> None:
        agent = self.assistant.agent
        self._working = True
        ticking = asyncio.create_task(self._tick())
        try:
            with self.steering.listening():
                expanded = await expand(said, self.assistant.app.runtime)
                for note in expanded.notes:
                    self.say(note, "warned")
                notes, self.notes_for_model = self.notes_for_model, []
                text = "\n\n".join([*(f"[{note}]" for note in notes), expanded.text])
                async with aclosing(agent.run(text, expanded.attachments)) as events:
                    async for event in events:
                        self.printer.handle(event)
        finally:
            self._working = False
            ticking.cancel()
            self.screen.show(())

    async def _tick(self) -> None:
        while True:
            self.printer.tick()
            await asyncio.sleep(_TICK)

    def _steer(self, line: str) -> None:
        self.assistant.agent.steer(line)

    def _typing(self, text: str) -> None:
        self.printer.typed = text

    # Stopping

    def interrupted(self) -> None:
        """Ctrl-C: at work it stops the turn, at the prompt the line; soon after another one it leaves."""
        if not self._working or self.place.is_open:
            self.person.interrupt()
        elif self._signing_in is not None:
            self._signing_in.cancel()
        elif self._interrupts.again():
            self._leave(0)
        else:
            self.assistant.agent.interrupt()

    def _leave(self, code: int) -> None:
        """End everything from here on: the turn, the question, the program."""
        if self.leaving:
            return
        self.leaving, self.exit_code = True, code
        if self._task is not None:
            self._task.cancel()

    def _watch_signals(self) -> None:
        on_signal("SIGINT", self.interrupted)
        for name, code in _LEFT_BY_SIGNAL.items():
            on_signal(name, self._leave, code)


async def _started(server: RemoteServer) -> None:
    from ferrule.mcp_client.failures import Failed

    with suppress(Failed):  # noted in its `problem`
        await server.start()
