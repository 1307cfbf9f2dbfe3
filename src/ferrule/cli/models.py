"""`ferrule models`: which models can be asked from here, and what is missing for the others."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.assistant import NoModelChosen, known_providers
from ferrule.cli.ask import typed_line
from ferrule.cli.options import json_option, settings_for, workspace_option
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.words import _, localised
from ferrule.core.phrases import joined
from ferrule.models.known_models import context_of
from ferrule.models.providers import EMBEDDED, Availability, FoundProvider, discover

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ferrule.app.settings import Settings
    from ferrule.core.model import ModelError


def model_words(error: ModelError) -> str:
    """What happened and what to do. What a provider said itself stays as it said it."""
    if not isinstance(error, NoModelChosen):
        return localised(joined(" ", [error.message, error.suggestion]))
    lines = [_("No model is chosen. Choose one:")]
    for name, where in error.with_key.items():
        lines.append(_("  --model {name}/NAME    {where} is set").format(name=name, where=where))
    lines.append(_("  --model ollama/NAME    a server on this machine: ollama, lmstudio, llamacpp or vllm"))
    lines.append(
        _("  --model {name}          a small model on this machine: no key; 93 MB, fetched once").format(name=EMBEDDED)
    )
    if not error.with_key:
        lines.append(_("or give a key: export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=…, GEMINI_API_KEY=…"))
    lines.append(_("`ferrule models` lists what is here. To keep a choice: export FERRULE_MODEL=PROVIDER/NAME"))
    return "\n".join(lines)


_MOST_OF_ONE = 15


@click.command("models", help=_("List the models you can use, or those that match every word of QUERY."))
@click.argument("query", nargs=-1)
@click.option("--all", "whole", is_flag=True, help=_("List every model of every provider."))
@json_option
@workspace_option
def models_command(query: tuple[str, ...], whole: bool, as_json: bool, workspace: Path) -> None:
    settings = settings_for(workspace).settings
    found = asyncio.run(discover(known_providers(settings)))
    if as_json:
        write_json([_document(one, query) for one in found])
        return
    rows: list[list[str]] = []
    left_out = 0
    for one in found:
        names = _matching(one, query)
        shown = names if whole or query else names[:_MOST_OF_ONE]
        left_out += len(names) - len(shown)
        rows += [_row(one.provider, name) for name in shown]
    if rows:
        print_table([_("NAME"), _("CONTEXT"), _("US$ PER MILLION TOKENS (INPUT / OUTPUT)")], rows)
        write("")
    elif query:
        click.echo(_("No model matches."), err=True)
    if left_out:
        write(_("{count} more: search for a word, or use --all.").format(count=f"{left_out:,}"))
    if any(row[2] for row in rows):
        write(_("Prices from {source}; where they differ, your provider's page is right.").format(source=_source()))
    if not query:
        _print_providers(found, settings.model)


def _print_providers(found: list[FoundProvider], chosen: str) -> None:
    rows = [[one.provider, _state(one), _to_do(one)] for one in sorted(found, key=lambda one: one.state != "ready")]
    print_table([_("PROVIDER"), _("STATE"), _("WHAT TO DO")], rows)
    write("")
    if chosen:
        write(_("Chosen: {name}").format(name=chosen))
    else:
        write(_("To choose one: --model PROVIDER/NAME, or export FERRULE_MODEL=PROVIDER/NAME."))


def _matching(one: FoundProvider, query: tuple[str, ...]) -> list[str]:
    words = [word.lower() for word in query]
    return [name for name in one.models if all(word in f"{one.provider}/{name}".lower() for word in words)]


def _row(provider: str, name: str) -> list[str]:
    from ferrule.models.prices import listed_price

    context, price = context_of(provider, name), listed_price(provider, name)
    costs = f"{price[0]:g} / {price[1]:g}" if price else ""
    return [f"{provider}/{name}", f"{context:,}" if context else "", costs]


def _source() -> str:
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


def _state(one: FoundProvider) -> str:
    count = f"{len(one.models):,}"
    return {
        Availability.READY: _("ready, {count} models").format(count=count) if one.models else _("ready"),
        Availability.NO_KEY: _("no key"),
        Availability.KEY_REFUSED: _("key refused"),
        Availability.NOT_RUNNING: _("not running"),
        Availability.UNREACHABLE: _("not reachable"),
        Availability.NOT_INSTALLED: _("not installed"),
    }[one.state]


def _to_do(one: FoundProvider) -> str:
    variable = one.key_variables[0] if one.key_variables else ""
    if one.state is Availability.READY:
        return _("key from {where}").format(where=one.key_from) if one.key_from else ""
    return {
        Availability.NO_KEY: f"export {variable}=…",
        Availability.KEY_REFUSED: _("check {where}").format(where=one.key_from),
        Availability.NOT_RUNNING: _("start {label}").format(label=one.label),
        Availability.UNREACHABLE: _("check the network and any proxy"),
        Availability.NOT_INSTALLED: "pip install 'ferrule[local]'" if one.provider == EMBEDDED else "",
    }[one.state]


def _document(one: FoundProvider, query: tuple[str, ...]) -> dict[str, Any]:
    from ferrule.models.prices import listed_price

    models: list[dict[str, Any]] = []
    for name in _matching(one, query):
        listed = listed_price(one.provider, name)
        price = {"read": listed[0], "written": listed[1], "as_of": _source()} if listed else None
        context = context_of(one.provider, name)
        models.append({"name": f"{one.provider}/{name}", "context_tokens": context, "usd_per_million_tokens": price})
    return {
        "provider": one.provider,
        "label": one.label,
        "state": one.state.value,
        "key_from": one.key_from or None,
        "key_variables": list(one.key_variables),
        "models": models,
    }


_OF_ONE = 3
_OFFERED = 9


def chosen_first(settings: Settings, nothing: NoModelChosen) -> str | None:
    """The name that the person picks; None where there is nobody to pick, or they leave it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(model_words(nothing), err=True)
        return None
    click.echo(_("No model is chosen yet. Looking for what is here…"))
    offered = offers(asyncio.run(discover(known_providers(settings))))
    if not offered:
        click.echo(model_words(nothing))
        return None
    for number, (name, about) in enumerate(offered, 1):
        click.echo(f"  {number}  {name}  {about}".rstrip())
    names = [name for name, _about in offered]
    click.echo(_("Which one? A number, or provider/name; Enter quits: "), nl=False)
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


def offers(found: Iterable[FoundProvider]) -> list[tuple[str, str]]:
    """Models that can be asked now, a few of each provider, with a word about where they are."""
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
