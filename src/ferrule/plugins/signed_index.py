"""The index of a market: which plugins there are, in the shape of the MCP registry, signed with Ed25519.

Index and signature are one file, so that a reader never gets the one without the other:

    ferrule-market 1 ed25519:PUBLIC-KEY SIGNATURE
    {"servers": [{"server": {…}, "_meta": {"dev.ferrule/plugin": {…}}}], "metadata": {"serial": 7, …}}

The signature covers every byte after the first line. Change any byte of the file, and it is refused.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ferrule import ErrorKind, ToolError
from ferrule.extension import MissingExtraError, phrase, write_new
from ferrule.plugins.manifest import Needs, PluginName, PluginVersion, ShortText, ToolKind, first_problem

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

INDEX_FILE = "index.signed"
PLUGIN_META = "dev.ferrule/plugin"
MOST_INDEX_BYTES = 32_000_000
_HEAD = re.compile(rb"ferrule-market 1 (ed25519:[0-9a-f]{64}) ([0-9a-f]{128})\n")
_LONGEST_HEAD = 300
_CONTEXT = b"ferrule-market 1\n"
"""Signed before the index, so that the key's signature under something else is never one under an index."""
_KEY = re.compile(r"ed25519:[0-9a-f]{64}")


class MarketError(ToolError):
    """A market cannot be used, or what it offers cannot be trusted."""


class IndexFile(BaseModel):
    """A file of a plugin. Its address may be relative to that of the index."""

    model_config = ConfigDict(frozen=True)

    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class Withdrawal(BaseModel):
    """Why a version must not be used any more, and since when."""

    model_config = ConfigDict(frozen=True)

    reason: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    at: AwareDatetime | None = None


class PluginMeta(BaseModel):
    """What a market of ours says of a plugin, beyond its `server.json`."""

    files: tuple[IndexFile, ...] = ()
    kinds: dict[str, ToolKind] = {}
    needs: Needs = Needs()
    publisher: ShortText = ""
    ferrule: ShortText = ""
    published_at: AwareDatetime
    reviewed: AwareDatetime | None = None
    withdrawn: Withdrawal | None = None


class OfferedServer(BaseModel):
    """A `server.json`, of which only these are looked at here; the rest stays as it is."""

    model_config = ConfigDict(extra="allow")

    name: PluginName
    version: PluginVersion
    description: ShortText = ""


class _Metas(BaseModel):
    plugin: PluginMeta = Field(alias=PLUGIN_META)


class IndexEntry(BaseModel):
    """One version of one plugin."""

    server: OfferedServer
    metas: _Metas = Field(alias="_meta")

    @property
    def plugin(self) -> PluginMeta:
        return self.metas.plugin

    @property
    def key(self) -> tuple[str, str]:
        return self.server.name, self.server.version


class IndexMetadata(BaseModel):
    """The serial only grows; after `expires_at` a reader must not take the index for the newest one."""

    serial: Annotated[int, Field(ge=1)]
    count: int = 0
    generated_at: AwareDatetime
    expires_at: AwareDatetime


class MarketIndex(BaseModel):
    servers: Annotated[list[IndexEntry], Field(max_length=100_000)]
    metadata: IndexMetadata

    def to_json(self) -> bytes:
        text = self.model_dump_json(by_alias=True, exclude_none=True, indent=1)
        return f"{text}\n".encode()


def parse_index(payload: bytes, source: str) -> MarketIndex:
    """The index in its bytes; `source` names it where it is wrong."""
    try:
        index = MarketIndex.model_validate_json(payload)
    except ValidationError as error:
        why = first_problem(error)
        raise MarketError(
            phrase("The index of {source} is not JSON: {why}.", source=source, why=why)
            if error.errors()[0]["type"] == "json_invalid"
            else phrase("The index of {source} has a wrong shape at {where}.", source=source, where=why),
            suggestion=phrase("Ask the people who run the market to publish it again."),
        ) from None
    seen: set[tuple[str, str]] = set()
    for entry in index.servers:
        if entry.key in seen:
            name, version = entry.key
            raise MarketError(
                phrase("The index of {source} lists {name} {version} twice.", source=source, name=name, version=version)
            )
        seen.add(entry.key)
    return index


# Signing and checking


def sign(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """The file that readers fetch."""
    signature = key.sign(_CONTEXT + payload).hex()
    return f"ferrule-market 1 {public_key(key)} {signature}\n".encode() + payload


def signer_of(data: bytes, source: str) -> str:
    """The key that an index says it is signed with. `check` tells whether that is true."""
    return _head(data, source)[1].decode()


def check(data: bytes, key: str, source: str) -> bytes:
    """The payload, if exactly these bytes were signed with this key."""
    head = _head(data, source)
    if head[1].decode() != key:
        raise MarketError(
            phrase(
                "The index of {source} is signed with another key: {found} instead of {pinned}.",
                source=source,
                found=head[1].decode(),
                pinned=key,
            ),
            kind=ErrorKind.PERMISSION,
            suggestion=phrase(
                "Do not use it until the people who run the market confirm the new key. "
                "Then remove the market and add it again with --key."
            ),
        )
    exceptions, ed25519, _serialization = _cryptography()
    payload = data[head.end() :]
    try:
        verifier = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.removeprefix("ed25519:")))
        verifier.verify(bytes.fromhex(head[2].decode()), _CONTEXT + payload)
    except (exceptions.InvalidSignature, ValueError):
        raise MarketError(
            phrase("The signature of the index of {source} is wrong: the index was changed or damaged.", source=source),
            kind=ErrorKind.PERMISSION,
            suggestion=phrase("Try again later. If it stays, tell the people who run the market."),
        ) from None
    return payload


def _head(data: bytes, source: str) -> re.Match[bytes]:
    found = _HEAD.match(data[:_LONGEST_HEAD])
    if found is None:
        raise MarketError(
            phrase("{source} is not a signed index: its first line has no signature.", source=source),
            suggestion=phrase("Check the address. A registry without signatures is added with --registry."),
        )
    return found


def checked_key(text: str) -> str:
    """A public key as it was typed."""
    key = text.strip()
    if not _KEY.fullmatch(key):
        raise MarketError(
            phrase("`{key}` is not a public key: write `ed25519:` and 64 hexadecimal digits.", key=text[:100]),
            kind=ErrorKind.VALIDATION,
        )
    return key


# Keys


def public_key(key: Ed25519PrivateKey) -> str:
    """The line that readers pin."""
    return f"ed25519:{key.public_key().public_bytes_raw().hex()}"


def load_key(file: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file that only its owner can read."""
    _exceptions, ed25519, serialization = _cryptography()
    with file.open("rb") as opened:
        if os.name == "posix" and stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
            raise MarketError(
                phrase("Other users can read the private key {file}.", file=file),
                kind=ErrorKind.PERMISSION,
                suggestion=phrase("Keep it to yourself: chmod 600 {file}", file=file),
            )
        data = opened.read(100_000)
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise MarketError(phrase("{file} is not a private key in PEM form: {why}.", file=file, why=error)) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise MarketError(phrase("{file} is not an Ed25519 key.", file=file))
    return key


def make_key(file: Path) -> Ed25519PrivateKey:
    """A new private key in a new file that only its owner can read."""
    _exceptions, ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_new(file, data, 0o600)
    return key


def _cryptography() -> tuple[Any, Any, Any]:
    """Imported when an index is signed or checked, which no start of a program does."""
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtraError(phrase("Using a market"), "plugins") from None
    return exceptions, ed25519, serialization


def in_words(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
