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
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from ferrule.agent.conversation import LOST, Conversation, DamagedLogError, said_by_user
from ferrule.agent.turn_log import ConversationJournal, from_form, to_form
from ferrule.core.files import lock, write_all
from ferrule.core.model import UserMessage
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import flattened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.agent.turn_log import Entry


logger = logging.getLogger("ferrule.agent")

VERSION = 1
_DAY = 86_400
_SHOWN = 80


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


class SavedConversation(ConversationJournal):
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

    @staticmethod
    def resume(folder: Path, session_id: str, workspace: Path, model: str) -> tuple[SavedConversation, Conversation]:
        """The conversation of a session as it was saved, and its file; an empty one if nothing was saved.

        Raises `SavedConversationError` if the file is open in another process or cannot be read.
        """
        saved = SavedConversation(folder, session_id, workspace, model)
        if saved.path.parent != folder:
            raise ValueError(f"{session_id!r} cannot name a session.")
        return load(saved.path) if saved.path.exists() else (saved, Conversation(journal=saved))

    # As a conversation's journal

    def write(self, entry: Entry) -> None:
        self._write(entry)

    def take_over(self, conversation: Conversation) -> None:
        """Go on with a conversation that another file has: all of it is written here too."""
        conversation.journal = self
        for message in conversation.messages:
            self._write(to_form(message))
        for name in conversation.handed_to:
            self._write({"type": "handed_over", "to": name})
        if conversation.found_tools:
            self._write({"type": "found", "tools": conversation.found_tools})
        self._write(
            {
                "type": "turn",
                "turn": conversation.turn,
                "ending": "forked",
                "usage": asdict(conversation.usage),
                "model": self.model,
            }
        )

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
    return saved, conversation


def fork(path: Path, session_id: str) -> tuple[SavedConversation, Conversation]:
    """A copy of a saved session under a new id; the first stays as it is, also where another process has it open."""
    first = _closed(path)
    conversation = _read(path, first)
    conversation.settle(LOST)
    conversation.open = None
    saved = SavedConversation(path.parent, session_id, Path(first.workspace), first.model)
    saved.take_over(conversation)
    return saved, conversation


def _closed(path: Path) -> SavedConversation:
    head = _head(path)
    if head is None:
        raise SavedConversationError(phrase("{path} is not a saved session of this version of Ferrule.", path=path))
    return SavedConversation(path.parent, head["id"], Path(head["workspace"]), head["model"])


def _read(path: Path, saved: SavedConversation) -> Conversation:
    *lines, _torn = path.read_bytes().split(b"\n")
    entries: list[Entry] = []
    for number, line in enumerate(lines[1:], 2):
        try:
            entry = json.loads(line)
            entries.append(entry)
            if entry["type"] == "turn" and not entry.get("in"):
                saved.model = str(entry["model"])
        except (ValueError, TypeError, KeyError) as error:
            raise SavedConversationError(
                phrase(
                    "{path} is damaged in line {number}: {error}. Start a new session.",
                    path=path,
                    number=number,
                    error=error,
                )
            ) from None
    try:
        return Conversation.replay(entries)
    except DamagedLogError as problem:
        raise SavedConversationError(
            phrase("{path} is damaged: {problem}. Start a new session.", path=path, problem=problem)
        ) from None


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
