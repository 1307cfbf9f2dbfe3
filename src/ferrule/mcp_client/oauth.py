"""Signing in to a server over HTTP: the SDK's OAuth, with tokens that only the person can read.

The browser's way back leads to a port of this machine that is open for that one answer. Where nobody can sign in, the
server fails with the command that does it.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from ferrule.core.phrases import phrase
from ferrule.mcp_client.ports import NotSigningIn
from ferrule.mcp_client.private_files import read_json, write_json
from ferrule.policy.shown_text import shown_argument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pydantic import BaseModel

_SECONDS_TO_SIGN_IN = 300.0
_MOST_OF_REQUEST = 16 << 10
_PAGE = "<!doctype html><meta charset=utf-8><title>Ferrule</title><p>You are signed in. You can close this page.</p>"
_REFUSED = "<!doctype html><meta charset=utf-8><title>Ferrule</title><p>Signing in did not work: {why}</p>"


class TokenFile:
    """Tokens and the client's registration for one server, in a file with mode 0600."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path = folder / f"{sha256(url.encode()).hexdigest()[:32]}.json"
        self.given: OAuthClientInformationFull | None = None
        """The client that the person registered themselves; it comes before any other."""

    @property
    def expires_at(self) -> float | None:
        """When the token ends; the SDK itself forgets that with the process, and would sign in anew."""
        found = read_json(self.path).get("expires_at")
        return float(found) if isinstance(found, (int, float)) else None

    async def get_tokens(self) -> OAuthToken | None:
        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = time() + tokens.expires_in if tokens.expires_in is not None else None
        self._write({"tokens": _plain(tokens), "expires_at": ends})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.given or self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write({"client": _plain(client_info)})

    def _read(self, key: str, kind: Any) -> Any:
        try:
            return kind.model_validate(read_json(self.path)[key])
        except (KeyError, ValidationError):
            return None

    def _write(self, news: dict[str, Any]) -> None:
        write_json(self.path, {**read_json(self.path), **news})


def _plain(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True)


class SignIn:
    """One way through the browser and back. `show` brings the address to the person."""

    def __init__(self, name: str, show: Callable[[str], Awaitable[None]] | None, port: int) -> None:
        self._name = name
        self._show = show
        self.port = port
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def begin(self, url: str) -> None:
        """Open the way back, then show the address."""
        if self._show is None:
            raise OAuthFlowError(
                phrase("it wants you to sign in: ferrule mcp test {name}", name=shown_argument(self._name))
            )
        if self._server is not None:  # of a try that was given up
            self._server.close()
        self._answer = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port)
        try:
            await self._show(url)
        except BaseException as error:
            self._server.close()
            if isinstance(error, NotSigningIn):
                raise OAuthFlowError(str(error)) from None
            raise

    async def finish(self) -> AuthorizationCodeResult:
        """What the browser came back with."""
        if self._answer is None or self._server is None:
            raise OAuthFlowError(phrase("signing in was not begun"))
        try:
            return await asyncio.wait_for(self._answer, _SECONDS_TO_SIGN_IN)
        except TimeoutError:
            raise OAuthFlowError(
                phrase("nobody signed in within {seconds} s", seconds=f"{_SECONDS_TO_SIGN_IN:g}")
            ) from None
        finally:
            self._server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
            words = line[:_MOST_OF_REQUEST].decode("latin-1").split(" ")
            target = urlsplit(words[1] if len(words) > 1 else "")
            if target.path != "/callback":
                writer.write(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                return
            given = {key: values[0] for key, values in parse_qs(target.query).items()}
            page = self._settle(given)
            body = page.encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return  # not a browser; the next one may be
        finally:
            writer.close()

    def _settle(self, given: dict[str, str]) -> str:
        from html import escape

        answer = self._answer
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "the answer holds no code"
            if answer is not None and not answer.done():
                answer.set_exception(OAuthFlowError(phrase("signing in was refused: {why}", why=why[:200])))
            return _REFUSED.format(why=escape(why[:200]))
        if answer is not None and not answer.done():
            answer.set_result(
                AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))
            )
        return _PAGE


def oauth(
    name: str,
    url: str,
    tokens: TokenFile,
    *,
    show: Callable[[str], Awaitable[None]] | None,
    client_id: str = "",
    client_secret: str = "",
) -> OAuthClientProvider:
    """What signs requests to a server, and signs in first where the server asks for it.

    A `client_id` that is an address is that of a document about the client, for servers that take one.
    """
    way = SignIn(name, show, _port(tokens))
    method = "client_secret_basic" if client_secret else None
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Ferrule",
            "redirect_uris": [way.address],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            **({"token_endpoint_auth_method": method} if method else {}),
        }
    )
    document = client_id if client_id.startswith("https://") else None
    if client_id and document is None:
        known = {"client_id": client_id, **({"client_secret": client_secret} if client_secret else {})}
        tokens.given = OAuthClientInformationFull.model_validate({**_plain(metadata), **known})
    provider = OAuthClientProvider(url, metadata, tokens, way.begin, way.finish, document)
    provider.context.token_expiry_time = tokens.expires_at
    return provider


def _port(tokens: TokenFile) -> int:
    """The port that this client was registered with, or one that is free."""
    import socket

    registered: list[Any] = read_json(tokens.path).get("client", {}).get("redirect_uris") or []
    for address in registered:
        if (port := urlsplit(str(address)).port) is not None:
            return port
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
