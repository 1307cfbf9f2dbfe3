"""What the markets offer: found by words or by name, and the names that one could be mistaken for (R7).

Everything here blocks. From an event loop, call it in a thread.
"""

from __future__ import annotations

import json
import logging
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from pydantic import ValidationError

from ferrule import ErrorKind
from ferrule.extension import MissingExtraError, locked, nearest, phrase, write_json
from ferrule.extension.hosting import edits, without_twins
from ferrule.plugins.manifest import Needs, as_object
from ferrule.plugins.market import Market, find_market, kept_payload, markets, now, refresh_market, registry_page
from ferrule.plugins.plugin_files import write_withdrawn
from ferrule.plugins.signed_index import IndexEntry, MarketError, Withdrawal, in_words, parse_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


logger = logging.getLogger("ferrule.plugins")

_REGISTRY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9._-]+")
_OFFICIAL = "io.modelcontextprotocol.registry/official"
_REGISTRY = "registry.json"
_MOST_PAGES = 5
_MOST_KEPT = 5_000
"""Answers of a registry that are kept for when it cannot be reached."""


@dataclass(slots=True, frozen=True)
class OfferedFile:
    """A file to download. `sha256` is empty, and `size` 0, where the source does not say."""

    url: str
    sha256: str
    size: int


@dataclass(slots=True, frozen=True)
class PluginOffer:
    """One version of a plugin, as a market offers it."""

    name: str
    version: str
    market: str
    summary: str
    server: dict[str, Any]
    """Its `server.json`."""
    files: tuple[OfferedFile, ...]
    publisher: str
    proof: str
    published_at: datetime | None
    withdrawn: Withdrawal | None
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    """The kind of each tool; empty where the source does not say."""
    needs: Needs = field(default_factory=Needs)
    ferrule: str = ""
    """The versions of Ferrule that it works with, if it says."""
    reviewed: datetime | None = None
    from_registry: bool = False


# What is offered


def find_offers(words: str = "", *, note: Callable[[str], object] = logger.warning) -> list[PluginOffer]:
    """The newest version of every plugin that has all of the words in its name, its summary, its publisher or the names
    of its tools. `note` is told what the user should know of the sources: expired, or not reachable.
    """
    wanted = words.casefold().split()
    found: list[PluginOffer] = []
    for market in markets():
        by_name: dict[str, list[PluginOffer]] = {}
        for offer in _offers(market, max(wanted, key=len, default=""), note):
            by_name.setdefault(offer.name, []).append(offer)
        for one in map(_newest, by_name.values()):
            text = " ".join((one.name, one.summary, one.publisher, *one.kinds)).casefold()
            if one.withdrawn is None and all(word in text for word in wanted):
                found.append(one)
    return sorted(found, key=lambda one: (one.name, one.market))


def find_offer(
    name: str,
    version: str | None = None,
    market: str | None = None,
    *,
    note: Callable[[str], object] = logger.warning,
    fresh: bool = False,
) -> PluginOffer:
    """One plugin by its exact name: a version, or else the newest one that is not withdrawn; with `fresh` not from an
    index that has expired.

    A name that several markets offer is nobody's in particular: then the market must be named, so that no public
    source can slip something under a company's name.
    """
    asked = [find_market(market)] if market else markets()
    if not asked:
        raise MarketError(
            phrase("There are no markets to look in."),
            kind=ErrorKind.NOT_FOUND,
            suggestion=phrase("Add one: ferrule market add NAME URL"),
        )
    found = [offer for one in asked for offer in _offers(one, name, note, exactly=name, fresh=fresh)]
    if not found:
        close = near_names(name) or nearest(name, _known_names())
        listed = ", ".join(f"`{one}`" for one in close[:3])
        hint = phrase("Did you mean {names}?", names=listed) if close else phrase("Look for it: ferrule market search")
        raise MarketError(phrase("No market offers `{name}`.", name=name), kind=ErrorKind.NOT_FOUND, suggestion=hint)
    sources = sorted({offer.market for offer in found})
    if len(sources) > 1:
        raise MarketError(
            phrase("Several markets offer `{name}`: {markets}.", name=name, markets=", ".join(sources)),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Name the one that you mean with --market."),
        )
    if version is None:
        return _newest(found)
    for offer in found:
        if offer.version == version:
            return offer
    versions = ", ".join(one.version for one in sorted(found, key=_age)[-10:])
    raise MarketError(
        phrase("`{name}` has no version {version} in {market}.", name=name, version=version, market=sources[0]),
        kind=ErrorKind.NOT_FOUND,
        suggestion=phrase("It has {versions}.", versions=versions),
    )


