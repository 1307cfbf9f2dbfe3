"""Markets that the user added, and what they offer (R7).

A market is a signed index (`signed_index.py`) whose key is pinned when it is added, or a registry with the API of the
MCP registry. What was fetched is kept under `market/NAME` in the data folder and can be used offline:

    source.json      its address and its key
    index.signed     the last index that passed every check
    registry.json    of a registry: what it answered
    withdrawn.json   versions that must not be used any more, small and quick to read at each start

Everything here blocks. From an event loop, call it in a thread.
"""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urljoin, urlsplit

from ferrule import ErrorKind, __version__
from ferrule.extension import (
    Fetched,
    FetchError,
    MissingExtraError,
    is_local,
    locked,
    nearest,
    phrase,
    write_atomically,
    write_json,
)
from ferrule.extension import fetch as bounded_fetch
from ferrule.plugins import signed_index
from ferrule.plugins.manifest import as_object
from ferrule.plugins.plugin_files import MARKET_NAME, market_folder, market_folders, write_withdrawn
from ferrule.plugins.signed_index import MarketError, MarketIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


_SOURCE = "source.json"


@dataclass(slots=True, frozen=True)
class Market:
    """A source of plugins. One without a key is a registry, whose answers nobody signs."""

    name: str
    url: str
    key: str
    added_at: str

    @property
    def is_registry(self) -> bool:
        return not self.key

    @property
    def folder(self) -> Path:
        return market_folder() / self.name

    @property
    def proof(self) -> str:
        """How far it is proven that an offer is its publisher's, in a sentence."""
        if self.key:
            return phrase(
                "Signed by the market {market} with the key that you pinned on {day}; files must have the sha256 in "
                "its index.",
                market=self.name,
                day=self.added_at[:10],
            )
        if self.url.startswith("https:"):
            return phrase("By the registry's own name check (reverse DNS or GitHub), over TLS; no signature.")
        return phrase("By the registry's own name check, from this machine; no signature.")


@dataclass(slots=True, frozen=True)
class Refreshed:
    market: str
    serial: int
    plugins: int
    changed: bool
    expires_at: datetime


# The markets


def markets() -> list[Market]:
    return [_market(folder) for folder in market_folders() if (folder / _SOURCE).exists()]


def find_market(name: str) -> Market:
    folder = market_folder() / name
    if MARKET_NAME.fullmatch(name) and (folder / _SOURCE).is_file():
        return _market(folder)
    close = nearest(name, (folder.name for folder in market_folders()), most=1)
    hint = phrase("Did you mean `{name}`?", name=close[0]) if close else phrase("`ferrule market list` shows them.")
    raise MarketError(phrase("There is no market `{name}`.", name=name), kind=ErrorKind.NOT_FOUND, suggestion=hint)


def add_market(
    name: str, url: str, key: str | None = None, *, registry: bool = False, confirm: Callable[[str], bool] | None = None
) -> Market:
    """Add a market and fetch what it offers. Without a `key`, `confirm` is asked about the one that it is signed with;
    where that cannot be asked either, nothing is added.
    """
    if not MARKET_NAME.fullmatch(name):
        raise MarketError(
            phrase("`{name}` cannot name a market: use up to 30 small letters, digits and `-`.", name=name),
            kind=ErrorKind.VALIDATION,
        )
    if (market_folder() / name).exists():
        raise MarketError(
            phrase("There is a market `{name}` already.", name=name),
            suggestion=phrase("Choose another name, or first: ferrule market remove {name}", name=name),
        )
    if any(mark in url for mark in "?#"):
        raise MarketError(
            phrase("The address of a market has no `?` and no `#`: {url}", url=url), kind=ErrorKind.VALIDATION
        )
    url = checked_address(url.removesuffix(signed_index.INDEX_FILE).rstrip("/") + "/")
    added = datetime.now(UTC).isoformat(timespec="seconds")
    if registry:
        market = Market(name, url, "", added)
        registry_page(url, limit=1)
        with _new_folder(market):
            return market
    wanted = signed_index.checked_key(key) if key else ""
    data = fetch(url + signed_index.INDEX_FILE, signed_index.MOST_INDEX_BYTES)
    found = signed_index.signer_of(data, url)
    pinned = wanted or found
    index = _accepted(signed_index.check(data, pinned, url), url)
    if not key and (confirm is None or not confirm(found)):
        raise MarketError(
            phrase("The market was not added: its key {key} was not confirmed.", key=found),
            kind=ErrorKind.PERMISSION,
            suggestion=phrase("Ask the people who run it for its key, and give it with --key."),
        )
    market = Market(name, url, pinned, added)
    with _new_folder(market) as made:
        _keep(made, data, index)
    return market


