"""Fetches a file from a market: over HTTPS, or plain HTTP on this machine alone, with a bound on all of it.

The server may be hostile. Size, total time, redirects and their schemes are limited here, and nothing is unpacked.
"""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from ferrule import ErrorKind, __version__
from ferrule.extension import Fetched, FetchError, MissingExtraError, is_local, phrase
from ferrule.extension import fetch as bounded_fetch
from ferrule.plugins.manifest import as_object
from ferrule.plugins.signed_index import MarketError

_REDIRECTS = 5
_SECONDS = 60.0
_MOST_PAGE_BYTES = 8_000_000
_SECONDS_OF_SILENCE = 15.0
_TRY_LATER = phrase("Check the address and your network. What was fetched before can still be used.")


def checked_address(url: str) -> str:
    """An address that may be fetched."""
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
