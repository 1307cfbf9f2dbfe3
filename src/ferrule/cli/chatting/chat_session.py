"""One conversation at a terminal: what the user says goes to a command or to the agent, until they leave."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections import deque
from contextlib import aclosing, suppress
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from ferrule.agent.agent_events import Answered, Ending, TurnEnded
from ferrule.agent.conversation import Conversation, said_by_user
from ferrule.agent.saved_sessions import SavedConversation, SavedConversationError, listed
from ferrule.app.assistant import build_assistant, model_for, resume
from ferrule.app.settings import sessions_folder
from ferrule.cli.chatting.call_view import shows_output
from ferrule.cli.chatting.editor_rows import typed_rows
from ferrule.cli.chatting.event_printer import EventPrinter, money
from ferrule.cli.chatting.input import Interrupts
from ferrule.cli.chatting.mentions import Expanded, expand
from ferrule.cli.chatting.screen import LiveScreen, cut, kept, wrapped
from ferrule.cli.words import _
from ferrule.core.access import Mode
from ferrule.core.errors import ToolError
from ferrule.core.loops import on_signal
from ferrule.core.model import ModelError, Prepares, UserMessage
from ferrule.core.shown_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ferrule.agent.saved_sessions import SessionLine
    from ferrule.app.assistant import Resumed
    from ferrule.app.build import App
    from ferrule.cli.chatting.input import PersonInput
    from ferrule.cli.chatting.questions import QuestionPlace
    from ferrule.cli.chatting.screen import Screen
    from ferrule.cli.server_talk.questions import ServerQuestions
    from ferrule.core.model import Model
    from ferrule.core.result import Attachment
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
        self._replaced: list[Model] = []
        self._tell: Callable[[str], None] = lambda _words: None

    @property
    def id(self) -> str:
        return self.app.runtime.session.id

    @property
    def saved(self) -> SavedConversation | None:
        """The conversation's file; None where nothing is saved."""
        return self._built.saved

    def begin(self) -> None:
        """A new conversation, in which nothing was said or read."""
        session, name = self.app.runtime.session, uuid.uuid4().hex
        saved = None
        if self.app.settings.assistant.save:
            saved = SavedConversation(sessions_folder(), name, session.workspace, self.agent.model.name)
        self._enter(name, saved, Conversation(journal=saved))

    def resume(self, named: str = "") -> None:
        """Go on with a saved conversation: the one named, or the last but this; raises `SavedConversationError`."""
        others = [one.id for one in self.sessions() if one.id != self.id]
        if not named and not others:
            raise SavedConversationError(_("No other conversation is saved for this folder."))
        if named and self.id.startswith(named):
            return
        found = resume(self.app.runtime.session.workspace, named or others[0])
        if found is not None:
            self._enter(found.saved.id, found.saved, found.conversation)

    def _enter(self, name: str, saved: SavedConversation | None, conversation: Conversation) -> None:
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
            saved = SavedConversation(
                sessions_folder(), name, self.app.runtime.session.workspace, self.agent.model.name
            )
            saved.take_over(copy)
        self._enter(name, saved, copy)

    def rewind(self, at: int) -> str:
        """Take the conversation back to before one of the user's messages; gives what they had said in it."""
        conversation = self.agent.conversation
        if conversation.open is not None:  # of a program that was ended: it is given up with this
            conversation.end_turn(Ending.INTERRUPTED, conversation.open.usage, self.agent.model.name)
        said = said_by_user(conversation.messages[at])
        conversation.replace(conversation.messages[:at])
        self._enter(self.id, self._built.saved, conversation)
        return said

    def sessions(self) -> Sequence[SessionLine]:
        """The saved conversations of this folder, the newest first."""
        return list(listed(sessions_folder(), self.app.runtime.session.workspace))

    async def use_model(self, name: str) -> None:
        """From the next question to a model on."""
        model, before = model_for(name, self.app.settings), self.agent.model
        await self._stop_preparing()
        self.agent.model = model
        self._replaced.append(before)
        if not self.agent.working:
            await self.close_replaced()
        self.prepare_model(self._tell)

    async def close_replaced(self) -> None:
        """Let go of models that were in use before; not while a turn may still hear from one."""
        while self._replaced:
            await self._replaced.pop().close()

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
        await self.close_replaced()
        await self._built.close()


