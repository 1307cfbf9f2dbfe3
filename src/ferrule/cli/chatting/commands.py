"""The `/commands`: what a person does themselves in a conversation, without asking the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ferrule.agent.saved_sessions import SessionProblem
from ferrule.app.settings import SettingsError
from ferrule.cli.chatting import choice_commands, past_commands, talk_commands
from ferrule.cli.words import _, localised, said_of
from ferrule.core.errors import MissingExtra, ToolError
from ferrule.core.model import ModelError
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ferrule.cli.chatting.chat import Chat

_COMMAND = re.compile(r"/(?P<name>[\w-]+|\?)(?:\s+(?P<rest>.*))?", re.DOTALL)


class Command(NamedTuple):
    """One command: a line about it, what it takes, and what it does."""

    about: str
    takes: str
    run: Callable[[Chat, str], Awaitable[None]]
    choices: Callable[[Chat], Sequence[str]] | None = None


def commands() -> Mapping[str, Command]:
    """All of them by name, in the order of `/help`."""
    return {
        "help": Command(_("Show these commands and keys."), "", _help),
        "undo": Command(
            _("Take back what the last turn changed, or the last N turns; `call` takes back the last change alone."),
            "[N|call]",
            past_commands.undo,
            past_commands.choices,
        ),
        "redo": Command(_("Make again what was taken back last."), "", past_commands.redo),
        "diff": Command(_("Show what this conversation has changed; N shows change N."), "[N]", past_commands.diff),
        "tools": Command(_("List the tools that the model may call."), "", choice_commands.tools),
        "model": Command(
            _("Show the model in use, or go on with another one."), "[NAME]", choice_commands.model,
        ),
        "mode": Command(
            _("Show how much runs without asking, or change it."), "[MODE]", choice_commands.mode,
            choice_commands.modes,
        ),
        "cost": Command(_("Show the tokens and the money used so far."), "", talk_commands.cost),
        "compact": Command(_("Put earlier messages into a summary."), "", talk_commands.compact),
        "clear": Command(_("Begin a new conversation; the old one stays saved."), "", talk_commands.clear),
        "sessions": Command(_("List the saved conversations of this folder."), "", talk_commands.sessions),
        "resume": Command(
            _("Go on with a saved conversation, the last one unless named."), "[ID]", talk_commands.resume,
            talk_commands.session_ids,
        ),
        "quit": Command(_("Leave; so does Ctrl-D."), "", _quit),
    }  # fmt: skip


async def run_command(chat: Chat, said: str) -> bool:
    """Whether what was said is a command, and was carried out. A path such as `/etc/hosts` is none."""
    found = _COMMAND.fullmatch(said)
    if found is None:
        return False
    known = commands()
    name = {"?": "help", "exit": "quit", "q": "quit"}.get(found["name"], found["name"])
    command = known.get(name)
    if command is None:
        close = nearest(name, known, most=1)
        hint = _("Did you mean `/{name}`?").format(name=close[0]) if close else _("`/help` lists them.")
        chat.say(_("There is no command `/{name}`.").format(name=name) + f" {hint}", "warned")
        return True
    try:
        await command.run(chat, (found["rest"] or "").strip())
    except (ToolError, SessionProblem, SettingsError, ModelError, MissingExtra, OSError) as error:
        words = (
            localised(joined(" ", [error.message, error.suggestion or ""]))
            if isinstance(error, (ToolError, ModelError))
            else said_of(error)
        )
        chat.say(words.strip(), "bad")
    return True


async def _help(chat: Chat, _rest: str) -> None:
    from wcwidth import ljust

    known = commands()
    widest = max(len(name) + len(command.takes) for name, command in known.items()) + 4
    narrow = chat.screen.live and chat.screen.width < 60
    for name, command in known.items():
        head = f"/{name} {command.takes}".rstrip()
        chat.say(f"{head}: {command.about}" if narrow else f"{ljust(head, widest)}{command.about}")
    chat.say("")
    for line in (
        _("@FILE sends a file along. Alt-Enter, or a backslash at the end, begins another line."),
        _("While the model works, a line you type goes to it with the next results."),
        _("Ctrl-C stops the turn; twice leaves."),
    ):
        chat.say(line)


async def _quit(chat: Chat, _rest: str) -> None:
    chat.leaving = True
