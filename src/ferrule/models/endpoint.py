"""Where a provider is reached, and with which key. The key is in nothing that can be printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ferrule.core.phrases import Phrase
from ferrule.core.secrets import REDACTED, redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHORTEST_KEY = 4  # shorter ones stand in ordinary words


def host_of(url: str) -> str:
    """The machine that an address names; `?` for what is no address."""
    try:
        return urlsplit(url).hostname or "?"
    except ValueError:
        return "?"


@dataclass(slots=True, frozen=True)
class Endpoint:
    """One provider's address. `label` is its name for people, `key_from` says where the key was found."""

    provider: str
    label: str
    base_url: str
    key: str = field(default="", repr=False)
    key_from: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def host(self) -> str:
        """The machine alone; a whole address may hold a secret."""
        return host_of(self.base_url)

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, which no proxy reaches."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"

    def clean(self, text: str) -> str:
        """Words that came from outside, without this endpoint's key and what else looks like a secret."""
        if isinstance(text, Phrase):
            return text.mapped(self.clean)
        for secret in (self.key, *self.headers.values()):
            if len(secret) >= _SHORTEST_KEY:
                text = text.replace(secret, REDACTED)
        return redact_text(text)
