"""The shell sessions of one conversation, by name, side by side; when it ends, so does all they started."""

from __future__ import annotations

import asyncio
import atexit
import logging
import weakref
from typing import TYPE_CHECKING, cast

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.process.shell.session import ShellSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.context import Session
    from ferrule.process.shell.background import BackgroundCommand
    from ferrule.process.shell.notice import Notice
    from ferrule.process.spill import SpillFolder

logger = logging.getLogger("ferrule.shells")

_KEY = "ferrule.shells"
_MOST = 32
_all: weakref.WeakSet[Shells] = weakref.WeakSet()


class Shells:
    """Kept in a conversation's state. `close` ends everything; so does the end of the program, however it comes."""

    def __init__(self, folder: str, *, spills: SpillFolder | None = None, notice: Notice | None = None) -> None:
        self._folder = folder
        self._spills = spills
        self._notice = notice
        self._sessions: dict[str, ShellSession] = {}
        _all.add(self)

    @classmethod
    def of(cls, session: Session, make: Callable[[], Shells]) -> Shells:
        """Those of a conversation, made when they are first asked for."""
        if _KEY not in session.state:
            session.state[_KEY] = make()
        return cast("Shells", session.state[_KEY])

    @classmethod
    async def close_of(cls, session: Session) -> None:
        """End those of a conversation, if it ever had any."""
        shells = session.state.pop(_KEY, None)
        if isinstance(shells, Shells):
            await shells.close()

    @property
    def names(self) -> list[str]:
        """Of the sessions there are."""
        return list(self._sessions)

    def get(self, name: str = "main") -> ShellSession:
        """The session of this name; a new one begins in the folder of them all."""
        if name not in self._sessions:
            if len(self._sessions) >= _MOST:
                raise ToolError(
                    phrase("There are {most} shell sessions already.", most=_MOST),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Use one of them, or close one: {listed}.", listed=", ".join(self._sessions)),
                )
            made = ShellSession(name=name, folder=self._folder, spills=self._spills)
            if self._notice is not None:
                made.background.on_change = self._renew_notice
            self._sessions[name] = made
        return self._sessions[name]

    def background(self) -> list[BackgroundCommand]:
        """The background commands of all sessions."""
        return [one for session in self._sessions.values() for one in session.background.list()]

    def find_background(self, id: str) -> tuple[ShellSession, BackgroundCommand]:  # noqa: A002 - what a model calls it
        """A background command by its number, and its session."""
        for session in self._sessions.values():
            for one in session.background.list():
                if one.id == id:
                    return session, one
        known = ", ".join(f"`{one.id}`" for one in self.background()) or phrase("none")
        raise ToolError(
            phrase("There is no background command `{id}`.", id=id),
            kind=ErrorKind.NOT_FOUND,
            suggestion=phrase("Those there are: {known}.", known=known),
        )

    async def end(self, name: str) -> None:
        """End one session."""
        if (session := self._sessions.pop(name, None)) is not None:
            await session.close()

    async def close(self) -> None:
        """End all of them."""
        sessions, self._sessions = self._sessions, {}
        try:
            await asyncio.gather(*(session.close() for session in sessions.values()))
        finally:
            self._remove_notice()

    def close_now(self) -> None:
        """The same without an event loop."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close_now()
        self._remove_notice()

    def _renew_notice(self) -> None:
        if self._notice is None or not self._sessions:
            return
        try:
            self._notice.renew(one for session in self._sessions.values() for one in session.background.list())
        except OSError:
            # What runs is not held up because it could not be listed for others; that is worth a line in the log.
            logger.warning("The background commands could not be listed for `ferrule shells`", exc_info=True)

    def _remove_notice(self) -> None:
        if self._notice is not None:
            self._notice.remove()


def _close_all() -> None:
    """The launcher would end everything once we are gone; this way it is gone when we are."""
    for shells in list(_all):
        shells.close_now()


atexit.register(_close_all)
