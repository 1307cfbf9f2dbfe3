"""Which hosts and addresses a sandboxed command may reach.

A name is allowed by a pattern; where it leads is judged again by address, because whoever owns a name decides where it
leads. Addresses of this machine, of private networks and of cloud metadata are refused unless they are listed as such.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    plain = name.lower() if name.isascii() else _in_ascii(name)
    # Look-alikes of `/`, `@` and the like have become what they look like.
    if not _NOT_IN_A_HOST.isdisjoint(plain) or not all(0 < len(label) < 64 for label in plain.split(".")):
        raise BadHost(f"{text!r} is not the name of a host")
    return plain


def _in_ascii(name: str) -> str:
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadHost(f"{name!r} is not the name of a host") from None


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