def remove_market(name: str) -> None:
    """Forget a market, its key and its cache. Plugins that came from it stay."""
    folder = market_folder() / name
    if not MARKET_NAME.fullmatch(name) or not folder.is_dir():
        find_market(name)
    gone = folder.with_name(f".{name}.{secrets.token_hex(6)}")  # in one step, then at leisure
    folder.rename(gone)
    shutil.rmtree(gone)


def refresh_market(market: Market) -> Refreshed:
    """Fetch the index of a market again. Unless it passes every check, the one from before stays."""
    data = fetch(market.url + signed_index.INDEX_FILE, signed_index.MOST_INDEX_BYTES)
    payload = signed_index.check(data, market.key, market.url)
    index = _accepted(payload, market.url)
    serial = index.metadata.serial
    with locked(market.folder):
        kept = kept_payload(market)
        if kept is not None:
            before = signed_index.parse_index(kept, market.name).metadata.serial
            if serial < before:
                raise MarketError(
                    phrase(
                        "{url} offers an older index than you have: serial {serial}, yours is {before}. Yours stays.",
                        url=market.url, serial=serial, before=before,
                    ),
                    kind=ErrorKind.PERMISSION,
                    suggestion=phrase(
                        "Someone may be hiding withdrawn plugins from you. Tell the people who run the market."
                    ),
                )  # fmt: skip
            if serial == before and payload != kept:
                raise MarketError(
                    phrase(
                        "{url} offers another index under the serial {serial} that you have. Yours stays.",
                        url=market.url, serial=serial,
                    ),
                    kind=ErrorKind.PERMISSION,
                    suggestion=phrase("The people who run the market must publish it again, with a new serial."),
                )  # fmt: skip
        _keep(market.folder, data, index)
    return Refreshed(market.name, serial, len(index.servers), payload != kept, index.metadata.expires_at)


