"""The first time: nothing says which model to ask, so what is there is looked for, shown and offered."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from ferrule.cli.ask import typed_line
from ferrule.cli.words import _

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.app.assistant import NoModelChosen
    from ferrule.app.settings import Settings
    from ferrule.models.providers import FoundProvider

_OF_ONE = 3
_OFFERED = 9


def chosen_first(settings: Settings, nothing: NoModelChosen) -> str | None:
    """The name that the person picks; None where there is nobody to pick, or they leave it."""
    from ferrule.cli.models import model_words

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(model_words(nothing), err=True)
        return None
    from ferrule.app.assistant import known_providers
    from ferrule.models.providers import discover

    click.echo(_("No model is chosen yet. Looking for what is here…"))
    offered = offers(asyncio.run(discover(known_providers(settings))))
    if not offered:
        click.echo(model_words(nothing))
        return None
    for number, (name, about) in enumerate(offered, 1):
        click.echo(f"  {number}  {name}  {about}".rstrip())
    return _picked([name for name, _about in offered])


def offers(found: Iterable[FoundProvider]) -> list[tuple[str, str]]:
    """Models that can be asked now, a few of each provider, with a word about where they are."""
    from ferrule.models.providers import EMBEDDED, Availability

    ready = [one for one in found if one.state is Availability.READY]
    listed: list[tuple[str, str]] = []
    for one in ready:
        if one.provider == EMBEDDED:
            about = _("(on this machine, small, no key)")
        elif one.key_from:
            about = _("(key from {where})").format(where=one.key_from)
        else:
            about = _("(on this machine)")
        listed += [(f"{one.provider}/{name}", about) for name in one.models[:_OF_ONE]]
    return listed[:_OFFERED]


def _picked(names: list[str]) -> str | None:
    click.echo(_("Which one? A number, or provider/name; Enter leaves: "), nl=False)
    try:
        said = typed_line().strip()
    except EOFError:
        said = ""
    if said.isdecimal() and 1 <= int(said) <= len(names):
        said = names[int(said) - 1]
    if not said:
        return None
    click.echo(_("To keep it: export FERRULE_MODEL={name}").format(name=said))
    return said
