"""Makes a market from a folder of plugins: copies the wheels and `.mcpb` files, and writes the signed index.

The folder is what the market offers. Of the index that was there before stay the serial, which grows, the day when each
version was published, reviews, and everything that was ever withdrawn. Nothing is published unless all of it is right.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pydantic import ValidationError

from ferrule import ErrorKind
from ferrule.extension import joined, locked, phrase, write_atomically
from ferrule.plugins import signed_index
from ferrule.plugins.manifest import Manifest, PluginError, first_problem, read_manifest
from ferrule.plugins.market import checked_address
from ferrule.plugins.signed_index import MarketError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


FILES = "files"
_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_MOST_BYTES = 300_000_000

_NameAndVersion = tuple[str, str]


@dataclass(slots=True, frozen=True)
class Published:
    """What was published, and how it differs from before."""

    serial: int
    key: str
    key_is_new: bool
    expires_at: datetime
    plugins: list[_NameAndVersion]
    added: list[_NameAndVersion]
    dropped: list[_NameAndVersion]
    withdrawn: list[_NameAndVersion]


@dataclass(slots=True, frozen=True)
class _Plugin:
    """A version, and its files: one for all machines, or one for each kind of machine."""

    manifest: Manifest
    files: dict[str, bytes]


def publish(
    folder: Path,
    key_file: Path,
    out: Path,
    *,
    base_url: str = "",
    withdraw: Mapping[_NameAndVersion, str] | None = None,
    reviewed: Collection[_NameAndVersion] = (),
    days: int = 90,
) -> Published:
    """Publish what is in `folder` as the market in `out`, which any web server can serve."""
    base = checked_address(base_url.rstrip("/") + "/") if base_url else f"{FILES}/"
    if key_file.resolve().is_relative_to(out.resolve()):
        raise MarketError(
            phrase("The private key {file} would be published with the market.", file=key_file),
            suggestion=phrase("Keep it outside of {out}.", out=out),
        )
    plugins = _plugins(folder)
    key_is_new = not key_file.exists()
    (out / FILES).mkdir(parents=True, exist_ok=True)
    with locked(out):
        before = _before(out, key_file)
        try:
            entries = _entries(plugins, base, before, datetime.now(UTC).replace(microsecond=0))
            _mark(entries, withdraw or {}, reviewed)
        except ValidationError as error:
            raise MarketError(
                phrase("Nothing was published, because readers would refuse {where}", where=first_problem(error)),
                kind=ErrorKind.VALIDATION,
            ) from None
        key = signed_index.make_key(key_file) if key_is_new else signed_index.load_key(key_file)
        now = datetime.now(UTC).replace(microsecond=0)
        metadata = signed_index.IndexMetadata(
            serial=before.metadata.serial + 1 if before else 1,
            count=len(entries),
            generated_at=now,
            expires_at=now + timedelta(days=days),
        )
        index = signed_index.MarketIndex(servers=[entries[key] for key in sorted(entries)], metadata=metadata)
        for plugin in plugins.values():
            for name, data in plugin.files.items():
                write_atomically(out / FILES / name, data)
        write_atomically(
            out / signed_index.INDEX_FILE, signed_index.sign(index.to_json(), key)
        )  # last: it names files that are there
    known = {one.key for one in before.servers} if before else set[_NameAndVersion]()
    added, dropped = sorted(plugins.keys() - known), sorted(known - entries.keys())
    withdrawn = sorted(one for one, entry in entries.items() if entry.plugin.withdrawn)
    public = signed_index.public_key(key)
    return Published(
        metadata.serial, public, key_is_new, metadata.expires_at, sorted(plugins), added, dropped, withdrawn
    )


def _plugins(folder: Path) -> dict[_NameAndVersion, _Plugin]:
    """Every plugin in a folder, hidden files aside. All that is wrong with it is said at once."""
    findings: list[str] = []
    found: dict[_NameAndVersion, _Plugin] = {}
    for file in sorted(one for one in folder.iterdir() if not one.name.startswith(".")):
        try:
            if not file.is_file():
                raise PluginError(phrase("it is not a file"))
            if file.stat().st_size > _MOST_BYTES:
                raise PluginError(phrase("it has more than {most} bytes", most=f"{_MOST_BYTES:,}"))
            data = file.read_bytes()  # once: what is read, hashed and copied are the same bytes
            manifest = read_manifest(file.name, io.BytesIO(data))
            plugin = found.setdefault((manifest.name, manifest.version), _Plugin(manifest, {}))
            if plugin.manifest != manifest:
                raise PluginError(
                    phrase("it declares {name} {version} in another way than {other}", name=manifest.name,
                           version=manifest.version, other=next(iter(plugin.files)))
                )  # fmt: skip
            plugin.files[file.name] = data
        except PluginError as error:
            findings.append(phrase("{file}: {why}", file=file, why=error))
    if findings:
        raise MarketError(
            joined("\n", [phrase("Nothing was published, because of what is not a plugin:"), *findings]),
            kind=ErrorKind.VALIDATION,
        )
    if not found:
        raise MarketError(phrase("{folder} has no plugins in it.", folder=folder), kind=ErrorKind.VALIDATION)
    return found


def _before(out: Path, key_file: Path) -> signed_index.MarketIndex | None:
    """The index that is there, which must be ours: its serial and its withdrawals are carried on."""
    file = out / signed_index.INDEX_FILE
    if not file.exists():
        return None
    if not key_file.exists():
        raise MarketError(
            phrase("There is no key {file}, and {index} is signed already.", file=key_file, index=file),
            suggestion=phrase("Publish with the key of that market: its readers have pinned it."),
        )
    return signed_index.parse_index(
        signed_index.check(file.read_bytes(), signed_index.public_key(signed_index.load_key(key_file)), str(file)),
        str(file),
    )


def _entries(
    plugins: Mapping[_NameAndVersion, _Plugin], base: str, before: signed_index.MarketIndex | None, now: datetime
) -> dict[_NameAndVersion, signed_index.IndexEntry]:
    known = {one.key: one for one in before.servers} if before else {}
    entries = {key: one for key, one in known.items() if one.plugin.withdrawn}
    for key, plugin in plugins.items():
        entry = _entry(plugin, base, now)
        if earlier := known.get(key):
            published = {unquote(file.url.rpartition("/")[2]): file.sha256 for file in earlier.plugin.files}
            changed = [
                name for name, data in plugin.files.items()
                if published.get(name, sha256(data).hexdigest()) != sha256(data).hexdigest()
            ]  # fmt: skip
            if changed:
                raise MarketError(
                    phrase("{file} was published before with other content.", file=changed[0]),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Give the plugin a new version: its users have the hash of the old file."),
                )
            meta = entry.plugin
            meta.published_at = earlier.plugin.published_at
            meta.reviewed = earlier.plugin.reviewed
            meta.withdrawn = earlier.plugin.withdrawn
        entries[key] = entry
    return entries


def _entry(plugin: _Plugin, base: str, now: datetime) -> signed_index.IndexEntry:
    manifest = plugin.manifest
    files = [
        signed_index.IndexFile(url=base + quote(name), sha256=sha256(data).hexdigest(), size=len(data))
        for name, data in sorted(plugin.files.items())
    ]
    meta = signed_index.PluginMeta(
        files=tuple(files),
        kinds={tool.name: tool.kind for tool in manifest.tools},
        needs=manifest.needs,
        publisher=manifest.publisher,
        ferrule=manifest.ferrule,
        published_at=now,
    )
    package: dict[str, Any] = (
        {"registryType": "pypi", "identifier": manifest.package, "version": manifest.version}
        if manifest.package
        else {"registryType": "mcpb", "identifier": files[0].url, "fileSha256": files[0].sha256}
    )
    server: dict[str, Any] = {
        "$schema": _SCHEMA,
        "name": manifest.name,
        "description": manifest.summary,
        "version": manifest.version,
        "packages": [{**package, "transport": {"type": "stdio"}}],
    }
    return signed_index.IndexEntry.model_validate({"server": server, "_meta": {signed_index.PLUGIN_META: meta}})


def _mark(
    entries: Mapping[_NameAndVersion, signed_index.IndexEntry],
    withdraw: Mapping[_NameAndVersion, str],
    reviewed: Collection[_NameAndVersion],
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    for name, version in (*withdraw, *reviewed):
        if (name, version) not in entries:
            listed = ", ".join(f"{one}=={which}" for one, which in sorted(entries)[:20])
            raise MarketError(
                phrase("There is no {name}=={version} to publish.", name=name, version=version),
                kind=ErrorKind.NOT_FOUND,
                suggestion=phrase("There are: {names}.", names=listed),
            )
    for key, reason in withdraw.items():
        entries[key].plugin.withdrawn = signed_index.Withdrawal(reason=reason, at=now)
    for key in reviewed:
        entries[key].plugin.reviewed = now
