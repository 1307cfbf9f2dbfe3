"""The assistant that a conversation is held with: its app and agent, the model chosen, and the sessions saved."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING

from ferrule.agent.conversation import Conversation
from ferrule.agent.saved_sessions import SavedSession, SessionProblem, listed
from ferrule.app.assistant import build_assistant, model_for, resume
from ferrule.app.settings import sessions_folder
from ferrule.cli.words import _
from ferrule.core.model import ModelError, Prepares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.agent.saved_sessions import SessionLine
    from ferrule.app.assistant import Resumed
    from ferrule.app.build import App
    from ferrule.core.model import Model

logger = logging.getLogger("ferrule.chat")


class ChatAssistant:
    """Begins conversations, goes on with saved ones, and lets the model be changed between turns."""

    def __init__(self, app: App, model: Model, *, resumed: Resumed | None, asks: bool) -> None:
        self.app = app
        self._built = build_assistant(app, model, resumed=resumed, asks=asks)
        self.agent = self._built.agent
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
            raise SessionProblem(_("No other conversation of this folder is saved."))
        if named and self.id.startswith(named):
            return
        found = resume(self.app.runtime.session.workspace, named or others[0])
        if found is not None:
            self._enter(found.saved.id, found.saved, found.conversation)

    def _enter(self, name: str, saved: SavedSession | None, conversation: Conversation) -> None:
        if self._built.saved is not None:
            self._built.saved.close()
        self._built.saved = saved
        session = self.app.runtime.session
        session.id = name
        from ferrule.workspace.files import Files

        session.drop_part(Files)  # what one conversation has read another one has not
        self.agent.conversation = conversation

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
        self._tell(_("the model is being loaded…"))
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
