"""What a workspace's servers were when the user trusted them, so that they can see what has changed since.

A record gives no leave: that is the hash in the user's settings, which tells that something changed, and not what.
Values of variables and headers are kept as digests alone, and secrets that can be recognised in a command or an address
are left out of it.
"""

from __future__ import annotations

import logging
import secrets
import shlex
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter, ValidationError

from ferrule.core.phrases import advice, phrase
from ferrule.core.shown_text import cut, shown_argument
from ferrule.mcp_client.remote_tool import RemoteTool
from ferrule.mcp_client.server_config import ServerConfig, without_secrets
from ferrule.process.references import places_in
from ferrule.workspace.data_folder import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferrule.core.tool import Tool


# The guard against tools that change once they are allowed.


logger = logging.getLogger("ferrule.mcp")


class Approvals:
    """Digests of tools as they were when they were allowed, by server and name."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, dict[str, str]] | None = None
        self._unwritten: dict[str, dict[str, str]] = {}

    def about(self, tool: Tool[Any]) -> str:
        """Why leave that was given earlier does not count for this tool; empty where it does."""
        if not isinstance(tool, RemoteTool) or self._fits(tool):
            return ""
        self._known = None  # somebody may have looked at it elsewhere meanwhile
        if self._fits(tool):
            return ""
        return phrase(
            "`{name}` is not the tool that was allowed: its server changed its description or its schema",
            name=tool.name,
        )

    def way_out(self, tool: Tool[Any]) -> str:
        """What the user can do about it where they cannot be asked."""
        if not isinstance(tool, RemoteTool):
            return ""
        typed = shown_argument(tool.server_name)
        return advice(
            "The user can look at it and accept it as it is now: `ferrule mcp trust {server}`.",
            "Look at it and accept it as it is now: `ferrule mcp trust {server}`.",
            server=typed,
        )

    def dispel(self, tool: Tool[Any]) -> None:
        """The user has allowed the tool as it is now."""
        if isinstance(tool, RemoteTool):
            self._remember(tool)

    def first_use(self, tool: RemoteTool) -> None:
        """Remember a tool that runs for the first time; what is remembered already stays."""
        if tool.definition.name not in self._of(tool):
            self._remember(tool)

    def forget(self, identity: str) -> None:
        """Of a server that was removed, or whose tools the user accepts as they will be."""
        known = self._read()
        if known.pop(identity, None) is not None:
            self._write(known)

    def _fits(self, tool: RemoteTool) -> bool:
        return self._of(tool).get(tool.definition.name, tool.definition.digest) == tool.definition.digest

    def _remember(self, tool: RemoteTool) -> None:
        known = self._read()
        known.setdefault(tool.identity, {})[tool.definition.name] = tool.definition.digest
        self._write(known)

    def _of(self, tool: RemoteTool) -> dict[str, str]:
        if self._known is None:
            self._known = self._read()
        return self._known.get(tool.identity, {})

    def _read(self) -> dict[str, dict[str, str]]:
        found = {**read_json(self._file), **self._unwritten}
        return {server: cast("dict[str, str]", tools) for server, tools in found.items() if isinstance(tools, dict)}

    def _write(self, known: dict[str, dict[str, str]]) -> None:
        self._known = known
        try:
            write_json(self._file, cast("dict[str, Any]", known))
        except OSError as error:
            logger.warning("What tools are like could not be remembered: %s", error)
            self._unwritten = known  # it holds for this process, then


COMMAND, ADDRESS, FOLDER = "command", "address", "folder"
VARIABLE, HEADER, SIGN_IN, OF_YOURS = "variable", "header", "sign-in", "of yours"
_SINGLE = (COMMAND, ADDRESS, FOLDER)
_KINDS = (*_SINGLE, VARIABLE, HEADER, SIGN_IN, OF_YOURS)
"""In the order of what matters most."""
_MOST_EARLIER = 100
_LONGEST = 2_000


@dataclass(slots=True, frozen=True)
class ServerPart:
    """One thing that decides what a server is: a word that can be shown, and a digest of all of it."""

    kind: str
    shown: str
    digest: str


@dataclass(slots=True, frozen=True)
class TrustChange:
    """A part as it was and as it is; None where it was not there, or is not any more."""

    kind: str
    before: str | None
    after: str | None

    @property
    def hidden(self) -> bool:
        """Whether what changed is a part that is not shown."""
        return self.before == self.after


@dataclass(slots=True, frozen=True)
class TrustRecord:
    """A server as it was trusted."""

    fingerprint: str
    day: str
    salt: str
    parts: tuple[ServerPart, ...]
    earlier: tuple[str, ...] = ()
    """Fingerprints of what it was when it was trusted before, which the user has not taken back."""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of all that it was when it was trusted, the newest first."""
        return (self.fingerprint, *self.earlier)

    def changes_to(self, config: ServerConfig) -> list[TrustChange]:
        """What is another now, in the order of what matters most."""
        before = {_key(part): part for part in self.parts}
        after = {_key(part): part for part in _parts(config, self.salt)}
        keys = sorted({*before, *after}, key=lambda key: (_KINDS.index(key[0]), key[1]))
        return [
            TrustChange(key[0], was.shown if was else None, now.shown if now else None)
            for key in keys
            if ((was := before.get(key)) and was.digest) != ((now := after.get(key)) and now.digest)
        ]


