"""The agent's side of the Agent Client Protocol: sessions that an editor opens, asks, stops, and goes on with.

Each session is an app of its own, with the settings of its folder: the same tools, rules, records and undo as in the
terminal. Files are read and written on disk, through those tools, so that rules and undo hold for them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import uuid
from base64 import b64decode
from binascii import Error as Base64Error
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote, urlsplit

from acp import PROTOCOL_VERSION, RequestError
from acp.agent.connection import AgentSideConnection
from acp.helpers import (
    update_agent_message_text,
    update_agent_thought_text,
    update_available_commands,
    update_tool_call,
)
from acp.schema import (
    AgentCapabilities,
    AvailableCommand,
    AvailableCommandInput,
    EmbeddedResourceContentBlock,
    ForkSessionResponse,
    HttpMcpServer,
    ImageContentBlock,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResourceContentBlock,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
    SseMcpServer,
    TextContentBlock,
    TextResourceContents,
    UnstructuredCommandInput,
)

from ferrule._version import __version__
from ferrule.acp_server.updates import ALWAYS, ONCE, asked, code_content, ended, is_todo, plan_of, started, told_again
from ferrule.agent.agent_events import AgentNotice, CallAsked, Compacted, Ending, TurnEnded
from ferrule.agent.saved_sessions import SavedConversationError, find, fork, listed, load
from ferrule.agent.todo_tool import todos_in, todos_of
from ferrule.app.assistant import Resumed, build_assistant, model_for
from ferrule.app.build import App
from ferrule.app.mcp_servers import without_wrong_servers
from ferrule.app.settings import McpServerSettings, sessions_folder
from ferrule.core.call import RawCall
from ferrule.core.errors import ToolError
from ferrule.core.events import Done, PartialOutput, Pending
from ferrule.core.json_lines import parse_line
from ferrule.core.model import ModelError, Preparing, Retrying, TextDelta, ThinkingDelta
from ferrule.core.phrases import joined, phrase, said_by
from ferrule.core.result import Attachment
from ferrule.core.shown_text import visible
from ferrule.pipeline.authorise import Mode
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.workspace.files import files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from acp.interfaces import Client

    from ferrule.agent.agent import Agent
    from ferrule.agent.agent_events import AgentEvent
    from ferrule.app.assistant import Assistant
    from ferrule.app.settings import Settings
    from ferrule.core.events import Question
    from ferrule.workspace.snapshots.undo_report import Report

logger = logging.getLogger("ferrule.acp_server")

_COMMAND = re.compile(r"/(?P<name>[\w:-]+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_STOPS = {Ending.INTERRUPTED: "cancelled", Ending.LIMIT: "max_turn_requests", Ending.DENIED: "refusal"}
_LISTED = 100
_MOST_OUTPUT = 4_000
_BETWEEN = 0.25
_INVALID, _FAILED = -32602, -32603


class ByteLines(Protocol):
    """Where messages come from and go to, a line each."""

    async def read(self) -> bytes | None: ...

    async def write(self, line: bytes) -> None: ...


class MessageLines:
    """JSON-RPC messages over lines. What is no message is answered with an error, and does not end the connection."""

    def __init__(self, lines: ByteLines) -> None:
        self._lines = lines

    async def send(self, message: dict[str, Any]) -> None:
        await self._lines.write(
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        )

    async def receive(self) -> dict[str, Any] | None:
        while (line := await self._lines.read()) is not None:
            if not line.strip():
                continue
            try:
                message = parse_line(line)
            except ValueError:
                await self._refuse(-32700, "The line is not JSON.")
                continue
            if isinstance(message, dict):
                return cast("dict[str, Any]", message)
            await self._refuse(-32600, "A message is a JSON object.")
        return None

    async def close(self) -> None:
        """The streams belong to whoever opened them."""

    async def _refuse(self, code: int, words: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": words}})


async def serve_editor(lines: ByteLines, agent: EditorAgent) -> None:
    """Until the editor is gone; every session is closed then, and what runs in it stopped."""
    connection = AgentSideConnection(agent, MessageLines(lines), listening=False, use_unstable_protocol=True)  # pyright: ignore[reportArgumentType]
    try:
        await connection.listen()
    finally:
        await connection.close()
        await agent.close()


class EditorSession:
    """One conversation that an editor shows."""

    def __init__(self, client: Client, say: Callable[[str], str]) -> None:
        self._client = client
        self._say = say
        self._stack = AsyncExitStack()
        self._announced: set[str] = set()
        self._output: dict[str, tuple[str, float]] = {}
        self._notes: list[str] = []
        """What the user did that the model should know of; it goes along with the next message."""
        self.app: App
        self.assistant: Assistant

    async def open(self, settings: Settings, workspace: Path, model: str, resumed: Resumed | None) -> None:
        """Start the tools and the model; raises `ModelError`, or `ValueError` and `OSError` for what is set wrong."""
        chosen = model_for(model or (resumed.saved.model if resumed is not None else ""), settings)
        self.app = App(settings, workspace, ask=self.ask)
        await self._stack.enter_async_context(self.app)
        self.assistant = build_assistant(self.app, chosen, resumed=resumed)
        self._stack.push_async_callback(self.assistant.close)
        todos_of(self.app.runtime.session).todos = todos_in(self.agent.conversation.messages)

    async def close(self) -> None:
        self.agent.interrupt()
        await self._stack.aclose()

    @property
    def agent(self) -> Agent:
        return self.assistant.agent

    @property
    def id(self) -> str:
        return self.app.runtime.session.id

    @property
    def workspace(self) -> Path:
        return self.app.runtime.session.workspace

    async def show(self, update: Any) -> None:
        await self._client.session_update(session_id=self.id, update=update)

    # A turn

    async def prompt(self, text: str, attachments: Sequence[Attachment]) -> str:
        """One turn, or one of our commands; gives the reason for its end, in the protocol's words."""
        typed = text
        if found := _COMMAND.fullmatch(text.strip()):
            name, rest = found["name"], (found["rest"] or "").strip()
            if name in _OWN:
                await self._run_own(name, rest)
                return "end_turn"
            custom = self.assistant.commands.all().get(name)
            if custom is not None and custom.for_user:
                text = custom.message(rest)
        notes, self._notes = self._notes, []
        text = "\n\n".join([*(f"[{note}]" for note in notes), text])
        last: TurnEnded | None = None
        async with aclosing(self.agent.run(text, attachments, typed=typed)) as events:
            async for event in events:
                await self._tell(event)
                if isinstance(event, TurnEnded):
                    last = event
        self._announced.clear()
        self._output.clear()
        return await self._end(last)

    async def _end(self, last: TurnEnded | None) -> str:
        if last is None:
            return "cancelled"
        words = self._say(joined(" ", [last.problem, last.suggestion]))
        if last.ending is Ending.FAILED:
            raise RequestError(_FAILED, words)
        if words and last.ending is not Ending.INTERRUPTED:
            await self.show(update_agent_message_text(visible(f"\n\n{words}")))
        return _STOPS.get(last.ending, "end_turn")

    async def _tell(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            await self.show(update_agent_message_text(visible(event.text)))
        elif isinstance(event, ThinkingDelta):
            await self.show(update_agent_thought_text(visible(event.text)))
        elif isinstance(event, CallAsked):
            await self._announce(event.call, self._say(event.doing))
        elif isinstance(event, Pending) and event.call_id in self._announced:
            await self.show(update_tool_call(event.call_id, status="in_progress"))
        elif isinstance(event, PartialOutput) and isinstance(event.content, str) and event.call_id in self._announced:
            await self._stream(event.call_id, event.content)
        elif isinstance(event, Done) and event.call_id in self._announced:
            error = event.result.error
            said = self._say(joined(" ", [error.message, error.suggestion or ""])) if error is not None else ""
            await self.show(ended(event.result, self.workspace, said))
            if is_todo(event.tool) and event.result.success:
                await self.show(plan_of(todos_of(self.app.runtime.session).todos))
        elif isinstance(event, Retrying):
            await self._remark(phrase("{why} Retrying in {seconds} s.", why=event.why, seconds=f"{event.seconds:.0f}"))
        elif isinstance(event, Compacted):
            await self._remark(phrase("Earlier messages were summarised."))
        elif isinstance(event, AgentNotice | Preparing):
            await self._remark(event.text)

    async def _stream(self, call_id: str, piece: str) -> None:
        """The end of what a command has written until now, at most a few times a second."""
        text, shown_at = self._output.get(call_id, ("", 0.0))
        text, now = (text + piece)[-_MOST_OUTPUT:], monotonic()
        if now - shown_at >= _BETWEEN:
            shown_at = now
            await self.show(update_tool_call(call_id, content=[code_content(text)]))
        self._output[call_id] = (text, shown_at)

    async def _remark(self, words: str) -> None:
        await self.show(update_agent_thought_text(visible(f"{self._say(words)}\n")))

    async def _announce(self, call: RawCall, title: str) -> None:
        if call.id not in self._announced:
            self._announced.add(call.id)
            await self.show(started(call, title, self.app.runtime.tools.get(call.name), self.workspace))

    async def ask(self, question: Question) -> Answer:
        """A question to the user, in their editor. One that is cancelled stops the turn."""
        invocation = question.invocation
        update, options = asked(question, self.workspace, self._say)
        given = invocation.tool.params.dump(invocation.params)
        call = RawCall(invocation.tool.name, given, id=invocation.call_id)
        await self._announce(call, question.summary)
        answer = await self._client.request_permission(session_id=self.id, tool_call=update, options=options)
        if answer.outcome.outcome == "cancelled":
            self.agent.interrupt()
            return Answer(Choice.NO, "they stopped the turn")
        chosen = {ONCE: Choice.ONCE, ALWAYS: Choice.ALWAYS}.get(answer.outcome.option_id, Choice.NO)
        offered = any(one.option_id == answer.outcome.option_id for one in options)
        return Answer(chosen if offered else Choice.NO)

    # Commands of ours

    async def announce_commands(self) -> None:
        """Tell the editor which commands it can offer."""
        own = [_command(name, self._say(about), takes) for name, (about, takes) in _OWN.items()]
        custom = [_command(one.name, one.about, one.takes) for one in self.assistant.commands.for_user()]
        await self.show(update_available_commands([*own, *custom]))

    async def _run_own(self, name: str, rest: str) -> None:
        history, session = files_of(self.app.runtime.session).history, self.id
        if name == "compact":
            compacted = await self.agent.compact()
            words: str = (
                phrase("There is too little to summarise.")
                if compacted is None
                else phrase("Earlier messages were summarised.")
            )
        elif name == "redo":
            words = self._undone(await asyncio.to_thread(history.redo_turn, session))
        elif rest and (not rest.isdecimal() or not int(rest)):
            words = phrase("`/undo` takes a number of turns.")
        else:
            report, _turns = await asyncio.to_thread(history.undo_turns, session, most=int(rest or 1))
            words = self._undone(report)
        await self.show(update_agent_message_text(visible(self._say(words))))

    def _undone(self, report: Report) -> str:
        if not report.changes:
            return report.words
        history = files_of(self.app.runtime.session).history
        names = [f"`{name}`" for name in dict.fromkeys(history.show(one.path) for one in report.changes)]
        verb = "undid" if report.undo else "redid"
        self._notes.append(
            f"The user {verb} your changes to {', '.join(names[:20])}. Read a file again before you edit it."
        )
        return joined("\n", [report.words, *names])

    async def tell_again(self) -> None:
        """All that was said before, for an editor that opens the conversation."""
        for update in told_again(self.agent.conversation.messages, self.app.runtime.tools.get, self.workspace):
            await self.show(update)
        if todos := todos_of(self.app.runtime.session).todos:
            await self.show(plan_of(todos))


_OWN: dict[str, tuple[str, str]] = {
    "undo": (phrase("Undo what the last turn changed, or the last N turns."), "[N]"),
    "redo": (phrase("Redo what was undone last."), ""),
    "compact": (phrase("Summarise earlier messages."), ""),
}


def _command(name: str, about: str, takes: str) -> AvailableCommand:
    hint = AvailableCommandInput(root=UnstructuredCommandInput(hint=takes)) if takes else None
    return AvailableCommand(name=name, description=about or name, input=hint)


class EditorAgent:
    """What an editor calls. `settings_of` gives the settings of a folder, `modes` the permission modes and a line about
    each, `say` puts words into the user's language, and `warn` hears what concerns no session.
    """

    def __init__(
        self,
        settings_of: Callable[[Path], Settings],
        *,
        model: str = "",
        modes: Mapping[str, str],
        say: Callable[[str], str] = str,
        warn: Callable[[str], None] = logger.warning,
    ) -> None:
        self._settings_of = settings_of
        self._model = model
        self._modes = modes
        self._say = say
        self._warn = warn
        self._client: Client | None = None
        self._sessions: dict[str, EditorSession] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def close(self) -> None:
        """End every session."""
        for task in self._telling:
            task.cancel()
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def initialize(self, protocol_version: int, **_more: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), fork=SessionForkCapabilities(), resume=SessionResumeCapabilities()
                ),
            ),
            agent_info=Implementation(name="ferrule", title="Ferrule", version=__version__),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_more: Any) -> None:
        """Keys of models are in the environment or the settings; there is nobody to sign in with here."""
        raise self._refused(phrase("There is no way to sign in called `{name}`.", name=method_id))

    # Sessions

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_more: Any) -> NewSessionResponse:
        session = await self._open(self._folder(cwd), mcp_servers, None)
        return NewSessionResponse(session_id=session.id, modes=self._modes_of(session))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_more: Any
    ) -> LoadSessionResponse:
        session = await self._resume(cwd, session_id, mcp_servers)
        await session.tell_again()
        return LoadSessionResponse(modes=self._modes_of(session))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, **_more: Any
    ) -> ResumeSessionResponse:
        return ResumeSessionResponse(modes=self._modes_of(await self._resume(cwd, session_id, mcp_servers)))

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, **_more: Any
    ) -> ForkSessionResponse:
        folder = self._folder(cwd)
        with self._as_request_errors():
            resumed = Resumed(*fork(self._saved(folder, session_id), uuid.uuid4().hex))
        session = await self._open(folder, mcp_servers, resumed)
        return ForkSessionResponse(session_id=session.id, modes=self._modes_of(session))

    async def list_sessions(self, cwd: str | None = None, **_more: Any) -> ListSessionsResponse:
        folder = self._folder(cwd) if cwd else None
        lines = list(listed(sessions_folder(), folder))[:_LISTED]
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=one.id,
                    cwd=one.workspace,
                    title=one.request or None,
                    updated_at=datetime.fromtimestamp(one.changed, UTC).isoformat(),
                )
                for one in lines
            ]
        )

    async def close_session(self, session_id: str, **_more: Any) -> None:
        session = self._session(session_id)
        del self._sessions[session_id]
        await session.close()

    async def set_session_mode(self, session_id: str, mode_id: str, **_more: Any) -> None:
        policy: Any = self._session(session_id).app.runtime.policy
        if mode_id not in self._modes:
            modes = ", ".join(self._modes)
            raise self._refused(phrase("There is no mode `{name}`. Modes are {modes}.", name=mode_id, modes=modes))
        policy.mode = Mode(mode_id)

    # Turns

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_more: Any) -> PromptResponse:
        session = self._session(session_id)
        if session.agent.working:
            raise RequestError(-32600, self._say(phrase("A turn is running in this session; cancel it first.")))
        text, attachments = self._message(prompt)
        with self._as_request_errors():
            reason: Any = await session.prompt(text, attachments)
        return PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **_more: Any) -> None:
        if (session := self._sessions.get(session_id)) is not None:
            session.agent.interrupt()

    def _message(self, blocks: Sequence[Any]) -> tuple[str, list[Attachment]]:
        parts: list[str] = []
        attachments: list[Attachment] = []
        for block in blocks:
            if isinstance(block, TextContentBlock):
                parts.append(block.text)
            elif isinstance(block, ResourceContentBlock):
                parts.append(f"`{_path_of(block.uri)}`")
            elif isinstance(block, EmbeddedResourceContentBlock) and isinstance(block.resource, TextResourceContents):
                name, text = _path_of(block.resource.uri), block.resource.text
                parts.append(f"\n[`{name}`, as the user has it open:]\n{text}\n[End of `{name}`.]\n")
            elif isinstance(block, ImageContentBlock):
                try:
                    attachments.append(Attachment(block.mime_type, b64decode(block.data, validate=True)))
                except Base64Error:
                    raise self._refused(phrase("The image is not base64.")) from None
            else:
                raise self._refused(phrase("Content of type `{kind}` is not supported.", kind=block.type))
        text = "".join(parts)
        if not text.strip() and not attachments:
            raise self._refused(phrase("The message is empty."))
        return text, attachments

    # What these share

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise self._refused(phrase("There is no open session `{id}`.", id=session_id))
        return session

    def _folder(self, cwd: str) -> Path:
        folder = Path(cwd)
        if not folder.is_absolute() or not folder.is_dir():
            raise self._refused(phrase("`cwd` must be the absolute path of a folder, not `{cwd}`.", cwd=cwd))
        return folder.resolve()

    def _saved(self, folder: Path, session_id: str) -> Path:
        known = next((one for one in listed(sessions_folder(), folder) if one.id == session_id), None)
        if known is None:
            raise SavedConversationError(
                phrase("No session `{id}` is saved for {folder}.", id=session_id, folder=folder)
            )
        return find(sessions_folder(), session_id)

    async def _resume(self, cwd: str, session_id: str, mcp_servers: Any) -> EditorSession:
        folder = self._folder(cwd)
        if session_id in self._sessions:
            await self.close_session(session_id)
        with self._as_request_errors():
            resumed = Resumed(*load(self._saved(folder, session_id)))
        return await self._open(folder, mcp_servers, resumed)

    async def _open(self, folder: Path, mcp_servers: Any, resumed: Resumed | None) -> EditorSession:
        if self._client is None:
            raise RequestError(_FAILED, "There is no connection.")
        session = EditorSession(self._client, self._say)
        try:
            with self._as_request_errors():
                settings = self._with_servers(self._settings_of(folder), mcp_servers or ())
                await session.open(settings, folder, self._model, resumed)
        except BaseException:
            if resumed is not None:
                resumed.saved.close()
            raise
        for note in session.app.notes:
            self._warn(note)
        self._sessions[session.id] = session
        task = asyncio.create_task(session.announce_commands())  # once the editor knows of the session
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        return session

    def _with_servers(self, settings: Settings, given: Sequence[Any]) -> Settings:
        """The settings with the MCP servers that the editor's user has set up there."""
        servers = dict(settings.mcp_servers)
        for one in given:
            if isinstance(one, McpServerStdio):
                env = {variable.name: variable.value for variable in one.env}
                servers[one.name] = McpServerSettings(command=one.command, args=list(one.args), env=env)
            elif isinstance(one, HttpMcpServer | SseMcpServer):
                headers = {header.name: header.value for header in one.headers}
                servers[one.name] = McpServerSettings(url=one.url, headers=headers)
        kept, wrong = without_wrong_servers(replace(settings, mcp_servers=servers))
        for words in wrong:
            self._warn(words)
        return kept

    def _modes_of(self, session: EditorSession) -> SessionModeState:
        policy: Any = session.app.runtime.policy
        modes = [SessionMode(id=name, name=name, description=about) for name, about in self._modes.items()]
        return SessionModeState(current_mode_id=str(policy.mode), available_modes=modes)

    def _refused(self, words: str) -> RequestError:
        return RequestError(_INVALID, self._say(words))

    @contextmanager
    def _as_request_errors(self) -> Generator[None]:
        """What a user can mend, as an error that their editor shows."""
        try:
            yield
        except (ModelError, ToolError) as error:
            words = self._say(joined(" ", [error.message, error.suggestion or ""]))
            raise RequestError(_FAILED, words.strip()) from None
        except (RequestError, ConnectionError):
            raise
        except (SavedConversationError, ValueError, OSError) as error:
            raise RequestError(_FAILED, self._say(said_by(error))) from None


def _path_of(uri: str) -> str:
    """A file's path; any other address as it is."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri
