"""Sessions that outlive the program: one file each, to which every message is added as it is said.

The files lie in the person's own data folder and only they can read them. What a tool printed is in them, so secrets
that can be recognised are taken out. A line that a crash left half written is not there; a file that is open in
another process is refused. Which files a session has read is not kept: a resumed one must read them again before it
changes them, because others may have changed them since.
"""

from __future__ import annotations

import json
import logging
import os
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from ferrule.agent.agent_events import plain
from ferrule.agent.conversation import Conversation, said_by_user, well_formed
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.files import lock, write_all
from ferrule.core.model import AssistantMessage, ToolResults, Usage, UserMessage
from ferrule.core.phrases import phrase
from ferrule.core.result import Attachment, ErrorInfo, ToolResult
from ferrule.core.secrets import redact_text, redact_value
from ferrule.core.shown_text import flattened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ferrule.core.model import Message


# Messages as JSON and back: how a conversation is kept, without the secrets that can be recognised in it.


def to_form(message: Message) -> dict[str, Any]:
    """Plain JSON values. What a provider wants back word for word stays as it is: it would not take it otherwise."""
    if isinstance(message, UserMessage):
        form: dict[str, Any] = {"type": "user", "text": redact_text(message.text)}
        attachments = [_attachment_form(one) for one in message.attachments]
        return _with(form, attachments=attachments, typed=redact_text(message.typed), turn=message.turn)
    if isinstance(message, AssistantMessage):
        form = {"type": "assistant", "text": redact_text(message.text)}
        calls = [_call_form(call) for call in message.calls]
        return _with(form, calls=calls, thinking=redact_text(message.thinking), kept=plain(dict(message.kept)))
    return {"type": "results", "results": [_result_form(one) for one in message.results]}


def from_form(form: Mapping[str, Any]) -> Message:
    """The message again; raises `KeyError`, `TypeError` or `ValueError` where the form is none."""
    match form["type"]:
        case "user":
            attachments = tuple(_attachment(one) for one in form.get("attachments", ()))
            typed, turn = str(form.get("typed", "")), int(form.get("turn", 0))
            return UserMessage(str(form["text"]), attachments, typed, turn)
        case "assistant":
            calls = tuple(
                RawCall(str(one["name"]), one["arguments"], id=str(one["id"]), version=one.get("version"))
                for one in form.get("calls", ())
            )
            return AssistantMessage(str(form["text"]), calls, str(form.get("thinking", "")), form.get("kept", {}))
        case "results":
            return ToolResults(tuple(_result(one) for one in form["results"]))
        case other:
            raise ValueError(f"`{other}` is not a kind of message")


def _with(form: dict[str, Any], **more: Any) -> dict[str, Any]:
    return form | {key: value for key, value in more.items() if value}


def _call_form(call: RawCall) -> dict[str, Any]:
    form = {"id": call.id, "name": call.name, "arguments": plain(redact_value(call.arguments))}
    return _with(form, version=call.version)


def _result_form(result: ToolResult) -> dict[str, Any]:
    form = {
        "call_id": result.call_id,
        "tool": result.tool,
        "success": result.success,
        "llm_content": redact_text(result.llm_content),
        "display_content": redact_text(result.display_content),
    }
    error = {"type": result.error.kind.value, "message": redact_text(result.error.message)} if result.error else None
    return _with(form, error=error, attachments=[_attachment_form(one) for one in result.attachments])


def _result(form: Mapping[str, Any]) -> ToolResult:
    error = form.get("error")
    return ToolResult(
        call_id=str(form["call_id"]),
        tool=str(form["tool"]),
        success=bool(form["success"]),
        llm_content=str(form["llm_content"]),
        display_content=str(form["display_content"]),
        error=ErrorInfo(ErrorKind(error["type"]), str(error["message"])) if error else None,
        attachments=[_attachment(one) for one in form.get("attachments", ())],
    )


def _attachment_form(one: Attachment) -> dict[str, Any]:
    data = b64encode(one.data).decode() if one.data is not None else None
    form = _with({"media_type": one.media_type}, data=data, uri=one.uri, name=one.name)
    return form if one.after is None else form | {"after": one.after}


def _attachment(form: Mapping[str, Any]) -> Attachment:
    data = b64decode(form["data"]) if "data" in form else None
    return Attachment(str(form["media_type"]), data, form.get("uri"), form.get("name"), after=form.get("after"))


logger = logging.getLogger("ferrule.agent")

VERSION = 1
_DAY = 86_400
_SHOWN = 80
_LOST = phrase("The program ended during this call; whether it ran is unknown. Check before you repeat it.")


class SavedConversationError(Exception):
    """A saved session cannot be used; the words say why and what to do."""


@dataclass(slots=True, frozen=True)
class SessionLine:
    """A saved session in a list."""

    id: str
    workspace: str
    model: str
    started: float
    changed: float
    request: str
    """How the first thing that was said begins."""


class SavedConversation:
    """The file of one session, open for adding. It is made with the first message, so a session without one leaves
    nothing behind.
    """

    def __init__(self, folder: Path, session_id: str, workspace: Path, model: str) -> None:
        self.id = session_id
        self.workspace = str(workspace)
        self.model = model
        self.path = folder / f"{session_id}.jsonl"
        self.problem = ""
        """Why nothing is saved any more, if something went wrong."""
        self._file: int | None = None

    # As a conversation's journal

    def said(self, message: Message) -> None:
        self._write(to_form(message))

    def compacted(self, messages: Sequence[Message]) -> None:
        self._write({"type": "compacted", "messages": [to_form(message) for message in messages]})

    def turn_ended(self, turn: int, ending: str, usage: Usage, model: str) -> None:
        self._write({"type": "turn", "turn": turn, "ending": str(ending), "usage": asdict(usage), "model": model})

    def take_over(self, conversation: Conversation) -> None:
        """Go on with a conversation that another file has: all of it is written here too."""
        for message in conversation.messages:
            self.said(message)
        self.turn_ended(conversation.turn, "forked", conversation.usage, self.model)
        conversation.journal = self

    def close(self) -> None:
        """Let others have the file."""
        if self._file is not None:
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def open(self) -> None:
        """Take the file for this process alone; raises `SavedConversationError` when another one has it."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if not lock(file, 0):
                raise SavedConversationError(
                    phrase(
                        "Session `{session_id}` is open in another process. Close it first, or start a new session.",
                        session_id=self.id[:8],
                    )
                )
            size = _whole_lines(file, os.fstat(file).st_size)
            os.ftruncate(file, size)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        if not size:
            head = {"ferrule_session": VERSION, "id": self.id, "workspace": self.workspace, "model": self.model}
            self._write(head | {"started": round(time(), 3)})

    def _write(self, form: dict[str, Any]) -> None:
        """Add one line. A disk that is full must not end the work: it goes on unsaved, and says so."""
        if self.problem:
            return
        try:
            if self._file is None:
                self.open()
            line = json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
            write_all(self._file or 0, line + b"\n")
        except (OSError, SavedConversationError) as error:
            self.problem = str(error)
            logger.warning("Session %s is no longer saved: %s", self.id, error)


def load(path: Path) -> tuple[SavedConversation, Conversation]:
    """A saved session, open for adding, and its conversation, every call settled; raises `SavedConversationError`."""
    saved = _closed(path)
    saved.open()
    try:
        conversation = _read(path, saved)
    except BaseException:
        saved.close()
        raise
    conversation.journal = saved
    conversation.settle(_LOST)
    return saved, conversation


def fork(path: Path, session_id: str) -> tuple[SavedConversation, Conversation]:
    """A copy of a saved session under a new id; the first stays as it is, also where another process has it open."""
    first = _closed(path)
    conversation = _read(path, first)
    conversation.settle(_LOST)
    saved = SavedConversation(path.parent, session_id, Path(first.workspace), first.model)
    saved.take_over(conversation)
    return saved, conversation


def _closed(path: Path) -> SavedConversation:
    head = _head(path)
    if head is None:
        raise SavedConversationError(phrase("{path} is not a saved session of this version of Ferrule.", path=path))
    return SavedConversation(path.parent, head["id"], Path(head["workspace"]), head["model"])


def _read(path: Path, saved: SavedConversation) -> Conversation:
    messages: list[Message] = []
    usage, turn = Usage(), 0
    *lines, _torn = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[1:], 2):
        try:
            form = json.loads(line)
            if form["type"] == "turn":
                usage, turn = usage + Usage(**form["usage"]), int(form["turn"])
                saved.model = str(form["model"])
            elif form["type"] == "compacted":
                messages = [from_form(one) for one in form["messages"]]
            else:
                messages.append(message := from_form(form))
                if isinstance(message, UserMessage):
                    turn = max(turn, message.turn)  # also of a turn that a kill ended
        except (ValueError, TypeError, KeyError) as error:
            raise SavedConversationError(
                phrase(
                    "{path} is damaged in line {number}: {error}. Start a new session.",
                    path=path,
                    number=number,
                    error=error,
                )
            ) from None
    conversation = Conversation(messages, usage=usage, turn=turn)
    if (problem := well_formed(messages)) and problem != "the last calls have no results":
        raise SavedConversationError(
            phrase("{path} is damaged: {problem}. Start a new session.", path=path, problem=problem)
        )
    return conversation


def find(folder: Path, named: str) -> Path:
    """The file of a session by its id, or by as much of it as no other begins with; raises `SavedConversationError`."""
    found = [one for one in _files(folder) if one.stem.startswith(named)] if named.isalnum() else []
    if len(found) != 1:
        if found:
            raise SavedConversationError(
                phrase("{count} saved sessions begin with `{named}`.", count=len(found), named=named)
            )
        raise SavedConversationError(phrase("No saved session begins with `{named}`.", named=named))
    return found[0]


def latest(folder: Path, workspace: Path) -> Path | None:
    """The session of a workspace that was used last."""
    of_it = (path for path in _newest_first(folder) if (_head(path) or {}).get("workspace") == str(workspace))
    return next(of_it, None)


def listed(folder: Path, workspace: Path | None = None) -> Iterator[SessionLine]:
    """Saved sessions, the one that was used last first; those of one workspace, or all."""
    for path in _newest_first(folder):
        head = _head(path)
        if head is not None and (workspace is None or head["workspace"] == str(workspace)):
            yield SessionLine(
                head["id"], head["workspace"], head["model"], head["started"], _changed(path), _request(path)
            )


def forget_old(folder: Path, days: float, now: float | None = None) -> int:
    """Remove sessions that nobody used for so many days; gives how many."""
    before = (time() if now is None else now) - days * _DAY
    old = [path for path in _files(folder) if _changed(path) < before]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.jsonl") if path.is_file()]


def _newest_first(folder: Path) -> list[Path]:
    return sorted(_files(folder), key=_changed, reverse=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process has forgotten it meanwhile
        return 0.0


def _head(path: Path) -> dict[str, Any] | None:
    """The first line, if it is one of ours."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(100_000))
        return head if head["ferrule_session"] == VERSION and head["id"] == path.stem else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _request(path: Path) -> str:
    with suppress(OSError, ValueError, TypeError, KeyError), path.open("rb") as file:
        file.readline()
        first = from_form(json.loads(file.readline()))
        if isinstance(first, UserMessage):
            return flattened(said_by_user(first), _SHOWN)
    return ""


def _whole_lines(file: int, size: int) -> int:
    """Where the last whole line ends: what a crash left behind it is torn."""
    end = size
    while end > 0:
        start = max(0, end - 65_536)
        cut = os.pread(file, end - start, start).rfind(b"\n")
        if cut >= 0:
            return start + cut + 1
        end = start
    return 0
