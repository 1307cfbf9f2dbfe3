"""Puts an assistant together: the app's runtime, a model, an agent that knows where it is, and its saved session."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from ferrule.app.settings import SettingsError, added_folders, sessions_folder, user_settings_file
from ferrule.core.model import ModelError, ModelFault
from ferrule.core.phrases import phrase, said_by
from ferrule.models.providers import EMBEDDED, all_providers, custom_provider, find_key, open_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.agent.agent import Agent
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.custom_commands import CustomCommands
    from ferrule.agent.limits import AgentLimits
    from ferrule.agent.saved_sessions import SavedConversation
    from ferrule.app.build import App
    from ferrule.app.settings import AssistantSettings, Settings
    from ferrule.core.model import Model
    from ferrule.models.providers import Provider
    from ferrule.registry.search_tools import ToolSearch


class NoModelChosen(ModelError):  # noqa: N818 - reads as what it says
    """Nobody said which model to ask. `with_key` are the providers that could be, by the keys that are here."""

    def __init__(self, with_key: Mapping[str, str]) -> None:
        lines = [f"- `--model {name}/NAME`: {where} is set" for name, where in with_key.items()]
        lines.append("- `--model ollama/NAME`, lmstudio, llamacpp or vllm: a server on this machine, no key")
        lines.append(f"- `--model {EMBEDDED}`: a small model on this machine, no key; 93 MB are fetched once")
        if not with_key:
            lines.append("- a key of a provider: export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=…, GEMINI_API_KEY=…")
        lines.append("`ferrule models` lists what is here. To keep a choice: export FERRULE_MODEL=provider/name")
        super().__init__(ModelFault.NOT_FOUND, "No model is chosen.", suggestion="Choose one:\n" + "\n".join(lines))
        self.with_key = with_key

    def __str__(self) -> str:
        return f"{self.message} {self.suggestion}"


def choose_model(name: str, settings: Settings) -> Model:
    """The model called `name`, or the one that is set; raises `ModelError` with what to do instead."""
    wanted = name.strip() or settings.model.strip()
    known = known_providers(settings)
    if not wanted:
        raise NoModelChosen(_with_key(known))
    return open_model(wanted, known)


def known_providers(settings: Settings) -> dict[str, Provider]:
    """The providers known by name, and those of the settings."""
    custom: list[Provider] = []
    for name, given in settings.providers.items():
        if "/" in name or name != name.lower():
            raise SettingsError(phrase("`providers.{name}`: names are lowercase, without `/`.", name=name))
        try:
            custom.append(
                custom_provider(
                    name,
                    base_url=given.base_url,
                    form=given.form or None,
                    key_variable=given.key_variable,
                    headers=given.headers,
                    context_tokens=given.context_tokens,
                )
            )
        except ValueError as error:
            raise SettingsError(phrase("{error}.", error=error)) from None
    return all_providers(custom)


def _with_key(known: Mapping[str, Provider]) -> dict[str, str]:
    keys = {name: find_key(name, provider.key_variables) for name, provider in known.items() if provider.needs_key}
    return {name: key.found_in for name, key in keys.items() if key is not None}


SCRIPTED = "scripted:"


@dataclass(slots=True)
class Resumed:
    """A session from before: what was said in it, and the file that it goes on in."""

    saved: SavedConversation
    conversation: Conversation


@dataclass(slots=True)
class Assistant:
    """An agent that is ready to work, and where its session is saved, if it is."""

    agent: Agent
    saved: SavedConversation | None
    commands: CustomCommands
    """The commands and skills of the project and the user."""

    async def close(self) -> None:
        """Let go of the model and the session's file; the app is closed by whoever opened it."""
        await self.agent.model.close()
        if self.saved is not None:
            self.saved.close()


def resume(workspace: Path, named: str | None = None, *, forks: bool = False) -> Resumed | None:
    """The session with this id, or else the last one of this workspace; raises `SavedConversationError`.

    None when the workspace has none. `forks` gives a copy of it under a new id.
    """
    from ferrule.agent.saved_sessions import find, fork, latest, load

    folder = sessions_folder()
    path = find(folder, named) if named is not None else latest(folder, workspace)
    if path is None:
        return None
    return Resumed(*(fork(path, uuid4().hex) if forks else load(path)))


