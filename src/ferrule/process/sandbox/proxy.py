"""A proxy for one sandbox: HTTP, CONNECT and SOCKS 5 on a socket that only this sandbox can reach.

Names are looked up here and the connection goes to the very address that was judged, so that an answer which changes
between the look and the use changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ferrule.core.phrases import advice, phrase
from ferrule.process.owned_folders import OwnedFolder
from ferrule.process.sandbox import forwarder
from ferrule.process.sandbox.denials import SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence


# Which hosts and addresses a sandboxed command may reach.


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NOT_IN_A_HOST = frozenset(" \t\r\n\0/\\@?#%<>\"'`{}|^,;=()[]:*")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class BadHost(ValueError):  # noqa: N818 - reads as what it says
    """A text that names no host, or hides which."""


def normal_host(text: str) -> str:
    """One spelling for each host: lower case, ASCII, no dot at the end; addresses in their shortest form."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if (address := as_address(bare)) is not None:
        return str(address)
    name = bare.removesuffix(".")
    if not name or len(name) > 253 or not _NOT_IN_A_HOST.isdisjoint(name) or not name.isprintable():
        raise BadHost(f"{text!r} is not the name of a host")
    try:
        plain = (name if name.isascii() else name.encode("idna").decode("ascii")).lower()
    except UnicodeError:
        raise BadHost(f"{name!r} is not the name of a host") from None
    # Look-alikes of `/`, `@` and the like have become what they look like.
    if not _NOT_IN_A_HOST.isdisjoint(plain) or not all(0 < len(label) < 64 for label in plain.split(".")):
        raise BadHost(f"{text!r} is not the name of a host")
    return plain


def as_address(text: str) -> _Address | None:
    """The address a text writes out in full; None for a name, and for short and octal forms of addresses."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


class AllowedHosts:
    """`example.org`, `*.example.org` (below it, not itself), `*` (all); each may end in `:443`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns: list[tuple[str, bool, int | None]] = []
        self._addresses: set[str] = set()
        for pattern in patterns:
            host, port = _split(pattern.strip())
            if host == "*":
                self._patterns.append(("", True, port))
                continue
            below = host.startswith("*.")
            name = normal_host(host[2:] if below else host)
            self._patterns.append((name, below, port))
            if not below and as_address(name) is not None:
                self._addresses.add(name)

    def allows(self, host: str, port: int) -> bool:
        """Whether a name in its normal form may be asked for; its addresses are judged on their own."""
        return any(
            (wanted is None or wanted == port)
            and (name == "" or (host.endswith("." + name) and as_address(host) is None if below else host == name))
            for name, below, wanted in self._patterns
        )

    def allows_address(self, host: str, address: str) -> bool:
        """Whether a name may lead to this address."""
        found = as_address(address.partition("%")[0])
        if found is None:
            return False
        if str(found) in self._addresses:
            return True
        if host == "localhost" and found.is_loopback:
            return any(name == "localhost" for name, _, _ in self._patterns)
        return is_public(found)


