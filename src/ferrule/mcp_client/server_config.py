"""What is known of a server before it is started: the program or the address, and what it is given.

Values stay as they were written, with `${NAME}` where a variable or a secret belongs: this is what is shown, compared
and remembered. `Variables` fills them in when the server is started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from ferrule.mcp_client.bounds import START_SECONDS
from ferrule.workspace.confined import read_given

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.elicitation import Elicitor
    from ferrule.process.references import Template


HANDSHAKE = "2025-11-25"
"""The last revision with a handshake; a server of it can ask by itself while a call runs."""


class ConfigProblem(ValueError):  # noqa: N818 - reads as what it says
    """A server is described in a way that cannot work."""


@dataclass(slots=True, frozen=True)
class ServerBox:
    """What a program sees and reaches besides the system's own programs; the kernel holds it to that.

    Its folder is `folder` of its config, which it may write.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    """Folders of which it sees no more than that, wherever they lie."""


@dataclass(slots=True, frozen=True)
class ServerConfig:
    """One server: `command` for a program on this machine, or `url` for streamable HTTP."""

    name: str
    command: tuple[str | Template, ...] = ()
    env: Mapping[str, str | Template] = field(default_factory=dict[str, "str | Template"])
    folder: str | Template = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    client_id: str = ""
    client_secret: str = ""
    """The client that signs in, where the server takes none that registers itself."""
    timeout: float | None = None
    """Seconds that one call may take; None leaves it to the runtime."""
    start_timeout: float = START_SECONDS
    protocol: str = ""
    """`2025-11-25` for a server that asks in the way of the older revisions; empty for the newest that both know."""
    roots: bool = True
    """Whether it is told which folders are the workspace. Some servers take those instead of what they were given."""
    enabled: bool = True
    scope: str = ""
    """The workspace that brought it; empty for the user's own."""
    confinement: ServerBox | None = None
    """For a program that is not trusted with all that the user can reach, as a plugin."""

    def __post_init__(self) -> None:
        from ferrule.process.arguments import wrong_text, wrong_variable

        if not self.name.strip():
            raise ConfigProblem("a server needs a name")
        if bool(self.command) == bool(self.url):
            both = "both `command` and `url`" if self.url else "neither `command` nor `url`"
            raise ConfigProblem(f"`{self.name}` has {both}; a server is a program or an address")
        if self.command and not str(self.command[0]).strip():
            raise ConfigProblem(f"`{self.name}`: `command` names no program")
        words = [(f"word {at} of `command`", word) for at, word in enumerate(self.command, 1)]
        for what, text in (*words, ("`cwd`", self.folder), ("`url`", self.url)):
            if (wrong := wrong_text(str(text))) is not None:
                raise ConfigProblem(f"`{self.name}`: {what} {wrong}")
        for variable, value in self.env.items():
            if (wrong := wrong_variable(variable, str(value))) is not None:
                named = variable.replace("\0", "\\0")
                raise ConfigProblem(f"`{self.name}`: `{named}` of `env` {wrong}")
        if self.url and not self.url.lower().startswith(("http://", "https://", "${")):
            raise ConfigProblem(f"`{self.name}`: `url` must start with http:// or https://")
        if self.url and "${" not in self.url and (wrong := _wrong_address(self.url)):
            raise ConfigProblem(f"`{self.name}`: `url` is not an address: {wrong}")
        if self.protocol not in ("", HANDSHAKE):
            raise ConfigProblem(f"`{self.name}`: `protocol` is `{HANDSHAKE}`, or left out")
        for what, value in (("timeout", self.timeout), ("start_timeout", self.start_timeout)):
            if value is not None and not 0 < value < float("inf"):
                raise ConfigProblem(f"`{self.name}`: `{what}` is a number of seconds above 0")

    @property
    def fingerprint(self) -> str:
        """Changes with whatever decides which program runs, or who is spoken to."""
        told: list[Any] = [
            self.scope, self.name, list(self.command), dict(self.env), self.folder, self.url, dict(self.headers),
            self.client_id, self.client_secret,
        ]  # fmt: skip
        if (box := self.confinement) is not None:
            told.append([*box.readable, "", *box.writable, "", *box.hosts])
        return sha256(json.dumps(told, sort_keys=True, default=astuple).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """Which server this is, however its command changes."""
        return identity_of(self.name, self.scope)

    @property
    def written(self) -> tuple[str | Template, ...]:
        """Every text in which a variable or a secret of the user's may be named."""
        return (*self.command, self.url, *self.env.values(), *self.headers.values(), self.client_id,
                self.client_secret, self.folder)  # fmt: skip

    @property
    def shown(self) -> str:
        """The command or the address as it was written: no variable is filled in.

        Secrets that stand in it are taken out of the user's own. What a workspace brings is shown exactly: they are
        asked to judge it.
        """
        import shlex

        words = self.url or shlex.join(map(str, self.command))
        return words if self.scope else without_secrets(words)


def identity_of(name: str, scope: str) -> str:
    """Which server has this name, the user's own or that of a workspace."""
    return f"{scope}#{name}" if scope else name


def _wrong_address(url: str) -> str:
    """What is wrong with an address; never the address itself, which may hold a secret."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its host or its port cannot be read"
    return "" if parts.hostname and port != 0 else "it names no host"


def without_secrets(words: str) -> str:
    """A command or an address without the secrets that can be recognised in it."""
    from ferrule.core.secrets import redact_text

    parts = re.split(r"(\$\{[^{}]*\})", words)  # a place is no secret, and says where one comes from
    return "".join(part if at % 2 else redact_text(part) for at, part in enumerate(parts))


@dataclass(slots=True)
class FoundServers:
    """The servers of a file, and what could not be understood."""

    servers: list[ServerConfig] = field(default_factory=list[ServerConfig])
    problems: list[str] = field(default_factory=list[str])


def read_mcp_json(file: Path, *, scope: str = "") -> FoundServers:
    """The `mcpServers` form that other agents use; a file that is not there holds nothing."""
    found = FoundServers()
    try:
        document: Any = json.loads(read_given(file))
    except (FileNotFoundError, NotADirectoryError):
        return found
    except OSError as error:
        found.problems.append(f"{file} could not be read: {error.strerror}.")
        return found
    except (ValueError, RecursionError) as error:
        found.problems.append(f"{file} is not valid JSON: {error}.")
        return found
    servers: Any = cast("dict[str, Any]", document).get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        found.problems.append(f'{file} has no "mcpServers" object.')
        return found
    for name, table in cast("dict[str, Any]", servers).items():
        try:
            found.servers.append(replace(from_json(name, table), scope=scope))
        except ConfigProblem as problem:
            found.problems.append(f"{file}: {problem}.")
    return found


def from_json(name: str, table: Any) -> ServerConfig:
    """One entry of `mcpServers`; keys that only other programs know are passed over."""
    if not isinstance(table, dict):
        raise ConfigProblem(f"`{name}` is not an object")
    entry = cast("dict[str, Any]", table)
    if entry.get("type") == "sse":
        raise ConfigProblem(f"`{name}` uses the old SSE transport; give its streamable HTTP address, type http")
    command = _text(name, entry, "command")
    given: Any = entry.get("args", ())
    if isinstance(given, (list, tuple)) and all(isinstance(one, str) for one in cast("Sequence[Any]", given)):
        arguments = tuple(cast("Sequence[str]", given))
    else:
        raise ConfigProblem(f"`{name}`: `args` must be a list of text")
    return ServerConfig(
        name=name,
        command=(command, *arguments) if command else (),
        env=_table(name, entry, "env"),
        folder=_text(name, entry, "cwd"),
        url=_text(name, entry, "url") or _text(name, entry, "httpUrl"),
        headers=_table(name, entry, "headers"),
        enabled=entry.get("disabled") is not True,
    )


def _text(name: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise ConfigProblem(f"`{name}`: `{key}` must be text")


def _table(name: str, entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value: Any = entry.get(key) or {}
    if not isinstance(value, dict):
        raise ConfigProblem(f"`{name}`: `{key}` must be an object of text")
    table = cast("dict[str, Any]", value)
    if not all(isinstance(one, str) for one in table.values()):
        raise ConfigProblem(f"`{name}`: every value of `{key}` must be text")
    return table


# The ports through which a server reaches the user and the model; where nobody stands behind one, it is declined.


Sampler = Callable[[str, Any], Awaitable[Any]]
"""Lets a server ask the model: its name and the SDK's parameters in, the SDK's result out."""
ShowUrl = Callable[[str, str], Awaitable[None]]
"""Shows the user the address at which to sign in to a server: its name, and the address. Raises `NotSigningIn`."""


class NotSigningIn(Exception):  # noqa: N818 - reads as what it says
    """Nobody signs in now; the words say why, and complete "the server cannot be used: …"."""


@dataclass(slots=True)
class Ports:
    """Everything that servers may ask of us, besides what the call that is running brings along."""

    elicitor: Elicitor | None = None
    sample: Sampler | None = None
    show_url: ShowUrl | None = None