def model_for(name: str, settings: Settings) -> Model:
    """The model of this name, or where it is empty the one that is set; raises `ModelError` where none can be had.

    `scripted:FILE.json` follows a script, for tests and examples.
    """
    name = name or settings.model
    if name.startswith(SCRIPTED):
        from ferrule.testing.scripted_model import ScriptError, scripted_model

        try:
            return scripted_model(Path(name.removeprefix(SCRIPTED)))
        except ScriptError as error:
            raise SettingsError(said_by(error)) from None

    return choose_model(name, settings)


def build_assistant(
    app: App, model: Model, *, resumed: Resumed | None = None, limits: AgentLimits | None = None, asks: bool = True
) -> Assistant:
    """An agent over an app's runtime. `asks` says whether a person can be asked before something runs."""
    from ferrule.agent.agent import Agent
    from ferrule.agent.custom_commands import CustomCommands, SkillTool
    from ferrule.agent.saved_sessions import SavedConversation, forget_old
    from ferrule.agent.task_tool import add_task_tool
    from ferrule.agent.todo_tool import TodoTool
    from ferrule.app.build import assistant_tools

    settings, session = app.settings, app.runtime.session
    saved = resumed.saved if resumed is not None else None
    if saved is not None:
        session.id = saved.id  # the record and the history go on under one name
    elif settings.assistant.save:
        folder = sessions_folder()
        saved = SavedConversation(folder, session.id, session.workspace, model.name)
        if settings.assistant.keep_days:
            forget_old(folder, settings.assistant.keep_days)
    commands = CustomCommands(session.workspace, user_settings_file().parent, lambda path: _denied(app, path))
    agent = Agent(
        model,
        assistant_tools(settings, app.tools.registry),
        runtime=app.runtime,
        system=lambda: _system_words(app, agent, asks, commands),
        limits=limits if limits is not None else limits_of(settings.assistant),
        conversation=resumed.conversation if resumed is not None else None,
        save=saved,
        search=tool_search(settings),
    )
    add_task_tool(agent, app.tools.registry)
    app.tools.registry.register(TodoTool(), origin="builtin")
    if commands.skills():
        app.tools.registry.register(SkillTool(commands), origin="builtin")
    return Assistant(agent, saved, commands)


def limits_of(settings: AssistantSettings) -> AgentLimits:
    """The limits of a turn as the settings have them."""
    from ferrule.agent.limits import AgentLimits

    return AgentLimits(
        steps=settings.max_steps or None,
        tokens=settings.max_tokens or None,
        cost=settings.max_cost or None,
        seconds=settings.max_seconds or None,
    )


def tool_search(settings: Settings) -> ToolSearch | None:
    """How a model searches for tools as the settings have it: the built-in ones are always shown."""
    from ferrule.builtin.all_tools import builtin_names
    from ferrule.registry.search_tools import ToolSearch

    pinned = (*builtin_names("all"), "Task", "TodoWrite", "Skill")
    return ToolSearch(above=settings.tools.search_above, pinned=pinned) if settings.tools.search_above else None


def _denied(app: App, path: Path) -> bool:
    """Whether a rule forbids to read a real path."""
    from ferrule.policy.findings import roots_of

    session = app.runtime.session
    return (
        session.restrictions is not None and session.restrictions.denies_read(str(path), roots_of(session)) is not None
    )


def _system_words(app: App, agent: Agent, asks: bool, commands: CustomCommands) -> str:
    from datetime import datetime

    from ferrule.agent.system_prompt import Surroundings, git_branch, project_words, system_prompt

    settings, session = app.settings, app.runtime.session
    skills = [(one.name, one.about) for one in commands.skills()] if "Skill" in agent.tools.names() else ()
    return system_prompt(
        Surroundings(
            workspace=session.workspace,
            system=os.uname().sysname if hasattr(os, "uname") else sys.platform,
            today=datetime.now().astimezone().date(),
            mode=str(getattr(app.runtime.policy, "mode", "default")),
            asks=asks,
            sandboxed=settings.sandbox.enabled,
            hosts=settings.sandbox.hosts,
            tools=agent.tools.names(),
            branch=git_branch(session.workspace),
            project=project_words(session.workspace, lambda path: _denied(app, path))
            if settings.assistant.project_words
            else (),
            added_folders=added_folders(settings, session.workspace),
            skills=skills,
        )
    )
