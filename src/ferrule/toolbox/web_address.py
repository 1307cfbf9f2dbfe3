"""Web addresses: one reading of a URL that rules, the resolver and the server all go by, and which machines are public.

Text that two programs read differently is how a request ends up elsewhere than its rule said, so whatever can be read
in two ways is refused. Whether a machine is public is asked of the address that a connection is made to, never of a
name, and goes by a table of our own: the standard library counts some of these as global.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote

from ferrule.extension import advice, cut, hidden_in, phrase
from ferrule.toolbox.failures import invalid

IpAddress = IPv4Address | IPv6Address

_PORTS = {"http": 80, "https": 443}
_LONGEST = 8_000
_FORM = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.I)
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_PLAIN = "-._~ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_KEPT_IN_PATH, _KEPT_IN_QUERY = "%/:@!$&'()*+,;=~-._", "%/?:@!$&'()*+,;=~-._[]"


@dataclass(slots=True, frozen=True)
class WebAddress:
    """An address with one meaning: small letters, no dot segments, escapes in one form."""

    scheme: str
    host: str
    """A name in ASCII, an IPv4 address, or an IPv6 address in brackets."""
    port: int
    path: str
    query: str = ""

    @property
    def origin(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    @property
    def target(self) -> str:
        """What is sent: the path and the query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def __str__(self) -> str:
        return self.origin + self.target

    @property
    def signature(self) -> str:
        """What rules are matched against: the path as the most lenient server would read it.

        `//admin`, `/x/..%2Fadmin`, `/%2561dmin` and `/admin;v=1` are all `/admin` to some server, so a rule that denies
        `/admin` must see it in each of them.
        """
        path = self.path
        while (decoded := _unescaped(path, _PLAIN + "/;%")) != path:
            path = decoded
        segments = [segment.partition(";")[0] for segment in path.split("/")]
        path = _without_dots(
            "/".join(segment for at, segment in enumerate(segments) if segment or at in (0, len(segments) - 1))
        )
        return self.origin + (f"{path}?{self.query}" if self.query else path)

    def joined(self, location: str) -> WebAddress:
        from urllib.parse import urljoin

        try:
            onward = urljoin(str(self), location)
        except ValueError:
            onward = location
        return parse_address(onward)


def parse_address(text: str) -> WebAddress:
    """Read a URL; a `ToolError` says why one cannot be used."""
    given = text.strip()
    if len(given) > _LONGEST:
        raise invalid(phrase("The URL has more than {most} characters.", most=f"{_LONGEST:,}"))
    if re.search(r"\s", given) or hidden_in(given):
        raise invalid(phrase("The URL contains white space or control characters."), phrase("Write a space as %20."))
    if "\\" in given:
        raise invalid(phrase("The URL contains a backslash."), phrase("Write `/`, or %5C for the backslash itself."))
    found = _FORM.fullmatch(given)
    scheme = found["scheme"].lower() if found else ""
    if found is None or scheme not in _PORTS:
        raise invalid(
            phrase("`{url}` is not a web address.", url=cut(given, 100)), phrase("It begins with https:// or http://.")
        )
    authority = found["authority"]
    if "@" in authority:
        raise invalid(
            phrase("The URL holds a user name or password before its host."),
            advice(
                "Leave it out; name a credential instead, which the user keeps in the settings.",
                "Leave it out; name a credential from your settings instead.",
            ),
        )
    host, port = _host_and_port(authority)
    path, query = _normal(found["path"] or "/", _KEPT_IN_PATH), _normal(found["query"] or "", _KEPT_IN_QUERY)
    return WebAddress(scheme, _host(host), port or _PORTS[scheme], _without_dots(path), query)


