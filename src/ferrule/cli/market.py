"""`ferrule market`: where plugins are found, and how a company publishes its own."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import json_option, warn
from ferrule.cli.output import at_a_terminal, print_table, show_list, write, write_json
from ferrule.cli.words import _, localised, persons_language
from ferrule.core.errors import ToolError
from ferrule.core.phrases import joined

if TYPE_CHECKING:
    from datetime import datetime

    from ferrule.plugins.market import Market
    from ferrule.plugins.offers import PluginOffer


market_command = click.Group("market", help=_("Find plugins in markets, and publish a market of your own."))


@market_command.command(
    "add",
    help=_("Add the market at URL, under a NAME of your choice, and fetch its index."),
    epilog=_("Its key is pinned: an index that is signed with another key is never accepted."),
)
@click.argument("name")
@click.argument("url")
@click.option("--key", metavar="KEY", help=_("The market's public key, `ed25519:…`, from the people who run it."))
@click.option("--registry", is_flag=True, help=_("It is a registry with the API of the MCP registry, not signed."))
@click.option("--yes", is_flag=True, help=_("Pin the key that it is signed with without being asked. It is printed."))
@json_option
def add_market_command(name: str, url: str, key: str | None, registry: bool, yes: bool, as_json: bool) -> None:
    from ferrule.plugins.market import add_market

    if registry and key:
        raise click.UsageError(_("A registry is not signed, so it takes no --key."))

    def confirm(found: str) -> bool:
        return _confirm_key(url, found, yes=yes)

    market = add_market(name, url, key, registry=registry, confirm=confirm if yes or at_a_terminal() else None)
    document = _market_document(market)
    if as_json:
        write_json(document)
    elif market.is_registry:
        write(_("{name} was added. It is searched live, and nothing in it is signed.").format(name=name))
    else:
        write(
            _("{name} was added. Plugins: {count}. Pinned key: {key}").format(
                name=name, count=document["plugins"], key=market.key
            )
        )


def _confirm_key(url: str, key: str, *, yes: bool) -> bool:
    from ferrule.cli.ask import confirmed

    with persons_language():
        write(_("{url} is signed with this key:").format(url=url), err=True)
        write(f"  {key}", err=True)
        if yes:
            return True
        write(_("Compare it with the key that the people who run the market gave you."), err=True)
        return confirmed(_("Pin this key? Yes (y) or no (n) [y/N] "))


@market_command.command("list", help=_("List the markets that you added."))
@json_option
def list_markets_command(as_json: bool) -> None:
    from ferrule.plugins.market import markets

    found = [_market_document(one) for one in markets()]
    rows = (
        [one["name"], one["kind"], one["problem"] or str(one["plugins"] or "-"), (one["expires_at"] or "-")[:10],
         one["url"]]
        for one in found
    )  # fmt: skip
    headers = [_("NAME"), _("KIND"), _("PLUGINS"), _("EXPIRES"), _("ADDRESS")]
    show_list(found, as_json, _("There are no markets. Add one: ferrule market add NAME URL"), headers, rows)


def _market_document(market: Market) -> dict[str, Any]:
    from ferrule.plugins.market import kept_payload
    from ferrule.plugins.signed_index import parse_index

    payload = None if market.is_registry else kept_payload(market)
    index = parse_index(payload, market.name) if payload is not None else None
    return {
        "name": market.name,
        "kind": "registry" if market.is_registry else "signed",
        "url": market.url,
        "key": market.key or None,
        "added_at": market.added_at,
        "serial": index.metadata.serial if index else None,
        "plugins": len({one.server.name for one in index.servers}) if index else None,
        "expires_at": _moment(index.metadata.expires_at) if index else None,
        "problem": None if index or market.is_registry else _("no index, refresh it"),
    }


@market_command.command("remove", help=_("Remove a market, its pinned key and its cached index."))
@click.argument("name")
@json_option
def remove_market_command(name: str, as_json: bool) -> None:
    from ferrule.plugins.market import remove_market

    remove_market(name)
    if as_json:
        write_json({"name": name, "removed": True})
    else:
        write(_("{name} was removed. Plugins that came from it stay.").format(name=name))


@market_command.command("refresh", help=_("Fetch the index of the market NAME again, or of all of them."))
@click.argument("name", required=False)
@json_option
def refresh_markets_command(name: str | None, as_json: bool) -> None:
    from ferrule.plugins.market import find_market, markets, refresh_market

    chosen = [find_market(name)] if name else markets()
    if not chosen:
        warn(_("There are no markets. Add one: ferrule market add NAME URL"))
    documents: list[dict[str, Any]] = []
    for market in chosen:
        if market.is_registry:
            if name:
                warn(_("{name} is a registry: it is searched live, and has no index to fetch.").format(name=name))
            continue
        try:
            done = asdict(refresh_market(market))
            documents.append({**done, "expires_at": _moment(done["expires_at"]), "problem": None})
        except ToolError as error:
            why = joined(" ", [error.message, error.suggestion or ""])
            documents.append({"market": market.name, "problem": str(why)})
            if not as_json:
                warn(_("{name} was not refreshed. {why}").format(name=market.name, why=localised(why)))
            continue
        if not as_json:
            words = (
                _("{name}: new index, serial {serial}. Plugin versions: {count}. Valid until {when}.")
                if done["changed"]
                else _("{name}: up to date, serial {serial}. Plugin versions: {count}. Valid until {when}.")
            )
            count, when = done["plugins"], _day(done["expires_at"])
            write(words.format(name=market.name, serial=done["serial"], count=count, when=when))
    if as_json:
        write_json(documents)
    if any(one["problem"] for one in documents):
        sys.exit(1)


@market_command.command("search", help=_("Find plugins that have all the WORDS; without words, list them all."))
@click.argument("words", nargs=-1)
@json_option
def search_markets_command(words: tuple[str, ...], as_json: bool) -> None:
    from ferrule.plugins.market import markets
    from ferrule.plugins.offers import find_offers

    found = find_offers(" ".join(words), note=_note)
    if as_json:
        write_json([_offer_document(one) for one in found])
    elif found:
        rows = [[one.name, one.version, one.market, one.publisher or "-", one.summary] for one in found]
        print_table([_("NAME"), _("VERSION"), _("MARKET"), _("PUBLISHER"), _("SUMMARY")], rows)
    elif markets():
        click.echo(_("No market offers a plugin with these words."), err=True)
    else:
        click.echo(_("There are no markets. Add one: ferrule market add NAME URL"), err=True)


@market_command.command("show", help=_("Show everything that a market says of the plugin NAME."))
@click.argument("name")
@click.option("--version", metavar="VERSION", help=_("This version, instead of the newest."))
@click.option("--market", metavar="MARKET", help=_("Look only in this market."))
@json_option
def show_offer_command(name: str, version: str | None, market: str | None, as_json: bool) -> None:
    from ferrule.plugins.offers import find_offer, near_names

    offer = find_offer(name, version, market, note=_note)
    near = near_names(offer.name)
    if as_json:
        write_json({**_offer_document(offer), "near_names": near})
        return
    for label, value in _shown(offer):
        write(f"{label} {value}" if label else value)
    if offer.withdrawn:
        warn(_("It was withdrawn: {reason}").format(reason=offer.withdrawn.reason))
    if near:
        warn(_("Its name is close to others: {names}. Make sure it is the one you mean.").format(names=", ".join(near)))


def _shown(offer: PluginOffer) -> list[tuple[str, str]]:
    """Every line that has something to say."""
    nothing = _("not stated")
    lines = [
        ("", f"{offer.name} {offer.version}"),
        ("", offer.summary),
        (_("Market:"), offer.market),
        (_("Proof:"), localised(offer.proof)),
        (_("Publisher:"), offer.publisher or nothing),
        (_("Published:"), _day(offer.published_at) or nothing),
        (_("Reviewed:"), _day(offer.reviewed) or _("no")),
        (_("Ferrule:"), offer.ferrule),
        (_("Tools:"), ", ".join(f"{name} ({kind})" for name, kind in offer.kinds.items()) or nothing),
        (_("Hosts:"), ", ".join(offer.needs.hosts)),
        (_("Folders:"), ", ".join(offer.needs.folders)),
        (_("Secrets:"), ", ".join(offer.needs.secrets)),
        (_("Programs:"), ", ".join(offer.needs.programs)),
        *((_("File:"), _("{url} ({n} bytes, sha256 {sha256})").format(
            url=file.url, n=f"{file.size:,}", sha256=file.sha256 or nothing)) for file in offer.files),
    ]  # fmt: skip
    return [(label, value) for label, value in lines if value]


def _offer_document(offer: PluginOffer) -> dict[str, Any]:
    return {
        **asdict(offer),
        "proof": str(offer.proof),
        "needs": offer.needs.model_dump(),
        "published_at": _moment(offer.published_at),
        "reviewed": _moment(offer.reviewed),
        "withdrawn": offer.withdrawn.model_dump(mode="json") if offer.withdrawn else None,
    }


def _note(text: str) -> None:
    warn(localised(text))


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


def _day(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d") if moment else ""


@market_command.command(
    "publish",
    help=_("Make a signed market from the wheels and .mcpb files in FOLDER, for any web server to serve."),
    epilog=_("Keep the private key safe and secret: everyone who added the market trusts what it signs."),
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--key-file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help=_("The private key, in PEM form; made if it does not exist."),
)
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help=_("The folder of the market.")
)
@click.option("--base-url", default="", help=_("Where the files are served, if not beside the index."))
@click.option("--withdraw", multiple=True, metavar="NAME==VERSION", help=_("Withdraw this version. Repeatable."))
@click.option("--reason", default="", help=_("Why it is withdrawn; users read it."))
@click.option("--reviewed", multiple=True, metavar="NAME==VERSION", help=_("You reviewed this version. Repeatable."))
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=90,
    show_default=True,
    help=_("How long the index is valid. Publish again before it expires."),
)
@json_option
def publish_market_command(
    folder: Path,
    key_file: Path,
    out: Path,
    base_url: str,
    withdraw: tuple[str, ...],
    reason: str,
    reviewed: tuple[str, ...],
    days: int,
    as_json: bool,
) -> None:
    from ferrule.plugins.publish import publish

    if bool(withdraw) != bool(reason.strip()):
        raise click.UsageError(_("--withdraw and --reason go together."))
    done = publish(
        folder,
        key_file,
        out,
        base_url=base_url,
        withdraw={_name_and_version(one): reason for one in withdraw},
        reviewed=[_name_and_version(one) for one in reviewed],
        days=days,
    )
    if as_json:
        write_json({**asdict(done), "expires_at": _moment(done.expires_at)})
    else:
        if done.key_is_new:
            write(_("A new private key is in {file}. Keep it safe and secret.").format(file=key_file))
        words = _("Published in {out}: serial {serial}. Plugin versions: {count}. Valid until {when}.")
        write(words.format(out=out, count=len(done.plugins), serial=done.serial, when=_day(done.expires_at)))
        for words, listed in (
            (_("New: {name} {version}"), done.added),
            (_("No longer offered: {name} {version}"), done.dropped),
            (_("Withdrawn: {name} {version}"), done.withdrawn),
        ):
            for name, version in listed:
                write(words.format(name=name, version=version))
        write(_("To add it: ferrule market add NAME URL --key {key}").format(key=done.key))


def _name_and_version(typed: str) -> tuple[str, str]:
    name, equal, version = typed.partition("==")
    if not (name and equal and version):
        raise click.UsageError(_("`{typed}` is not NAME==VERSION.").format(typed=typed))
    return name, version
