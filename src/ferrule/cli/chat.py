"""`ferrule chat`: an assistant in the terminal that reads, searches, edits and runs things, and asks first."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from ferrule.cli.options import (
    permission_flags,
    permission_options,
    report_broken,
    sandbox_flags,
    sandbox_options,
    settings_for,
    warn,
    workspace_option,
)
from ferrule.cli.words import LANGUAGES, _

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.load_settings import Loaded
    from ferrule.cli.chatting.chat import Chat
    from ferrule.cli.chatting.person_input import PersonInput
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.model import Model


@click.command("chat", help=_("Talk with a model that works in this folder through the tools."))
@click.option("--model", "model_name", metavar="NAME", help=_("The model, as `provider/name`; `local` needs no key."))
@click.option("--continue", "go_on", is_flag=True, help=_("Go on with the last conversation of this folder."))
@click.option("--resume", metavar="ID", help=_("Go on with this conversation; the beginning of its id is enough."))
@click.option("--plain", is_flag=True, help=_("Plain lines: no colours, no live rows, no escape codes."))
@workspace_option
@permission_options
@sandbox_options
@click.option("--lang", type=click.Choice(LANGUAGES), expose_value=False, help=_("Language of messages."))
def command(
    model_name: str | None,
    go_on: bool,
    resume: str | None,
    plain: bool,
    workspace: Path,
    mode: str | None,
    allow: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
    no_sandbox: bool,
    allow_host: tuple[str, ...],
) -> None:
    flags = {**permission_flags(mode, allow, ask, deny), **sandbox_flags(no_sandbox, allow_host)}
    loaded = settings_for(workspace, flags)
    sys.exit(asyncio.run(_chat(loaded, workspace.resolve(), model_name, resume or ("" if go_on else None), plain)))


async def _chat(loaded: Loaded, workspace: Path, model_name: str | None, resume: str | None, plain: bool) -> int:
    from ferrule.app.build import App
    from ferrule.cli.chatting.asker import ChatAsker
    from ferrule.cli.chatting.assistant import ChatAssistant
    from ferrule.cli.chatting.chat import Chat
    from ferrule.cli.chatting.talk_commands import show_resumed

    model = _model(model_name or "")
    screen = _screen(plain)
    late: list[Chat] = []
    person = _person(screen, late)
    chat = Chat(screen, person)
    late.append(chat)
    asker = ChatAsker(screen, chat.printer, person, paused=chat.steering.paused, interrupt=chat.interrupted)
    app = App(loaded.settings, workspace, ask=asker)
    async with app:
        report_broken(app.tools)
        for note in app.notes:
            warn(note)
        assistant = ChatAssistant(app, workspace, model, _model)
        chat.use(assistant)
        try:
            if resume is not None:
                assistant.resume(resume)
                show_resumed(chat)
            return await chat.converse()
        finally:
            await assistant.close()


def _model(name: str) -> Model:
    import json
    from pathlib import Path

    from ferrule.testing import ScriptedModel, call, say

    script = json.loads(Path(name.removeprefix("scripted:")).read_text())
    return ScriptedModel(
        [
            one
            if isinstance(one, str)
            else say(one.get("text", ""), *(call(c["name"], c["arguments"]) for c in one["calls"]))
            for one in script
        ]
    )


def _screen(plain: bool) -> Screen:
    from ferrule.cli.chatting.screen import PlainScreen, wants_plain

    if plain or wants_plain(sys.stdout, os.environ):
        return PlainScreen(sys.stdout)
    from ferrule.cli.chatting.live_screen import LiveScreen, wraps_again

    return LiveScreen(sys.stdout, wraps_again=wraps_again(os.environ))


def _person(screen: Screen, late: list[Chat]) -> PersonInput:
    from ferrule.cli.chatting.person_input import PlainInput

    if not screen.live or not sys.stdin.isatty():
        return PlainInput(sys.stdin)
    from ferrule.cli.chatting.completion import ChatCompleter
    from ferrule.cli.chatting.prompt_input import PromptInput
    from ferrule.workspace.data_folder import data_folder

    return PromptInput(ChatCompleter(lambda: late[0]), data_folder() / "chat_history")