class TrustRecords:
    """A file with a record for each server of each workspace; the newest counts."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def of(self, config: ServerConfig) -> TrustRecord | None:
        """None where nothing is known: it was never trusted, or before there were records."""
        return _read(read_json(self._file).get(config.identity))

    def fingerprints(self) -> set[str]:
        """Of all that is recorded."""
        found = (_read(one) for one in read_json(self._file).values())
        return {one for record in found if record is not None for one in record.fingerprints}

    def remember(self, config: ServerConfig) -> None:
        """What the user has just agreed to; one that is recorded as it is keeps its day."""
        known = self.of(config)
        if known is not None and known.fingerprint == config.fingerprint:
            return
        salt = secrets.token_hex(16)
        before = () if known is None else known.fingerprints
        record = TrustRecord(
            config.fingerprint,
            datetime.now(UTC).astimezone().date().isoformat(),
            salt,
            tuple(_parts(config, salt)),
            tuple(one for one in before if one != config.fingerprint)[:_MOST_EARLIER],
        )
        try:
            write_json(self._file, {**read_json(self._file), config.identity: asdict(record)})
        except OSError as error:
            logger.warning("What %s was when it was trusted could not be remembered: %s", config.name, error)

    def given(self, identity: str) -> set[str]:
        """Fingerprints of all that a server was when the user trusted it."""
        record = _read(read_json(self._file).get(identity))
        return set() if record is None else {*record.fingerprints}

    def forget(self, identity: str) -> None:
        """The user has taken their word back."""
        kept = read_json(self._file)
        if kept.pop(identity, None) is not None:
            write_json(self._file, kept)


def _parts(config: ServerConfig, salt: str) -> Iterator[ServerPart]:
    def part(kind: str, shown: str, value: str) -> ServerPart:
        digest = sha256("\0".join((salt, kind, shown if kind not in _SINGLE else "", value)).encode("utf-8", "replace"))
        return ServerPart(kind, cut(shown, _LONGEST), digest.hexdigest()[:32])

    command = shlex.join(map(str, config.command))
    for kind, words in ((COMMAND, command), (ADDRESS, config.url), (FOLDER, str(config.folder))):
        if words:
            yield part(kind, without_secrets(words), words)
    for kind, table in ((VARIABLE, config.env), (HEADER, config.headers)):
        for name, value in table.items():
            yield part(kind, name, str(value))
    for name, value in (("client_id", config.client_id), ("client_secret", config.client_secret)):
        if value:
            yield part(SIGN_IN, name, value)
    for place in dict.fromkeys(f"{one[:-1].partition(':-')[0]}}}" for one in places_in(config.written)):
        yield part(OF_YOURS, place, place)


def _key(part: ServerPart) -> tuple[str, str]:
    """Which part is which: of some there is one, the others have names."""
    return part.kind, "" if part.kind in _SINGLE else part.shown


def _read(given: Any) -> TrustRecord | None:
    """A record as it was written; none where somebody wrote something else."""
    try:
        found = TypeAdapter(TrustRecord).validate_python(given)
    except ValidationError:
        return None
    return found if all(part.kind in _KINDS for part in found.parts) else None