def refresh_for_install(market: str | None, note: Callable[[str], object]) -> None:
    """Look whether something was withdrawn since. What cannot be reached is noted; what cannot be trusted is raised."""
    for one in [find_market(market)] if market else markets():
        if one.is_registry:
            continue
        try:
            refresh_market(one)
        except MarketError as error:
            if error.kind is ErrorKind.PERMISSION:
                raise
            note(phrase("{market}: {why}", market=one.name, why=error))


def _offers(
    market: Market, search: str, note: Callable[[str], object], exactly: str | None = None, *, fresh: bool = False
) -> list[PluginOffer]:
    """What a market offers: of a registry what it finds with `search`; and only this name, where one is given."""
    if market.is_registry:
        return [one for one in _from_registry(market, search, note) if exactly in (None, one.name)]
    payload = kept_payload(market)
    if payload is None:
        raise MarketError(
            phrase("The kept index of the market {name} is missing or damaged.", name=market.name),
            suggestion=phrase("Fetch it again: ferrule market refresh {name}", name=market.name),
        )
    index = parse_index(payload, market.name)
    if index.metadata.expires_at <= now():
        words = phrase(
            "The index of the market {name} expired on {when}, so it may lack withdrawn plugins. "
            "Fetch it again: ferrule market refresh {name}",
            name=market.name,
            when=in_words(index.metadata.expires_at),
        )
        if fresh:
            raise MarketError(words, kind=ErrorKind.PERMISSION)
        note(words)
    return [_offer(market, entry) for entry in index.servers if exactly in (None, entry.server.name)]


def _offer(market: Market, entry: IndexEntry) -> PluginOffer:
    plugin = entry.plugin
    files = (OfferedFile(urljoin(market.url, one.url), one.sha256, one.size) for one in plugin.files)
    return PluginOffer(
        name=entry.server.name,
        version=entry.server.version,
        market=market.name,
        summary=entry.server.description,
        server=entry.server.model_dump(),
        files=tuple(files),
        kinds=dict(plugin.kinds),
        needs=plugin.needs,
        publisher=plugin.publisher,
        ferrule=plugin.ferrule,
        proof=market.proof,
        published_at=plugin.published_at,
        reviewed=plugin.reviewed,
        withdrawn=plugin.withdrawn,
    )


def _newest(offers: list[PluginOffer]) -> PluginOffer:
    """The highest version that may be used; where all are withdrawn, the highest of those."""
    return max(offers, key=lambda one: (one.withdrawn is None, *_age(one)))


def _age(offer: PluginOffer) -> tuple[Any, ...]:
    try:
        from packaging.version import InvalidVersion, Version
    except ImportError:
        raise MissingExtraError(phrase("Using a market"), "plugins") from None
    published = offer.published_at.timestamp() if offer.published_at else 0.0
    try:
        version = Version(offer.version)
    except InvalidVersion:  # an MCP server may count in its own way
        return False, Version("0"), published
    return not version.is_prerelease, version, published


# Registries: the API of the MCP registry, which is asked live


