"""One conversation at a terminal: what the user says goes to a command or to the agent, until they leave."""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeAlias

from ferrule.agent.conversation import Conversation, said_by_user
from ferrule.agent.saved_sessions import SavedSession, SessionProblem, listed
from ferrule.app.assistant import build_assistant, model_for, resume
from ferrule.app.settings import sessions_folder
from ferrule.cli.chatting.call_view import shows_output
from ferrule.cli.chatting.event_printer import EventPrinter
from ferrule.cli.chatting.input import Interrupts, Steering
from ferrule.cli.chatting.mentions import expand
from ferrule.cli.chatting.questions import QuestionPlace
from ferrule.cli.chatting.screen import visible, wrapped
from ferrule.cli.server_talk.questions import ServerQuestions
from ferrule.cli.words import _
from ferrule.core.loops import on_signal
from ferrule.core.model import ModelError, Prepares

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ferrule.agent.saved_sessions import SessionLine
    from ferrule.app.assistant import Resumed
    from ferrule.app.build import App
    from ferrule.cli.chatting.input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.model import Model
    from ferrule.mcp_client.remote_server import RemoteServer
    from ferrule.plugins.plugin import BrokenModule


logger = logging.getLogger("ferrule.chat")


class ChatAssistant:
    """Begins conversations, goes on with saved ones, and lets the model be changed between turns."""

    def __init__(self, app: App, model: Model, *, resumed: Resumed | None, asks: bool) -> None:
        self.app = app
        self._built = build_assistant(app, model, resumed=resumed, asks=asks)
        self.agent = self._built.agent
        self.commands = self._built.commands
        self._take_up_todos(self.agent.conversation)
        self._preparing: asyncio.Task[None] | None = None
        self._tell: Callable[[str], None] = lambda _words: None

    @property
    def id(self) -> str:
        return self.app.runtime.session.id

    @property
    def saved(self) -> SavedSession | None:
        """The conversation's file; None where nothing is saved."""
        return self._built.saved

    def begin(self) -> None:
        """A new conversation, in which nothing was said or read."""
        session, name = self.app.runtime.session, uuid.uuid4().hex
        saved = None
        if self.app.settings.assistant.save:
            saved = SavedSession(sessions_folder(), name, session.workspace, self.agent.model.name)
        self._enter(name, saved, Conversation(journal=saved))

    def resume(self, named: str = "") -> None:
        """Go on with a saved conversation: the one named, or the last but this; raises `SessionProblem`."""
        others = [one.id for one in self.sessions() if one.id != self.id]
        if not named and not others:
            raise SessionProblem(_("No other conversation is saved for this folder."))
        if named and self.id.startswith(named):
            return
        found = resume(self.app.runtime.session.workspace, named or others[0])
        if found is not None:
            self._enter(found.saved.id, found.saved, found.conversation)

    def _enter(self, name: str, saved: SavedSession | None, conversation: Conversation) -> None:
        if self._built.saved is not None and self._built.saved is not saved:
            self._built.saved.close()
        self._built.saved = saved
        session = self.app.runtime.session
        session.id = name
        from ferrule.workspace.files import Files

        session.drop_part(Files)  # what one conversation has read another one has not
        self._take_up_todos(conversation)
        self.agent.conversation = conversation

    def _take_up_todos(self, conversation: Conversation) -> None:
        from ferrule.agent.todo_tool import todos_in, todos_of  # with pydantic, which the first prompt need not have

        todos_of(self.app.runtime.session).todos = todos_in(conversation.messages)

    def fork(self) -> None:
        """Go on in a copy of the conversation; the first stays as it is."""
        now, name = self.agent.conversation, uuid.uuid4().hex
        copy = Conversation(now.messages, usage=now.usage, turn=now.turn)
        saved = None
        if self.app.settings.assistant.save:
            saved = SavedSession(sessions_folder(), name, self.app.runtime.session.workspace, self.agent.model.name)
            saved.take_over(copy)
        self._enter(name, saved, copy)

    def rewind(self, at: int) -> str:
        """Take the conversation back to before one of the user's messages; gives what they had said in it."""
        conversation = self.agent.conversation
        said = said_by_user(conversation.messages[at])
        conversation.replace(conversation.messages[:at])
        self._enter(self.id, self._built.saved, conversation)
        return said

    def sessions(self) -> Sequence[SessionLine]:
        """The saved conversations of this folder, the newest first."""
        return list(listed(sessions_folder(), self.app.runtime.session.workspace))

    async def use_model(self, name: str) -> None:
        """From the next turn on."""
        model, before = model_for(name, self.app.settings), self.agent.model
        await self._stop_preparing()
        self.agent.model = model
        await before.close()
        self.prepare_model(self._tell)

    def prepare_model(self, tell: Callable[[str], None]) -> None:
        """Have a model that must be fetched or loaded begin with it now, before it is asked; `tell` hears what it does,
        and of the end as no words.
        """
        self._tell = tell
        if isinstance(self.agent.model, Prepares):
            self._preparing = asyncio.create_task(self._prepare(self.agent.model))

    async def _prepare(self, model: Prepares) -> None:
        self._tell(_("loading the model…"))
        try:
            await model.prepare(self._tell)
        except ModelError as error:
            logger.info("The model could not be loaded ahead; the first turn tries again, and says why not: %s", error)
        finally:
            self._tell("")

    async def _stop_preparing(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait({self._preparing})
            self._preparing = None

    async def close(self) -> None:
        await self._stop_preparing()
        await self._built.close()


# One conversation at a terminal: what the person says goes to a command or to the agent, until they leave.


RunCommand: TypeAlias = "Callable[[Chat, str], Awaitable[bool]]"
"""Carries out what was said if it is a `/command`, and says whether it was."""
_TICK = 0.08
_LEFT_BY_SIGNAL = {"SIGTERM": 143, "SIGHUP": 129}


class Chat:
    """The parts of a conversation that its commands may use."""

    def __init__(self, screen: Screen, person: PersonInput, run_command: RunCommand) -> None:
        self._run_command = run_command
        self.screen = screen
        self.person = person
        self.printer = EventPrinter(
            screen, shows_output=lambda tool: shows_output(self.assistant.app.runtime.tools.get(tool))
        )
        self.steering = Steering(
            sys.stdin.fileno() if screen.live and person.by_person else None, self._steer, self._typing
        )
        self.leaving = False
        self.exit_code = 0
        self.notes_for_model: list[str] = []
        """What the person did that the model should know of; it goes along with the next message."""
        self.for_model: dict[str, str] = {}
        """What the model gets in place of what was typed, where that was a command with words for it."""
        self.next_line = ""
        """What stands at the next prompt, to be changed and sent."""
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

    async def converse(self, opening: asyncio.Task[ChatAssistant], first: str = "") -> int:
        """Until the person leaves; gives the exit code. What goes wrong while `opening` is raised. `first` is said
        before anything is typed.
        """
        self._task = asyncio.current_task()
        self._watch_signals()
        opening.add_done_callback(self._opened)
        try:
            if first:
                self.screen.write(["", *wrapped(visible(first), self.screen.width, "› ", "… ")])
                await self._heard(opening, first)
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
                self._say_server_problem(name, one.made)

    def _say_server_problem(self, name: str, server: RemoteServer | None) -> None:
        from ferrule.cli.mcp_servers import problem_line

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
            typed, self.next_line = self.next_line or self.steering.unfinished(), ""
            said = (await self.person.message(typed)).strip()
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
                self.say(_("Ctrl-C again quits."), "faint")
            return
        if said:
            await self._heard(opening, said)

    async def _heard(self, opening: asyncio.Task[ChatAssistant], said: str) -> None:
        await self._begin(opening)
        if not await self._run_command(self, said):
            await self._sign_in()
            self._say_broken()
            await self._turn(said)

    def _say_goodbye(self) -> None:
        saved = self._assistant.saved if self._assistant is not None else None
        if saved is not None and saved.problem:
            self.say(_("The conversation could not be saved: {why}").format(why=saved.problem), "warned")
        elif saved is not None and self.assistant.agent.conversation.messages:
            self.say(_("To continue later: ferrule chat --resume {id}").format(id=saved.id[:8]), "faint")

    async def _turn(self, said: str) -> None:
        agent = self.assistant.agent
        self._working = True
        ticking = asyncio.create_task(self._tick())
        try:
            with self.steering.listening():
                expanded = await expand(self.for_model.pop(said, said), self.assistant.app.runtime)
                for note in expanded.notes:
                    self.say(note, "warned")
                notes, self.notes_for_model = self.notes_for_model, []
                text = "\n\n".join([*(f"[{note}]" for note in notes), expanded.text])
                async with aclosing(agent.run(text, expanded.attachments, typed=said)) as events:
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
