"""The `/commands`: what a person does themselves in a conversation, without asking the model."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from ferrule.agent.saved_sessions import SavedConversationError
from ferrule.app.settings import SettingsError
from ferrule.cli.chatting.call_view import counted, diff_rows
from ferrule.cli.chatting.event_printer import usage_words
from ferrule.cli.chatting.screen import cut
from ferrule.cli.chatting.session_commands import (
    continue_command,
    copy_command,
    export_command,
    fork_command,
    init_command,
    resume_command,
    rewind_command,
    say_undone,
    todos_command,
)
from ferrule.cli.words import _, localised, said_of
from ferrule.core.errors import MissingExtraError, ToolError
from ferrule.core.model import ModelError, check_settings
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined
from ferrule.core.shown_text import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ferrule.agent.custom_commands import CustomCommand
    from ferrule.cli.chatting.chat_session import Chat
    from ferrule.core.model import Effort
    from ferrule.workspace.snapshots.history import History


_COMMAND = re.compile(r"/(?P<name>[\w:-]+|\?)(?:\s+(?P<rest>.*))?", re.DOTALL)


class Command(NamedTuple):
    """One command: a line about it, what it takes, and what it does."""

    about: str
    takes: str
    run: Callable[[Chat, str], Awaitable[None]]
    choices: Callable[[Chat], Sequence[str]] | Sequence[str] = ()
    stops_turn: bool = False
    """Whether a turn that runs is stopped first, because it would work on with what the command changes."""
    for_model: bool = False
    """Whether all it has is words for the model, which waits for them as for any line."""


def commands() -> Mapping[str, Command]:
    """All of them by name, in the order of `/help`."""
    return {
        "help": Command(_("Show these commands and keys."), "", _help),
        "undo": Command(
            _("Undo what the last turn changed, or the last N turns; `call` undoes only the last change."),
            "[N|call]",
            _undo,
            ("call",),
            stops_turn=True,
        ),
        "redo": Command(_("Redo what was undone last."), "", _redo, stops_turn=True),
        "diff": Command(_("Show what this conversation has changed; N shows change N."), "[N]", _diff),
        "tools": Command(_("List the tools that the model may call."), "", _tools),
        "model": Command(
            _("Show the model in use, or switch to another one."), "[NAME]", _model,
        ),
        "mode": Command(
            _("Show how much runs without asking, or change it."), "[MODE]", _mode,
            tuple(modes()),
        ),
        "effort": Command(
            _("Show how much the model thinks before it answers, or change it."), "[EFFORT]", _effort,
            tuple(_efforts()),
        ),
        "todos": Command(_("Show the model's list of steps."), "", todos_command),
        "init": Command(_("Have the model write an AGENTS.md for this project."), "", init_command, for_model=True),
        "cost": Command(_("Show the tokens and money used so far."), "", _cost),
        "compact": Command(_("Summarise earlier messages."), "", _compact, stops_turn=True),
        "clear": Command(_("Start a new conversation; the old one stays saved."), "", _clear, stops_turn=True),
        "sessions": Command(_("List the saved conversations in this folder."), "", _sessions),
        "resume": Command(
            _("Continue a saved conversation; without ID, choose one from a list."), "[ID]", resume_command,
            _session_choices, stops_turn=True,
        ),
        "continue": Command(_("Go on with a turn that was cut off."), "", continue_command),
        "rewind": Command(
            _("Go back to before a message, or N turns; `files` undoes their changes too."), "[N] [files|keep]",
            rewind_command, stops_turn=True,
        ),
        "fork": Command(_("Continue in a copy of this conversation."), "", fork_command, stops_turn=True),
        "copy": Command(_("Copy the last answer to the clipboard."), "", copy_command),
        "export": Command(_("Write the conversation to a Markdown file."), "[FILE]", export_command),
        "quit": Command(_("Quit; so does Ctrl-D."), "", _quit),
    }  # fmt: skip


def known_commands(chat: Chat) -> Mapping[str, Command]:
    """The same with those of the project and the user, none of which takes the place of one of ours."""
    custom = chat.assistant.commands.for_user() if chat.begun else ()
    found = {
        one.name: Command(one_line(one.about), one_line(one.takes), _custom(one), for_model=True) for one in custom
    }
    return {**found, **commands()}


def _custom(command: CustomCommand) -> Callable[[Chat, str], Awaitable[None]]:
    async def run(chat: Chat, rest: str) -> None:
        chat.for_model[f"/{command.name} {rest}".strip()] = command.message(rest)

    return run


_SAME = {"?": "help", "exit": "quit", "q": "quit"}


def stops_turn(chat: Chat, said: str) -> bool | None:
    """Whether a turn is stopped before it is carried out; None where it is for the model, as a path (`/etc/hosts`)."""
    found = _COMMAND.fullmatch(said)
    if found is None:
        return None
    command = known_commands(chat).get(_SAME.get(found["name"], found["name"]))
    if command is None:
        return False
    return None if command.for_model else command.stops_turn


async def run_command(chat: Chat, said: str) -> bool:
    """Whether what was said is a command, and was carried out. A path such as `/etc/hosts` is none; neither is what
    only has words for the model, which then are in `chat.for_model`.
    """
    found = _COMMAND.fullmatch(said)
    if found is None:
        return False
    known = known_commands(chat)
    name = _SAME.get(found["name"], found["name"])
    command = known.get(name)
    if command is None:
        close = [one for one in known if one.startswith(name)][:3] or nearest(name, known, most=1)
        hint = _("Did you mean {names}?").format(names=_(", ").join(f"`/{one}`" for one in close))
        hint = hint if close else _("`/help` lists them.")
        chat.say(_("There is no command `/{name}`.").format(name=name) + f" {hint}", "warned")
        return True
    try:
        rest = (found["rest"] or "").strip()
        await command.run(chat, rest)
        if words := chat.for_model.pop(f"/{name} {rest}".strip(), ""):
            chat.for_model[said] = words
            return False
    except (ToolError, SavedConversationError, SettingsError, ModelError, MissingExtraError, OSError) as error:
        words = (
            localised(joined(" ", [error.message, error.suggestion or ""]))
            if isinstance(error, (ToolError, ModelError))
            else said_of(error)
        )
        chat.say(words.strip(), "bad")
    return True


async def _help(chat: Chat, _rest: str) -> None:
    from wcwidth import ljust

    own, custom = commands(), known_commands(chat)
    known = {**own, **{name: custom[name] for name in custom if name not in own}}
    widest = max(len(name) + len(command.takes) for name, command in known.items()) + 4
    narrow = chat.screen.live and chat.screen.width < 60
    for number, (name, command) in enumerate(known.items()):
        if number == len(own):
            chat.say("")
            chat.say(_("From files of yours and of this project:"))
        head = f"/{name} {command.takes}".rstrip()
        line = _("{what}: {why}").format(what=head, why=command.about)
        chat.say(line if narrow else f"{ljust(head, widest)}{command.about}", hang=2 if narrow else widest)
    chat.say("")
    for line in (
        _("@FILE attaches a file, Ctrl-V the image in the clipboard. !COMMAND runs a command as you."),
        _("Alt-Enter, or a backslash at the end, starts another line. Ctrl-X Ctrl-E opens your editor."),
        _("While the model works, commands act at once. Other lines go to it with the next results; Up edits them."),
        _("Shift-Tab changes the mode. Ctrl-O shows the model's reasoning. Ctrl-Z suspends."),
        _("Esc stops the turn. Ctrl-C stops it too; twice, it quits."),
    ):
        chat.say(line)


async def _quit(chat: Chat, _rest: str) -> None:
    chat.leave()


_MOST_LINES = 500


def _history(chat: Chat) -> tuple[History, str]:
    from ferrule.workspace.files import files_of

    session = chat.assistant.app.runtime.session
    return files_of(session).history, session.id


async def _undo(chat: Chat, rest: str) -> None:
    """The last turn that changed something, or the last N of them, or one change."""
    history, session = _history(chat)
    if rest == "call":
        say_undone(chat, history, await asyncio.to_thread(history.undo, session=session))
        return
    turns = int(rest) if rest.isdecimal() and int(rest) > 0 else 0 if rest else 1
    if not turns:
        chat.say(_("/undo takes a number of turns, or `call`."), "warned")
        return
    report, undone = await asyncio.to_thread(history.undo_turns, session, most=turns)
    say_undone(chat, history, report)
    if turns > undone > 0 and report.refused is None:
        chat.say(counted(undone, _("Only 1 turn had changes to undo."), _("Only {n} turns had changes to undo.")))


async def _redo(chat: Chat, _rest: str) -> None:
    """What was undone last, with all of its turn."""
    history, session = _history(chat)
    say_undone(chat, history, await asyncio.to_thread(history.redo_turn, session))


async def _diff(chat: Chat, rest: str) -> None:
    """All that this conversation changed and that still stands, or one change."""
    history = chat.assistant.app.runtime.session.history
    text = await asyncio.to_thread(history.diff, int(rest) if rest.isdecimal() else None)
    if not text:
        chat.say(_("Nothing was changed in this conversation."))
        return
    chat.rows(diff_rows(text, chat.screen, _MOST_LINES))


async def _tools(chat: Chat, _rest: str) -> None:
    """Each with its kind, as the mode leaves them."""
    from ferrule.core.tool import description_of

    shown = chat.assistant.agent.tools.tools()
    widest = max((len(tool.name) for tool in shown), default=0)
    for tool in sorted(shown, key=lambda one: one.name.lower()):
        line = f"  {tool.name:<{widest}}  {tool.kind.value:<8}  {description_of(tool).short}"
        chat.rows([cut(line, chat.screen.width)])


async def _model(chat: Chat, rest: str) -> None:
    """The one in use, or another one from the next turn on."""
    if rest:
        await chat.assistant.use_model(rest)
    chat.say(_("The model is {name}.").format(name=chat.assistant.agent.model.name))


def modes() -> dict[str, str]:
    """The permission modes, with a line about each."""
    from ferrule.pipeline.authorise import Mode

    return {
        Mode.DEFAULT: _("reading runs, the rest asks"),
        Mode.PLAN: _("only reading runs; the rest is refused"),
        Mode.ACCEPT_EDITS: _("files in the workspace are changed without asking"),
        Mode.DONT_ASK: _("what would ask is refused"),
        Mode.BYPASS: _("everything runs but what is denied, dangerous or matched by an ask rule"),
    }


async def _mode(chat: Chat, rest: str) -> None:
    """How much runs without asking, from the next call on."""
    known = modes()
    if rest in known:
        chat.mode = rest
    elif rest:
        chat.say(_("There is no mode `{name}`.").format(name=rest), "warned")
    for name, about in known.items():
        mark = "›" if name == chat.mode else " "
        chat.say(f"{mark} {name:<13}{about}", hang=15 if chat.screen.width >= 60 else 4)


def _efforts() -> dict[str, str]:
    return {
        "default": _("as much as the model does by itself"),
        "low": _("little thinking, quick answers"),
        "medium": _("some thinking"),
        "high": _("much thinking, slow and thorough"),
    }


async def _effort(chat: Chat, rest: str) -> None:
    """How much the model thinks, from the next turn on."""
    agent, known = chat.assistant.agent, _efforts()
    if rest in known:
        settings = replace(agent.settings, effort=None if rest == "default" else cast("Effort", rest))
        try:
            check_settings(agent.model, settings)
        except ModelError as error:
            chat.say(localised(joined(" ", [error.message, error.suggestion])), "warned")
        else:
            agent.settings = settings
    elif rest:
        chat.say(_("There is no effort `{name}`.").format(name=rest), "warned")
    for name, about in known.items():
        mark = "›" if name == (agent.settings.effort or "default") else " "
        chat.say(f"{mark} {name:<9}{about}")


_LISTED = 20


async def _cost(chat: Chat, _rest: str) -> None:
    chat.say(usage_words(chat.assistant.agent.conversation.usage) or _("Nothing used yet."))


async def _compact(chat: Chat, _rest: str) -> None:
    chat.say(_("Summarising earlier messages…"), "faint")
    if compacted := await chat.assistant.agent.compact():
        chat.printer.handle(compacted)
    else:
        chat.say(_("There is too little to summarise."))


async def _clear(chat: Chat, _rest: str) -> None:
    chat.assistant.begin()
    chat.notes_for_model.clear()
    chat.say(_("Started a new conversation. `/sessions` lists the earlier ones."))


async def _sessions(chat: Chat, _rest: str) -> None:
    listed = chat.assistant.sessions()[:_LISTED]
    if not listed:
        chat.say(_("No conversation is saved for this folder."))
    for one in listed:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
        chat.say(f"{one.id[:8]}  {when}  {one_line(one.request)}")


def _session_choices(chat: Chat) -> Sequence[str]:
    return [one.id[:8] for one in chat.assistant.sessions()[:_LISTED]]