def is_public(address: _Address) -> bool:
    """Whether it belongs to the internet at large, also when it is wrapped in another form."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _split(pattern: str) -> tuple[str, int | None]:
    if as_address(pattern) is not None:
        return pattern, None
    host, colon, port = pattern.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        return host, int(port)
    return pattern, None


_HEAD, _PIECE = 64 << 10, 64 << 10
_MOST_CONNECTIONS, _MOST_DENIED = 128, 100
_SECONDS_FOR_HEAD, _SECONDS_TO_CONNECT, _SECONDS_TO_END = 30, 20, 2
_NOT_PASSED_ON = (b"proxy-", b"connection:", b"keep-alive:", b"host:")

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Refused(Exception):  # noqa: N818 - reads as what it says
    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"Ferrule does not let this command reach `{host}`: {why}\n")


class _Unreachable(Exception):  # noqa: N818
    pass


class Proxy:
    """Serves on a socket file from a thread of its own, until it is closed."""

    def __init__(self, path: str, hosts: Sequence[str]) -> None:
        self._allowed = AllowedHosts(hosts)
        self._denied: dict[str, None] = {}
        self._room = _MOST_CONNECTIONS
        self._serving: set[asyncio.Task[None] | None] = set()
        self._loop: asyncio.AbstractEventLoop
        self._stop = asyncio.Event()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(path)
        except OSError:
            listening.close()
            raise
        self._thread = threading.Thread(target=self._work, args=(listening,), name="ferrule-proxy", daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait()

    def take_denied(self) -> list[str]:
        """The hosts refused since the last time this was asked."""
        denied, self._denied = self._denied, {}
        return list(denied)

    def close(self) -> None:
        """End every connection and the thread; one that looks up a name may take a moment longer."""
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_SECONDS_TO_END)

    def _work(self, listening: socket.socket) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._listen(listening))

    async def _listen(self, listening: socket.socket) -> None:
        server = await asyncio.start_unix_server(self._accept, sock=listening, limit=_HEAD)
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Once its client has sent all it has, nothing else holds a connection that waits for an answer: the loop
        # holds sockets it hears from, and those hold their readers weakly. The garbage collector would end it.
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            if self._room <= 0:
                return
            self._room -= 1
            try:
                await self._serve(reader, writer)
            finally:
                self._room += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the other side is gone or talks nonsense: there is no one to report to
        finally:
            writer.close()
            self._serving.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_SECONDS_FOR_HEAD):
            first = await reader.readexactly(1)
            is_socks = first == b"\x05"
            head = first if is_socks else first + await reader.readuntil(b"\r\n\r\n")
        if is_socks:
            await self._socks(reader, writer)
            return
        try:
            await self._http(head, reader, writer)
        except (_Refused, BadHost) as error:
            await _answer(writer, "403 Forbidden by Ferrule", str(error))
        except _Unreachable as error:
            await _answer(writer, "502 Bad Gateway", str(error))
        except (ValueError, UnicodeError):
            await _answer(writer, "400 Bad Request", "This is not a request that a proxy understands.\n")

    async def _http(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, _, rest = head.partition(b"\r\n")
        method, target, version = first.decode("ascii").split(" ")
        if method == "CONNECT":
            host, port = _host_and_port(target, None)
            there = await self._connect(host, port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _join((reader, writer), there)
            return
        url = urlsplit(target)
        if url.scheme != "http" or url.username is not None:
            raise ValueError(target)
        host, port = _host_and_port(url.netloc, 80)
        there = await self._connect(host, port)
        path = url._replace(scheme="", netloc="").geturl() or "/"
        kept = [line for line in rest.split(b"\r\n") if line and not line.lower().startswith(_NOT_PASSED_ON)]
        ours = [f"{method} {path} {version}".encode("ascii"), f"Host: {url.netloc}".encode("ascii"), *kept]
        there[1].write(b"\r\n".join([*ours, b"Connection: close", b"", b""]))
        await _join((reader, writer), there)

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_SECONDS_FOR_HEAD):
            (count,) = await reader.readexactly(1)
            await reader.readexactly(count)
            writer.write(b"\x05\x00")
            _, command, _, kind = await reader.readexactly(4)
            if kind == 1:
                host = str(ipaddress.IPv4Address(await reader.readexactly(4)))
            elif kind == 4:
                host = str(ipaddress.IPv6Address(await reader.readexactly(16)))
            else:
                (length,) = await reader.readexactly(1)
                host = (await reader.readexactly(length)).decode("utf-8", "replace")
            port = int.from_bytes(await reader.readexactly(2), "big")
        code = 7
        try:
            if command == 1:
                there = await self._connect(host, port)
                writer.write(b"\x05\x00\x00\x01" + bytes(6))
                await _join((reader, writer), there)
                return
        except (_Refused, BadHost):
            code = 2
        except _Unreachable:
            code = 4
        writer.write(bytes((5, code, 0, 1)) + bytes(6))
        await writer.drain()

    async def _connect(self, asked: str, port: int) -> _Streams:
        """A connection to an address that was judged, and to no other."""
        host = normal_host(asked)
        if not self._allowed.allows(host, port):
            self._deny(host)
            raise _Refused(host, "it is not among the hosts that were allowed.")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise _Unreachable(f"`{host}` could not be found: {error.strerror}.\n") from None
        allowed = [one for one in found if self._allowed.allows_address(host, str(one[4][0]))]
        if not allowed:
            self._deny(host)
            raise _Refused(host, "it leads to an address of this machine or of a private network.")
        for family, _, _, _, address in allowed:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_CONNECT):
                    return await asyncio.open_connection(str(address[0]), port, family=family)
        raise _Unreachable(f"`{host}` could not be reached.\n")

    def _deny(self, host: str) -> None:
        if len(self._denied) < _MOST_DENIED:
            self._denied[host] = None


def _host_and_port(text: str, default: int | None) -> tuple[str, int]:
    if text.startswith("[") and "]" in text:
        host, _, rest = text.partition("]")
        host, port = host[1:], rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if not port and default is not None:
        return host, default
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadHost(f"{text!r} has no port")
    return host, int(port)


async def _join(one: _Streams, other: _Streams) -> None:
    """Pass on what comes from either side, until both have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(one[0], other[1]))
            group.create_task(_pass_on(other[0], one[1]))
    except* OSError:
        pass  # a connection that broke ends both ways
    finally:
        other[1].close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode()
    writer.write(
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n".encode()
        + body
    )
    await writer.drain()


