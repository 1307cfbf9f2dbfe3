"""Fetches over HTTP within bounds: bytes as they come and unpacked, seconds, redirects and where they lead."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Collection, Mapping

_REDIRECTS = (301, 302, 303, 307, 308)
PACKED = ("gzip", "x-gzip", "deflate")
"""How a body may be compressed: what can be unpacked piece by piece, so that a bomb never unfolds."""


class FetchError(Exception):
    """An answer that is not taken; reads after "sent". `why` is for a caller with words of its own."""

    def __init__(self, why: Literal["size", "coding", "damage", "redirects"], words: str) -> None:
        super().__init__(words)
        self.why = why


@dataclass(slots=True, frozen=True)
class Fetched:
    """A whole answer, and where it came from after all redirects."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


async def fetch(
    client: Any,
    method: str,
    url: str,
    *,
    most: int,
    seconds: float | None = None,
    status: int | None = None,
    redirects: int = 0,
    onward: Callable[[str, str], str] = lambda _from, to: to,
    packed: Collection[str] = PACKED,
    headers: Mapping[str, str] | None = None,
    **request: Any,
) -> Fetched:
    """One request with an httpx2 client. Raises `FetchError`, `TimeoutError` and what the client raises.

    So many `redirects` are followed; `onward` is asked about each, and gives the address or raises. Without any, a
    redirect is the answer. If only one `status` is of use, the body of any other is not read.
    """
    import asyncio  # listing tools does without

    sent = {"Accept-Encoding": "gzip, deflate" if packed else "identity", **(headers or {})}
    async with asyncio.timeout(seconds):
        for _ in range(redirects + 1):
            async with client.stream(method, url, headers=sent, follow_redirects=False, **request) as response:
                where = response.headers.get("location")
                if redirects and where and response.status_code in _REDIRECTS:
                    url = onward(url, urljoin(url, where))
                    continue
                if status is not None and response.status_code != status:
                    return Fetched(response.status_code, response.headers, b"", url)
                coding = response.headers.get("content-encoding", "")
                body = await read_body(response.aiter_raw(), most, coding, packed)
                return Fetched(response.status_code, response.headers, body, url)
    raise FetchError("redirects", f"more than {redirects} redirects")


async def read_body(pieces: AsyncIterable[bytes], most: int, coding: str = "", packed: Collection[str] = ()) -> bytes:
    """A whole body, unpacked; raises `FetchError` before more than `most` bytes are held, packed or not."""
    coding = coding.strip().lower()
    if coding not in ("", "identity", *packed):
        raise FetchError("coding", f"an answer packed as `{coding}`, which was not asked for")
    unpack = _unpacker(coding)
    taken, body = 0, bytearray()
    async for piece in pieces:
        taken += len(piece)
        body += unpack(piece, most + 1 - len(body))
        if taken > most or len(body) > most:
            raise FetchError("size", f"more than {most:,} bytes")
    return bytes(body)


def _unpacker(coding: str) -> Callable[[bytes, int], bytes]:
    if coding in ("", "identity"):
        return lambda piece, most: piece[:most]
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    raw_possible = coding == "deflate"

    def unpack(piece: bytes, most: int) -> bytes:
        nonlocal unpacker, raw_possible
        if unpacker.eof or most <= 0:
            return b""
        try:
            out = unpacker.decompress(piece, most)
        except zlib.error:
            if not raw_possible:
                raise FetchError("damage", "a damaged compressed answer") from None
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the frame out
            raw_possible = False
            return unpack(piece, most)
        raw_possible = False
        return out

    return unpack


def is_local(host: str) -> bool:
    """Whether only this machine can reach it, and no proxy does. A name other than `localhost` may lead anywhere."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
