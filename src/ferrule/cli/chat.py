"""`ferrule chat`: an assistant in the terminal that reads, searches, edits and runs things, and asks first."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ferrule.cli.options import (
    assistant_options,
    code_option,
    permission_options,
    recorded_code,
    resumed_session,
    sandbox_options,
    settings_for,
    warn_of_freedom,
    workspace_option,
    yes_option,
)
from ferrule.cli.words import LANGUAGES, _, as_error, said_of
from ferrule.core.errors import MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.assistant import Resumed
    from ferrule.app.settings import Settings
    from ferrule.cli.chatting.chat_session import Chat, ChatAssistant
    from ferrule.cli.chatting.input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.model import Model


@click.command(
    "chat",
    help=_("Chat with a model that works in this folder through the tools."),
    epilog=_("`/help` lists the chat commands. Esc stops a turn; Ctrl-C twice, or Ctrl-D, quits."),
)
@click.argument("prompt", default="", metavar="[PROMPT]")
@assistant_options
@click.option("--fork", is_flag=True, help=_("With --continue or --resume: continue in a copy."))
@click.option("--plain", is_flag=True, help=_("Plain lines: no colours, no live rows, no escape codes."))
@workspace_option
@permission_options
@sandbox_options
@code_option
@yes_option
@click.option("--lang", type=click.Choice(LANGUAGES), expose_value=False, help=_("Language of messages."))
def chat_command(
    model: str, go_on: bool, resume: str | None, fork: bool, plain: bool, workspace: Path, prompt: str, yes: bool
) -> None:
    if find_spec("prompt_toolkit") is None or find_spec("wcwidth") is None:
        raise MissingExtraError("`ferrule chat`", "chat")
    settings = settings_for(workspace).settings
    warn_of_freedom(settings)
    if fork and not go_on and resume is None:
        raise click.UsageError(_("--fork needs --continue or --resume."))
    if resume == "" and not go_on:
        resume = asyncio.run(_chosen(workspace.resolve(), plain))
        if resume is None:
            return
    resumed = resumed_session(workspace.resolve(), go_on, resume, forks=fork)
    chosen = _model(model or (resumed.saved.model if resumed is not None else ""), settings)
    sys.exit(asyncio.run(_chat(settings, workspace.resolve(), chosen, resumed, plain, prompt.strip(), yes=yes)))


async def _chosen(workspace: Path, plain: bool) -> str | None:
    """The saved conversation that the user chooses from a list."""
    from ferrule.agent.saved_sessions import listed
    from ferrule.app.settings import sessions_folder
    from ferrule.cli.chatting.session_commands import pick_session

    sessions = list(listed(sessions_folder(), workspace))
    if not sessions:
        raise click.UsageError(_("There is no session in this folder to continue."))
    screen = _screen(plain)
    person = _person(screen, [])
    if not person.by_person:
        raise click.UsageError(
            _("--resume needs an ID here; at a terminal, `ferrule chat --resume` lists the sessions.")
        )
    return await pick_session(screen, person, sessions)


def _model(name: str, settings: Settings) -> Model:
    """The model to begin with; where none can be had, words about it end the command."""
    from ferrule.app.assistant import model_for
    from ferrule.core.model import ModelError

    try:
        return model_for(name, settings)
    except ModelError as error:
        from ferrule.app.assistant import NoModelChosen
        from ferrule.cli.models import chosen_first, model_words

        if isinstance(error, NoModelChosen) and not name:
            picked = chosen_first(settings, error)
            if picked is None:
                sys.exit(2)
            return _model(picked, settings)
        click.echo(as_error(model_words(error)), err=True)
        sys.exit(2)


async def _chat(
    settings: Settings, workspace: Path, model: Model, resumed: Resumed | None, plain: bool, prompt: str,
    *, yes: bool,
) -> int:  # fmt: skip
    from ferrule.cli.chatting.chat_session import Chat
    from ferrule.cli.chatting.commands import run_command, stops_turn
    from ferrule.cli.chatting.session_commands import show_resumed

    screen = _screen(plain)
    started: list[Chat] = []
    mode = settings.permissions.mode
    person = _person(screen, started)
    chat = Chat(screen, person, run_command, stops_turn=stops_turn, model=model.name, mode=mode)
    started.append(chat)
    if resumed is not None:
        show_resumed(chat, resumed.saved.id, resumed.conversation, goes_on=not prompt)
    else:
        words = _("{model} in {folder}, mode {mode}. `/help` lists commands; Esc stops a turn, Ctrl-D quits.")
        folder = workspace.name or str(workspace)
        chat.say(words.format(model=model.name, folder=folder, mode=mode), "faint")
    async with AsyncExitStack() as stack:
        # Tools and rules are loaded while the prompt is there already; whoever types does not notice.
        opening = asyncio.create_task(_open(chat, settings, workspace, model, resumed, stack, yes=yes))
        try:
            return await chat.converse(opening, prompt)
        finally:
            if not opening.done():
                opening.cancel()
            await asyncio.wait({opening})


async def _open(
    chat: Chat, settings: Settings, workspace: Path, model: Model, resumed: Resumed | None, stack: AsyncExitStack,
    *, yes: bool,
) -> ChatAssistant:  # fmt: skip
    await chat.prompted.wait()
    await asyncio.to_thread(_load_parts)
    logging.getLogger("ferrule.plugins").setLevel(logging.ERROR)  # what cannot be loaded is said between turns
    from ferrule.app.build import App
    from ferrule.cli.ask import say_yes
    from ferrule.cli.chatting.chat_session import ChatAssistant
    from ferrule.cli.chatting.questions import chat_asker

    asker = say_yes if yes else chat_asker(chat.place, chat.interrupted)
    try:
        app = App(settings, workspace, ask=asker, ports=lambda: chat.questions.ports(signs_in=chat.person.by_person))
    except (ValueError, OSError) as error:
        raise click.UsageError(said_of(error)) from None
    stack.callback(recorded_code, app, 0)
    await stack.enter_async_context(app)
    assistant = ChatAssistant(app, model, resumed=resumed, asks=chat.person.by_person)
    stack.push_async_callback(assistant.close)
    assistant.prepare_model(chat.printer.preparing)
    return assistant


def _load_parts() -> None:
    """What takes long to import, beside the loop."""
    for part in ("pipeline.run", "builtin.all_tools", "agent.agent", "app.assistant"):
        import_module(f"ferrule.{part}")


def _screen(plain: bool) -> Screen:
    from ferrule.cli.chatting.screen import LiveScreen, PlainScreen, wants_plain, wraps_again

    if plain or wants_plain(sys.stdout, os.environ):
        return PlainScreen(sys.stdout)
    return LiveScreen(sys.stdout, wraps_again=wraps_again(os.environ))


def _person(screen: Screen, started: list[Chat]) -> PersonInput:
    from ferrule.cli.chatting.screen import LiveScreen

    if not isinstance(screen, LiveScreen) or not sys.stdin.isatty():
        from ferrule.cli.chatting.input import PlainInput

        return PlainInput(sys.stdin, seen=sys.stdout.isatty())
    from ferrule.cli.chatting.prompt_input import PromptInput
    from ferrule.workspace.data_folder import data_folder

    return PromptInput(screen, lambda: started[0], data_folder() / "chat_history")
