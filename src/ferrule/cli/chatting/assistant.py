"""The assistant that a conversation is held with: its app and agent, the model chosen, and the sessions saved."""

from __future__ import annotations

import platform
import uuid
from datetime import datetime
from typing import TYPE_CHECKING

from ferrule.agent.agent import Agent
from ferrule.agent.conversation import Conversation
from ferrule.agent.saved_sessions import SavedSession, find, latest, listed, load
from ferrule.agent.system_prompt import Surroundings, system_prompt
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ferrule.agent.saved_sessions import SessionLine
    from ferrule.app.build import App
    from ferrule.core.model import Model

_FILES = "ferrule.files"


class ChatAssistant:
    """Begins conversations, goes on with saved ones, and lets the model be changed between turns."""

    def __init__(self, app: App, workspace: Path, model: Model, choose: Callable[[str], Model]) -> None:
        self.app = app
        self._workspace = workspace
        self._choose = choose
        self._folder = data_folder() / "sessions"
        self._saved: SavedSession | None = None
        self.agent = Agent(app.runtime, model, system=self._system)
        self.begin()

    @property
    def id(self) -> str:
        return self.app.runtime.session.id

    def begin(self) -> None:
        """A new conversation, in which nothing was said or read."""
        name = uuid.uuid4().hex
        saved = SavedSession(self._folder, name, self._workspace, self.agent.model.name)
        self._enter(saved, Conversation(journal=saved))

    def resume(self, named: str = "") -> None:
        """Go on with a saved conversation: the one named, or the last one of this folder; raises `SessionProblem`."""
        path = find(self._folder, named) if named else latest(self._folder, self._workspace)
        if path is None:
            return
        if path.stem != self.id:
            self._enter(*load(path))

    def _enter(self, saved: SavedSession, conversation: Conversation) -> None:
        if self._saved is not None:
            self._saved.close()
        self._saved = saved
        session = self.app.runtime.session
        session.id = saved.id
        session.state.pop(_FILES, None)  # what one conversation has read another one has not
        self.agent.conversation = conversation

    def sessions(self) -> Sequence[SessionLine]:
        return list(listed(self._folder, self._workspace))

    async def use_model(self, name: str) -> None:
        """From the next turn on."""
        model, before = self._choose(name), self.agent.model
        self.agent.model = model
        await before.close()

    def model_names(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        if self._saved is not None:
            self._saved.close()
        await self.agent.model.close()

    def _system(self) -> str:
        return system_prompt(
            Surroundings(self._workspace, platform.system(), "bash", datetime.now().astimezone().date())
        )