# The one way out of a sandbox that may reach some hosts: a local port inside, a proxy outside, a socket between.


_PORT = 41280
_INSIDE = "/run/ferrule"
_SOCKET = "proxy"


@dataclass(slots=True, frozen=True)
class Way:
    """What a sandbox needs for it: a folder to show inside, variables, and the command that opens the port first."""

    folder: str
    inside: str
    environment: Mapping[str, str]
    command: tuple[str, ...]
    proxy: Proxy


@contextlib.contextmanager
def network(hosts: Sequence[str], command: Sequence[str]) -> Generator[Way]:
    """A way to these hosts, as long as the block lasts."""
    usual = tempfile.gettempdir()
    # The path of a socket may have 107 characters, and some systems keep temporary files far down.
    above = usual if len(os.fsencode(usual)) < 70 else "/tmp"  # noqa: S108 - the folder made in it is private
    with OwnedFolder(Path(above), prefix="ferrule-net-") as owned:
        folder = str(owned.path)
        try:
            proxy = Proxy(f"{folder}/{_SOCKET}", hosts)
        except BadHost as error:
            raise SandboxRefused(
                phrase("The allowed hosts cannot be used: {error}.", error=error),
                advice("Ask the user to fix them.", "Fix them."),
            ) from None
        try:
            python = os.path.realpath(sys.executable)
            start = (python, "-I", "-S", "-c", _source(), str(_PORT), f"{_INSIDE}/{_SOCKET}")
            yield Way(folder, _INSIDE, _variables(hosts), (*start, *command), proxy)
        finally:
            proxy.close()


def _variables(hosts: Sequence[str]) -> dict[str, str]:
    """HTTP for everything: programs that cannot speak SOCKS fail on its mere mention. This machine's own names mean the
    inside of the sandbox, unless one is allowed: only the proxy leads to the machine.
    """
    address = f"http://127.0.0.1:{_PORT}"
    allowed = {_split(pattern.strip())[0] for pattern in hosts}
    inside = ",".join(name for name in ("localhost", "127.0.0.1", "::1") if name not in allowed)
    variables = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), address) | {"no_proxy": inside}
    return variables | {name.upper(): value for name, value in variables.items()}


@lru_cache(maxsize=1)
def _source() -> str:
    """The program's text: its file may lie where the sandbox shows nothing."""
    return Path(forwarder.__file__).read_text(encoding="utf-8")