def _market(folder: Path) -> Market:
    file = folder / _SOURCE
    try:
        found = json.loads(file.read_bytes())
        return Market(folder.name, found["url"], found["key"], found["added_at"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MarketError(
            phrase("{file} cannot be read: {why}.", file=file, why=error),
            suggestion=phrase("Remove the market and add it again: ferrule market remove {name}", name=folder.name),
        ) from None


def _accepted(payload: bytes, url: str) -> MarketIndex:
    """An index that was fetched just now: in shape, still valid, and with files that may be fetched."""
    index = signed_index.parse_index(payload, url)
    if index.metadata.expires_at <= now():
        raise MarketError(
            phrase(
                "The index of {source} expired on {when}.",
                source=url,
                when=signed_index.in_words(index.metadata.expires_at),
            ),
            kind=ErrorKind.PERMISSION,
            suggestion=phrase(
                "The people who run the market must publish it again. What was fetched before can still be used."
            ),
        )
    for entry in index.servers:
        for file in entry.plugin.files:
            checked_address(urljoin(url, file.url))
    return index


def _keep(folder: Path, data: bytes, index: MarketIndex) -> None:
    """Withdrawn versions first: a kill in between leaves more withdrawn, never less, and the next refresh does both."""
    write_withdrawn(folder, ((*one.key, one.plugin.withdrawn.reason) for one in index.servers if one.plugin.withdrawn))
    write_atomically(folder / signed_index.INDEX_FILE, data)


def kept_payload(market: Market) -> bytes | None:
    """The payload of the index that is kept; None where there is none, or the disk damaged it."""
    try:
        return signed_index.check((market.folder / signed_index.INDEX_FILE).read_bytes(), market.key, market.name)
    except (FileNotFoundError, MarketError):
        return None


def now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _new_folder(market: Market) -> Generator[Path]:
    """The folder of a new market, which is there with all that is in it, or not at all."""
    market.folder.parent.mkdir(parents=True, exist_ok=True)
    made = market.folder.with_name(f".{market.name}.{secrets.token_hex(6)}")
    made.mkdir(mode=0o700)
    try:
        write_json(made / _SOURCE, {"url": market.url, "key": market.key, "added_at": market.added_at})
        yield made
        made.rename(market.folder)
    except OSError:
        if market.folder.exists():
            raise MarketError(phrase("There is a market `{name}` already.", name=market.name)) from None
        raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


# Fetching, over HTTPS, or plain HTTP on this machine alone: the server may be hostile, so all of it has a bound


_REDIRECTS = 5
_SECONDS = 60.0
_MOST_PAGE_BYTES = 8_000_000
_SECONDS_OF_SILENCE = 15.0
_TRY_LATER = phrase("Check the address and your network. What was fetched before can still be used.")


def checked_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong_address(url, str(error)) from None
    if not url.isascii() or not url.isprintable() or " " in url:
        raise _wrong_address(url, phrase("it has a character that addresses do not have"))
    if not host:
        raise _wrong_address(url, phrase("it names no host"))
    if parts.username is not None or parts.password is not None:
        raise _wrong_address(url, phrase("it has a user name or password in it"))
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local(host)):
        raise _wrong_address(url, phrase("only https:// is fetched, and http:// from this machine itself"))
    return url


def _wrong_address(url: str, why: str) -> MarketError:
    return MarketError(phrase("{url} cannot be fetched: {why}.", url=url[:300], why=why), kind=ErrorKind.VALIDATION)


def fetch(url: str, most: int, seconds: float = _SECONDS) -> bytes:
    """The whole file, at most so many bytes of it and in that time. From an event loop, call it in a thread."""
    import asyncio

    try:
        import httpx2
    except ImportError:
        raise MissingExtraError(phrase("Using a market"), "plugins") from None
    try:
        found = asyncio.run(_fetched(url, most, seconds))
    except FetchError as error:
        raise MarketError(
            phrase("{url} has more than {most} bytes.", url=url, most=f"{most:,}")
            if error.why == "size"
            else phrase("{url}: more than {most} redirects.", url=url, most=_REDIRECTS)
            if error.why == "redirects"
            else phrase("{url} answered with compressed content that was not asked for.", url=url),
            suggestion=phrase("Tell the people who run the server."),
        ) from None
    except TimeoutError:
        raise MarketError(
            phrase("{url} took longer than {seconds} s.", url=url, seconds=f"{seconds:g}"),
            kind=ErrorKind.TIMEOUT,
            suggestion=_TRY_LATER,
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        why = str(error) or type(error).__name__
        raise MarketError(
            phrase("{url} could not be fetched: {why}.", url=url, why=why[:300].rstrip(".")), suggestion=_TRY_LATER
        ) from None
    if found.status != 200:
        raise MarketError(
            phrase("{url} answered with status {status}.", url=found.url, status=found.status),
            kind=ErrorKind.NOT_FOUND if found.status == 404 else ErrorKind.EXECUTION,
            suggestion=_TRY_LATER,
        )
    return found.body


async def _fetched(url: str, most: int, seconds: float) -> Fetched:
    import httpx2

    local, headers = is_local(urlsplit(checked_address(url)).hostname or ""), {"User-Agent": f"ferrule/{__version__}"}
    async with httpx2.AsyncClient(timeout=_SECONDS_OF_SILENCE, trust_env=not local) as client:
        return await bounded_fetch(
            client, "GET", url, most=most, seconds=seconds, status=200, redirects=_REDIRECTS, onward=_redirected,
            packed=(), headers=headers,
        )  # fmt: skip


def _redirected(url: str, target: str) -> str:
    if urlsplit(target).scheme != urlsplit(url).scheme:
        raise MarketError(
            phrase("{url} redirects to {target}, which is not {scheme}://.", url=url, target=target[:300],
                   scheme=urlsplit(url).scheme),
            kind=ErrorKind.PERMISSION,
            suggestion=phrase("Tell the people who run the server."),
        )  # fmt: skip
    return checked_address(target)


def registry_page(base: str, search: str = "", cursor: str = "", limit: int = 100) -> tuple[list[Any], str]:
    """Some of what an MCP registry answers, and the cursor of what follows; empty where that is all."""
    asked = {"search": search, "cursor": cursor, "limit": str(limit)}
    query = urlencode({name: value for name, value in asked.items() if value})
    data = fetch(f"{base}v0.1/servers?{query}", _MOST_PAGE_BYTES)
    try:
        answer = as_object(json.loads(data))
        listed, following = answer.get("servers"), as_object(answer.get("metadata")).get("nextCursor")
    except (ValueError, RecursionError):
        listed, following = None, None
    if not isinstance(listed, list):
        raise MarketError(
            phrase("{url} does not answer as an MCP registry does: there is no list `servers`.", url=base),
            suggestion=phrase("Check the address. A signed market is added without --registry."),
        )
    return cast("list[Any]", listed), following if isinstance(following, str) else ""
