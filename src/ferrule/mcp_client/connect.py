"""Makes a connection from what is known of a server: the values filled in, the transport chosen, the doors closed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import MissingExtra
from ferrule.core.phrases import phrase
from ferrule.mcp_client.failures import Failed
from ferrule.process.profile import clean_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ferrule.mcp_client.connection import Connection
    from ferrule.mcp_client.ports import Ports
    from ferrule.mcp_client.remote_server import ServerLog
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.variables import Variables


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")


def connect(
    config: ServerConfig,
    variables: Variables,
    *,
    folders: Sequence[Path],
    tokens: Path,
    ports: Ports,
    log: ServerLog,
    on_change: Callable[[], None],
) -> Connection:
    """A connection that is not open yet; raises `MissingValue` where a variable is not set."""
    try:
        from ferrule.mcp_client.answering import Answering
        from ferrule.mcp_client.connection import Connection
    except ModuleNotFoundError as error:
        raise MissingExtra(phrase("An MCP server"), "mcp") from error
    transport = (
        _program(config, variables, folders, log) if config.command else _address(config, variables, tokens, ports)
    )
    return Connection(
        transport,
        Answering(config.name, ports, folders if config.roots else ()),
        samples=ports.sample is not None,
        mode="legacy" if config.protocol else "auto",
        on_change=on_change,
    )


def _program(
    config: ServerConfig, variables: Variables, folders: Sequence[Path], log: ServerLog
) -> Callable[[Callable[[str], None]], Any]:
    from ferrule.mcp_client.stdio_transport import StdioTransport

    command = [variables.fill(word) for word in config.command]
    environment = clean_environment(os.environ, variables.fill_table(config.env))
    folder = folders[0] / Path(variables.fill(config.folder)).expanduser() if config.folder else folders[0]
    return lambda on_end: StdioTransport(command, folder=folder, environment=environment, log=log, on_end=on_end)


def _address(
    config: ServerConfig, variables: Variables, tokens: Path, ports: Ports
) -> Callable[[Callable[[str], None]], Any]:
    from ferrule.mcp_client.http_transport import SignedRequests, http_transport
    from ferrule.mcp_client.oauth import TokenFile, oauth

    url = variables.fill(config.url)
    headers = variables.fill_table(config.headers)
    _check_headers(headers)
    auth = None
    if not any(name.lower() == "authorization" for name in headers):
        auth = oauth(
            config.name,
            url,
            TokenFile(tokens, url),
            show=_shown(config.name, ports),
            client_id=variables.fill(config.client_id),
            client_secret=variables.fill_table({"client_secret": config.client_secret})["client_secret"],
        )
    signs_in = auth is not None and ports.show_url is not None
    return lambda on_end: http_transport(
        url, headers=headers, auth=None if auth is None else SignedRequests(auth), signs_in=signs_in
    )


def _check_headers(headers: Mapping[str, str]) -> None:
    """Before anybody else finds them wrong, whose words would quote the value: more often than not a secret."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise Failed(phrase("`{name}` is no name of a header", name=name[:100]))
        if not _HEADER_VALUE.fullmatch(value):
            odd = (
                phrase("a line end")
                if "\n" in value or "\r" in value
                else phrase("a character outside ASCII or a blank at its ends")
            )
            raise Failed(
                phrase("the value for the header `{name}` holds {odd}, which no header takes", name=name[:100], odd=odd)
            )


def _shown(name: str, ports: Ports) -> Callable[[str], Awaitable[None]] | None:
    show = ports.show_url
    if show is None:
        return None

    async def tell(url: str) -> None:
        await show(name, url)

    return tell
