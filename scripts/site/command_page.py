"""The reference of every command and option, as click knows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.group import LazyGroup
from ferrule.cli.main import COMMANDS
from ferrule.cli.words import choose_language

if TYPE_CHECKING:
    from collections.abc import Iterator


def command_reference() -> str:
    """A section for each command, as Markdown."""
    return "\n\n".join(part for context in contexts() for part in _section(context))


def contexts() -> Iterator[click.Context]:
    """Every command, in the order of their names, those of a group after it."""
    choose_language(["--lang", "en"])
    root = LazyGroup(COMMANDS, name="ferrule")
    return _below(root, click.Context(root, info_name="ferrule"))


def _below(group: click.Group, parent: click.Context) -> Iterator[click.Context]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is not None and not command.hidden:
            context = click.Context(command, info_name=name, parent=parent)
            yield context
            if isinstance(command, click.Group):
                yield from _below(command, context)


def _section(context: click.Context) -> list[str]:
    command = context.command
    level = "###" if context.parent is not None and context.parent.parent is None else "####"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"{level} `{context.command_path}`", f"```text\n{usage}\n```", _paragraphs(command.help or "")]
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and not one.hidden]
    if rows := [row for one in options if "--help" not in one.opts and (row := _row(one, context))]:
        parts.append("\n".join(["| option | |", "|---|---|", *rows]))
    return [part for part in parts if part]


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(option.opts) + "".join(f" / {name}" for name in option.secondary_opts)
    if not option.is_flag:
        names += f" {_value(option, context)}"
    words = " ".join((option.help or "").split())
    shown: Any = option.get_default(context, call=False)
    # A default of None or an enum's sentinel says nothing; click itself shows one only where it was asked to.
    if option.show_default and isinstance(shown, (str, int, float)) and not isinstance(shown, bool):
        words += f" Default: `{shown}`."
    return f"| `{_cell(names)}` | {_cell(words)} |"


def _value(option: click.Option, context: click.Context) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    if option.metavar is None and isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType)):
        return "N"
    return option.make_metavar(context)


def _paragraphs(text: str) -> str:
    """Click's marks for paragraphs that must not be filled are of no use here."""
    return re.sub(r"\n[ \t]+", "\n", text.replace("\b\n", "").replace("\f", "")).strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