RunCommand: TypeAlias = "Callable[[Chat, str], Awaitable[bool]]"
"""Carries out what was said if it is a `/command`, and says whether it was."""
StopsTurn: TypeAlias = "Callable[[Chat, str], bool | None]"
"""Whether what was said is a command for which a turn has to be stopped; None where it is for the model."""
_COMMAND = re.compile(r"/[\w:-]+(?!\S)")
_TICK = 0.08
_LEFT_BY_SIGNAL = {"SIGTERM": 143, "SIGHUP": 129}
_CYCLE = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN)
"""The modes of Shift-Tab. Those that refuse or run everything are chosen by name, not by a slip of a key."""


class Chat:
    """The parts of a conversation that its commands may use."""

    def __init__(
        self,
        screen: Screen,
        person: PersonInput,
        run_command: RunCommand,
        *,
        stops_turn: StopsTurn = lambda _chat, _said: None,
        model: str = "",
        mode: str = "default",
    ) -> None:
        self._run_command = run_command
        self._stops_turn = stops_turn
        self.screen = screen
        self.person = person
        self.printer = EventPrinter(
            screen, shows_output=lambda tool: shows_output(self.assistant.app.runtime.tools.get(tool))
        )
        self.queue: deque[str] = deque()
        """What was said while the agent worked, until the model reads it or the user has it back."""
        self.printer.queued = self.queue
        self.prompted = asyncio.Event()
        """Set once the user can type; what takes long to load comes after that."""
        self.leaving = False
        self.exit_code = 0
        self.notes_for_model: list[str] = []
        """What the person did that the model should know of; it goes along with the next message."""
        self.for_model: dict[str, str] = {}
        """What the model gets in place of what was typed, where that was a command with words for it."""
        self.images: dict[str, Attachment] = {}
        """What was pasted, by the words that stand for it in the text."""
        self._next: deque[str] = deque()
        """Commands that wait for the turn to be over, which they have stopped."""
        self._acting: set[asyncio.Task[None]] = set()
        self._own: set[asyncio.Task[Any]] = set()
        self._one_command = asyncio.Lock()
        self._model, self._first_mode = model, mode
        self._chosen_mode: str | None = None
        """What was chosen before there was an assistant to tell."""
        self._entered = asyncio.Event()
        self._context_left: int | None = None
        self._interrupts = Interrupts()
        self._working = False
        self._said_broken: list[BrokenModule] = []
        self._begun = False
        self._signing_in: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._assistant: ChatAssistant | None = None

    @property
    def assistant(self) -> ChatAssistant:
        if self._assistant is None:
            raise RuntimeError("The conversation has not begun.")
        return self._assistant

    @cached_property
    def place(self) -> QuestionPlace:
        """Where questions are asked; loaded with the tools, after the first prompt."""
        from ferrule.cli.chatting.questions import QuestionPlace

        return QuestionPlace(self.screen, self.printer, self.person, working=lambda: self._working)

    @cached_property
    def questions(self) -> ServerQuestions:
        """What MCP servers ask of the user."""
        from ferrule.cli.server_talk.questions import ServerQuestions

        return ServerQuestions(self.place)

    @property
    def begun(self) -> bool:
        """Whether there is an assistant yet; the first prompt is there before."""
        return self._assistant is not None

    # Saying things

    def say(self, text: str, style: str = "", *, hang: int = 0) -> None:
        """Words of ours, safe and wrapped; rows after the first begin so many columns further right."""
        rows = wrapped(visible(text), self.screen.width, "  ", " " * (2 + hang))
        self.screen.write([self.screen.paint(style, row) if style else row for row in rows])

    def rows(self, rows: list[str]) -> None:
        """Rows that are laid out already."""
        self.screen.write(rows)

    def echo(self, text: str, prompt: str = "› ") -> None:
        """What was typed, as it stays on the screen."""
        typed = typed_rows(text, 0, prompt, self.screen.width, paint=lambda mark: self.screen.paint("prompt", mark))
        self.screen.write(
            [row.rstrip() for row in typed.rows] if text else [self.screen.paint("prompt", prompt.strip())]
        )

    # What the prompt says

    @property
    def mode(self) -> str:
        """How much runs without asking."""
        return str(self._policy.mode) if self._assistant is not None else self._chosen_mode or self._first_mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._chosen_mode = mode
        if self._assistant is not None:
            self._policy.mode = Mode(mode)

    @property
    def _policy(self) -> Any:
        return self.assistant.app.runtime.policy

    def next_mode(self) -> None:
        """Shift-Tab."""
        at = _CYCLE.index(self.mode) if self.mode in _CYCLE else -1
        self.mode = _CYCLE[(at + 1) % len(_CYCLE)]
        if isinstance(self.screen, LiveScreen):
            self.screen.refresh()

    @property
    def prompt(self) -> str:
        return "› " if self.mode == "default" else f"{self.mode} › "

    def status_rows(self, width: int) -> list[str]:
        """Mode, model, what is left of its context, and what the conversation cost."""
        from wcwidth import width as cells

        left = 100 if self._context_left is None else self._context_left
        words = _("{n}% context left") if width >= 60 else _("{n}% left")
        rest = [words.format(n=left), self._cost(width)]
        model = self.assistant.agent.model.name if self._assistant is not None else self._model
        room = width - cells(" · ".join([self.mode, "", *rest])) - 2
        if cells(model) > room:
            model = model.rpartition("/")[2]
        parts = [self.mode, cut(model, max(6, room)), *rest]
        return [self.screen.paint("faint", cut(f"  {' · '.join(parts)}", width))]

    def _cost(self, width: int) -> str:
        if self._assistant is None:
            return money(0)
        agent = self.assistant.agent
        used = agent.conversation.usage if agent.meter is None else agent.conversation.usage + agent.meter.usage
        tokens = used.total_tokens
        if used.cost is None and tokens:  # nobody knows the price
            count = f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:,.0f}k"
            return _("{n} tokens").format(n=count) if width >= 60 else count
        return money(used.cost or 0)

    def _measure_context(self) -> None:
        agent = self.assistant.agent
        limit = agent.room.limit(agent.model, agent.limits.context_tokens)
        self._context_left = max(0, 100 - round(100 * agent.room.tokens(agent.system) / limit))

    def call_back(self, seconds: float) -> None:
        """The user is waited for after they had to wait so long themselves."""
        if self._assistant is None or not isinstance(self.screen, LiveScreen):
            return
        chosen = self.assistant.app.settings.assistant
        if chosen.notify != "off" and seconds >= chosen.notify_seconds:
            self.screen.ring(_("Ferrule is waiting for you") if chosen.notify == "desktop" else "")

    async def clipboard_image(self) -> str:
        """What stands in the text for the image in the clipboard; where there is none, it is said."""
        from ferrule.cli.chatting.clipboard import image_in_clipboard

        try:
            image = await image_in_clipboard()
        except ToolError as error:
            self.say(error.message, "warned")
            return ""
        label = f"[Image {len(self.images) + 1}]"
        self.images[label] = image
        return label

    # The conversation

    async def converse(self, opening: asyncio.Task[ChatAssistant], first: str = "") -> int:
        """Until the person leaves; gives the exit code. What goes wrong while `opening` is raised. `first` is said
        before anything is typed.
        """
        self._task = asyncio.current_task()
        on_signal("SIGINT", self.interrupted)
        for name, code in _LEFT_BY_SIGNAL.items():
            on_signal(name, self._leave, code)
        opening.add_done_callback(self._opened)
        try:
            if first:
                self.queue.append(first)
            async with self.person.reading():
                self.prompted.set()
                try:
                    while not self.leaving:
                        await self._once(opening)
                finally:
                    for task in (ending := {*self._acting, *self._own}):
                        task.cancel()
                    if ending:
                        await asyncio.wait(ending)
        except asyncio.CancelledError:
            if not self.leaving:
                raise
            if self._task is not None:
                self._task.uncancel()
        saved = self._assistant.saved if self._assistant is not None else None
        if saved is not None and saved.problem:
            self.say(_("The conversation could not be saved: {why}").format(why=saved.problem), "warned")
        elif saved is not None and self.assistant.agent.conversation.messages:
            self.say(_("To continue later: ferrule chat --resume {id}").format(id=saved.id[:8]), "faint")
        return self.exit_code

    def _opened(self, opening: asyncio.Task[ChatAssistant]) -> None:
        if opening.cancelled():
            return
        if opening.exception() is not None:
            self.person.interrupt()  # nobody should go on typing for nothing
            return
        self.enter(opening.result())

    def enter(self, assistant: ChatAssistant) -> None:
        """The assistant is there."""
        self._assistant = assistant
        if self._chosen_mode is not None:
            self.mode = self._chosen_mode
        assistant.agent.steering = self.queue
        assistant.agent.hear = self.hear
        self._measure_context()
        self._entered.set()
        if isinstance(self.screen, LiveScreen):
            self.screen.refresh()

    async def _begin(self, opening: asyncio.Task[ChatAssistant]) -> None:
        if not self._begun:
            assistant = await opening
            self._begun = True
            if self._assistant is None:
                self.enter(assistant)
            self._say_broken()
            for note in self.assistant.app.notes:
                self.say(note, "warned")
            servers = self.assistant.app.tools.servers
            for name, one in servers.joined.items() if servers is not None else ():
                if name not in self.questions.waiting_to_sign_in:
                    self._say_server_problem(name, one.made)

    def _say_broken(self) -> None:
        """What could not be loaded, once for each; the files of a folder may change between turns."""
        broken = self.assistant.app.tools.broken
        for one in broken:
            if one not in self._said_broken:
                self.say(_("{source} was skipped: {reason}").format(source=one.source, reason=one.reason), "warned")
        self._said_broken = broken

    def _say_server_problem(self, name: str, server: RemoteServer | None) -> None:
        from ferrule.cli.mcp_servers import problem_line

        if line := problem_line(name, server):
            self.say(line, "warned")

    async def _once(self, opening: asyncio.Task[ChatAssistant]) -> None:
        self.screen.write([""])
        try:
            said = await self._line()
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
        if said.startswith("!"):
            await self._own_command(said[1:].strip())
        elif await self._run_command(self, said):
            self._measure_context()  # it may have made the conversation another one
        else:
            # Servers that want the person to sign in are offered it before a turn, so that it has their tools.
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
            self._say_broken()
            await self._turn(said)

    async def _line(self) -> str:
        """What to do next: what was put off until now, what was said before the last turn was quite over, or what the
        user types.
        """
        if self._next:
            return self._next.popleft()
        if self.queue:
            said = self.queue.popleft()
            self.echo(said)
            return said
        return (await self.person.message()).strip()

    def take(self, line: str) -> None:
        """What a line does that is typed while something else runs: a command acts at once, and whatever is for the
        model waits until it reads again.
        """
        stops = self._stops_turn(self, line)
        if stops is None and not line.startswith("!"):
            self.queue.append(line)
            self.printer.draw()
        elif stops:
            self.printer.note(f"» {line}", "strong")
            self._next.append(line)
            self.stop()
        else:
            acting = asyncio.create_task(self._act(line))
            self._acting.add(acting)
            acting.add_done_callback(self._acting.discard)

    def recall(self) -> str:
        """Take back what was said last and the model has not read."""
        line = self.queue.pop()
        self.printer.draw()
        return line

    async def _act(self, line: str) -> None:
        self.printer.note(f"» {line}", "strong")
        await self._entered.wait()
        try:
            if line.startswith("!"):
                await self._own_command(line[1:].strip())
            else:
                async with self._one_command:
                    was_command = await self._run_command(self, line)
                self._measure_context()
                if not was_command:  # it has words for the model after all
                    self.queue.append(line)
                    self.printer.draw()
        except Exception as error:
            logger.exception("A command failed")
            self.say(_("An internal error stopped the command: {kind}.").format(kind=type(error).__name__), "bad")

    async def _own_command(self, command: str) -> None:
        """`!command`: run by the user; the model hears of it with the next message, or while it works with the next
        results.
        """
        from ferrule.cli.chatting.own_commands import OwnRun, run_own

        if not self.person.by_person:
            self.say(_("`!command` works only at a terminal, not from a pipe."), "warned")
            return
        if not command:
            self.say(_("Write a command after `!`; it runs as you, and the model reads its output."))
            return
        during_turn, alone = self._working, not self._acting

        def show(line: str) -> None:
            line = visible(line)
            self.printer.output(kept(line, self.screen.width, "  ") if self.screen.live else [f"  {line}"])

        self.printer.own_commands[command] = monotonic()
        ticking = asyncio.create_task(self._tick()) if alone else None
        running = asyncio.create_task(run_own(command, self.assistant.app.runtime.session.directory, show))
        self._own.add(running)
        try:
            await asyncio.wait({running})
        finally:
            running.cancel()
            self._own.discard(running)
            self.printer.own_commands.pop(command, None)
            if ticking is not None:
                ticking.cancel()
                self.screen.show(())
        if not running.cancelled() and isinstance(error := running.exception(), OSError):
            self.say(_("The command could not be started: {why}").format(why=error.strerror or error), "bad")
            return
        ran = OwnRun(command, None, "") if running.cancelled() else running.result()
        if ran.code is None:
            self.printer.note(_("Stopped."), "warned")
        elif ran.code:
            self.printer.note(_("ended with code {code}").format(code=ran.code), "warned")
        self.notes_for_model.append(ran.note)
        if during_turn and self._working:
            self.queue.append(f"!{command}")

    def do_next(self, line: str) -> None:
        """Do this before anything else that the user says."""
        self._next.append(line)

    async def go_on(self) -> None:
        """Go on with the turn of the conversation that was cut off."""
        await self._turn(None)

    async def _turn(self, said: str | None) -> None:
        agent = self.assistant.agent
        self._working = True
        ticking = asyncio.create_task(self._tick())
        ending = Ending.INTERRUPTED
        try:
            if said is None:
                happening = agent.resume_run()
            else:
                message = await self.hear(said)
                happening = agent.run(message.text, message.attachments, typed=said)
            async with aclosing(happening) as events:
                async for event in events:
                    self.printer.handle(event)
                    if isinstance(event, Answered):
                        self._measure_context()
                    elif isinstance(event, TurnEnded):
                        ending = event.ending
        finally:
            self._working = False
            ticking.cancel()
            self.screen.show(())
        await self.assistant.close_replaced()
        self._measure_context()
        self.for_model.clear()  # a command that is still queued is carried out anew
        self._settle_queue(ending)

    def _settle_queue(self, ending: Ending) -> None:
        """What the model has not read is said next, or goes back to the prompt where the turn did not end well; what a
        command of the user wrote is kept as a note.
        """
        lines = [line for line in self.queue if not line.startswith("!")]
        self.queue.clear()
        if ending is Ending.DONE:
            self.queue.extend(lines)
            return
        apart = [line for line in lines if _COMMAND.match(line)] if len(lines) > 1 else []
        if apart:  # among other lines it would be no command any more; the history has it
            listed = _(", ").join(f"`{one_line(line)}`" for line in apart)
            self.say(_("Not sent: {lines}. Press Up for it.").format(lines=listed), "warned")
        if text := "\n".join(line for line in lines if line not in apart):
            self.person.put_back(text)

    async def hear(self, said: str) -> UserMessage:
        """What was said as the model gets it: with the files and images that it mentions, and what was done before."""
        own = said.startswith("!")  # a command whose output is among the notes
        if not own and said not in self.for_model:
            await self._run_command(self, said)  # one that was queued has words for the model
        expanded = Expanded("") if own else await expand(self.for_model.get(said, said), self.assistant.app.runtime)
        for note in expanded.notes:
            self.say(note, "warned")
        notes, self.notes_for_model = [f"[{note}]" for note in self.notes_for_model], []
        if own:
            return UserMessage("\n\n".join(notes), typed=said)
        images = [image for label, image in self.images.items() if label in said]
        return UserMessage("\n\n".join([*notes, expanded.text]), (*expanded.attachments, *images), said)

    async def _tick(self) -> None:
        while True:
            self.printer.tick()
            await asyncio.sleep(_TICK)

    # Stopping

    def interrupted(self) -> None:
        """Ctrl-C: at work it stops the turn, at the prompt the line; soon after another one it leaves."""
        if self.place.is_open or not (self._working or self._own):
            self.person.interrupt()
        elif self._signing_in is not None:
            self._signing_in.cancel()
        elif self._interrupts.again():
            self._leave(0)
        else:
            self.stop()

    @property
    def just_stopped(self) -> bool:
        """Whether Ctrl-C came a moment ago: another one quits, whatever has come back to the prompt."""
        return self._interrupts.recent

    def stop(self) -> None:
        """Esc: end what runs, the turn or the user's own commands; at the prompt there is nothing."""
        for running in self._own:
            running.cancel()
        if self._signing_in is not None:
            self._signing_in.cancel()
        elif self._working and self._assistant is not None:
            self.assistant.agent.interrupt()

    def leave(self) -> None:
        """`/quit`, whoever carries it out."""
        if asyncio.current_task() is self._task:
            self.leaving = True
        else:
            self._leave(0)

    def _leave(self, code: int) -> None:
        """End everything from here on: the turn, the question, the program."""
        if self.leaving:
            return
        self.leaving, self.exit_code = True, code
        if self._task is not None:
            self._task.cancel()


async def _started(server: RemoteServer) -> None:
    from ferrule.mcp_client.failures import Failed

    with suppress(Failed):  # noted in its `problem`
        await server.start()