def _host_and_port(authority: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?", authority)
    if found is None or (port := int(found[2] or 0)) > 65_535 or (found[2] and not port):
        raise invalid(phrase("`{authority}` is not a host with a port.", authority=cut(authority, 100)))
    return found[1], port


def parse_host(text: str) -> tuple[str, int]:
    """A host as settings name it, `api.example.org` or `localhost:8080`; port 0 where none is named."""
    host, port = _host_and_port(text.strip())
    return _host(host), port


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            address = IPv6Address(text[1:-1] if "%" not in text else "")
        except ValueError:
            return _bad_host(text)
        return str(address.ipv4_mapped) if address.ipv4_mapped is not None else f"[{address.compressed}]"
    if "%" in text:
        return _bad_host(text)
    name = text
    if not text.isascii():
        import idna

        try:
            name = idna.encode(text, uts46=True, transitional=False).decode()
        except (idna.IDNAError, UnicodeError):
            # Digits in other scripts' forms are no international name; what they stand for is looked at below.
            import unicodedata

            name = unicodedata.normalize("NFKC", text)
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise invalid(
                phrase("`{host}` is not the name of a host.", host=cut(text, 100)),
                phrase("Write an IPv4 address as four decimal numbers, such as 192.0.2.1."),
            ) from None
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return _bad_host(text)
    return name


def _bad_host(text: str) -> str:
    raise invalid(phrase("`{host}` is not the name of a host.", host=cut(text, 100)))


def _normal(text: str, kept: str) -> str:
    """Escapes in one form: none where none is needed, capitals elsewhere, and everything else escaped."""
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        raise invalid(phrase("A `%` in the URL is not followed by two hex digits."), phrase("Write it as %25."))
    if re.search(r"%(?:[01][0-9a-fA-F]|7[fF])", text):
        raise invalid(phrase("The URL contains an escaped control character."))
    return quote(_unescaped(text, _PLAIN), safe=kept)


def _unescaped(text: str, which: str) -> str:
    def one(found: re.Match[str]) -> str:
        character = chr(int(found[1], 16))
        return character if character in which else f"%{found[1].upper()}"

    return _ESCAPE.sub(one, text)


def _without_dots(path: str) -> str:
    out: list[str] = []
    segments = path.split("/")[1:]
    for at, segment in enumerate(segments):
        if segment in (".", ".."):
            if segment == ".." and out:
                out.pop()
            if at == len(segments) - 1:
                out.append("")
        else:
            out.append(segment)
    return "/" + "/".join(out)


# Which machines are public.


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(one) for one in text.split())


_OWN = _networks("127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7")
"""This machine, and networks of homes and companies."""
_SPECIAL = _networks("""
    0.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
    224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20
""")
"""What names no single machine of somebody else: unspecified, link-local with the metadata of clouds, protocols,
documentation, benchmarks, multicast, reserved, and tunnels that carry an IPv4 address."""
_GLOBAL_6 = IPv6Network("2000::/3")
_EMBEDDING = _networks("::ffff:0:0/96 64:ff9b::/96")
"""IPv6 addresses that lead to an IPv4 one: mapped, and through a translator."""


def led_to(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 one leads to, or the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in _EMBEDDING):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def is_public(address: IpAddress) -> bool:
    """Whether an address is one of the public internet, and nothing else."""
    address = led_to(address)
    if isinstance(address, IPv6Address) and (address not in _GLOBAL_6 or address.scope_id is not None):
        return False
    return not any(address in network for network in (*_OWN, *_SPECIAL) if network.version == address.version)


class OpenedHosts:
    """The hosts and networks besides the public internet that the user opened in `web.private`."""

    def __init__(self, listed: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for one in listed:
            try:
                self._networks.append(ip_network(one.strip().strip("[]"), strict=False))
            except ValueError:
                self._names.add(parse_host(one)[0])

    def names(self, host: str) -> bool:
        """Whether the host itself is listed, or is an address in a network that is."""
        if host in self._names:
            return True
        try:
            return self._lists(ip_address(host.strip("[]")))
        except ValueError:
            return False

    def allow(self, host: str, address: IpAddress) -> bool:
        """Whether a connection to this address may be made for this host.

        A host by name opens what homes and companies use, and not the metadata of clouds or multicast: its name may be
        made to lead anywhere. A network opens all that lies in it.
        """
        address = led_to(address)
        if is_public(address) or self._lists(address):
            return True
        own = any(address in network for network in _OWN if network.version == address.version)
        return own and host in self._names

    def _lists(self, address: IpAddress) -> bool:
        return any(address in network for network in self._networks if network.version == address.version)