def _from_registry(market: Market, search: str, note: Callable[[str], object]) -> Iterator[PluginOffer]:
    """What a registry answers, or answered before when it cannot be reached. It looks for one word, in names alone."""
    entries: list[Any] = []
    try:
        cursor = ""
        for _number in range(_MOST_PAGES):
            listed, cursor = registry_page(market.url, search, cursor)
            entries += listed
            if not cursor:
                break
        else:
            note(
                phrase(
                    "{market} has more than {count} answers, and the first are shown. Search for more of the name.",
                    market=market.name, count=len(entries),
                )
            )  # fmt: skip
        _remember(market, entries)
    except MarketError as error:
        note(phrase("{market}: {why} Answers from before are shown.", market=market.name, why=error))
        entries = list(_remembered(market).values())
    yield from filter(None, (_registry_offer(market, entry) for entry in entries))


def _registry_offer(market: Market, entry: Any) -> PluginOffer | None:
    """An answer as an offer; None for one whose shape or name is wrong, which must not hide the others."""
    try:
        server = as_object(entry["server"])
        name, version = server["name"], server["version"]
        status = as_object(as_object(entry.get("_meta")).get(_OFFICIAL))
        if not _REGISTRY_NAME.fullmatch(name) or not isinstance(version, str):
            return None
        withdrawn = (
            Withdrawal(reason="The registry lists it as deleted.") if status.get("status") == "deleted" else None
        )
        moment = datetime.fromisoformat(status["publishedAt"]) if status.get("publishedAt") else None
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return PluginOffer(
            name=name,
            version=version,
            market=market.name,
            summary=str(server.get("description", ""))[:2_000],
            server=server,
            files=tuple(
                OfferedFile(str(one["identifier"]), str(one.get("fileSha256", "")), 0)
                for one in server.get("packages") or ()
                if one.get("registryType") == "mcpb"
            ),
            publisher=name.partition("/")[0],
            proof=market.proof,
            published_at=moment,
            withdrawn=withdrawn,
            from_registry=True,
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError):
        return None


def _remember(market: Market, entries: list[Any]) -> None:
    with suppress(OSError), locked(market.folder):  # the answer counts, also where the disk is full
        known = _remembered(market)
        for entry in entries:
            if offer := _registry_offer(market, entry):
                known.pop(f"{offer.name} {offer.version}", None)
                known[f"{offer.name} {offer.version}"] = entry
        kept = dict(list(known.items())[-_MOST_KEPT:])
        offers = filter(None, (_registry_offer(market, entry) for entry in kept.values()))
        write_withdrawn(
            market.folder, ((one.name, one.version, one.withdrawn.reason) for one in offers if one.withdrawn)
        )
        write_json(market.folder / _REGISTRY, kept)


def _remembered(market: Market) -> dict[str, Any]:
    try:
        found: Any = json.loads((market.folder / _REGISTRY).read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# Names


def near_names(name: str, also: Iterable[str] = ()) -> list[str]:
    """Other names that this one could be mistaken for, among what the markets offer and `also`: a letter more, less,
    other or swapped, other hyphens, or letters that look alike.
    """
    wanted = _look(name)
    known = {one for one in (*_known_names(), *also) if one != name}
    return sorted(one for one in known if _is_near(wanted, _look(one)))


def _is_near(one: str, other: str) -> bool:
    (space, _, name), (other_space, _, other_name) = one.rpartition("/"), other.rpartition("/")
    if not space or not other_space:  # a bare name passes for any publisher's
        return one == other or _is_close(name, other_name)
    # Similar names of one publisher are no disguise.
    return one == other or (space != other_space and _is_close(space, other_space) and _is_close(name, other_name))


def _is_close(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    bound = 0 if shorter < 4 else 1 if shorter < 12 else 2
    return edits(one, other, bound) <= bound


_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s", "-": "", "_": "", ".": ""})


def _look(name: str) -> str:
    """A name by how it looks: two with the same look are easily taken for each other."""
    plain = without_twins(name).lower().translate(_ALIKE)
    return plain.replace("rn", "m").replace("vv", "w")


def _known_names() -> set[str]:
    names: set[str] = set()
    for market in markets():
        if market.is_registry:
            names.update(key.partition(" ")[0] for key in _remembered(market))
        elif (payload := kept_payload(market)) is not None:
            names.update(entry.server.name for entry in parse_index(payload, market.name).servers)
    return names
