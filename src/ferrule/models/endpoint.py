"""Where a provider is reached, and with which key. The key is in nothing that can be printed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ferrule.core.phrases import Phrase
from ferrule.core.secrets import REDACTED, redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Where keys come from: the environment, else the keyring of the desktop when the `keyring` package is there.


KEYRING_SERVICE = "ferrule"


@dataclass(slots=True, frozen=True)
class Key:
    """A key and where it was found, in words that can be shown."""

    secret: str = field(repr=False)
    found_in: str


def find_key(provider: str, variables: Sequence[str], environment: Mapping[str, str] | None = None) -> Key | None:
    """The key of a provider; None when there is none."""
    environment = os.environ if environment is None else environment
    for variable in variables:
        if secret := environment.get(variable, "").strip():
            return Key(secret, variable)
    secret = _from_keyring(provider)
    return Key(secret, f"the keyring ({KEYRING_SERVICE}/{provider})") if secret else None


def _from_keyring(provider: str) -> str:
    try:
        chest: Any = import_module("keyring")
        errors: Any = import_module("keyring.errors")
    except ImportError:
        return ""
    try:
        return (chest.get_password(KEYRING_SERVICE, provider) or "").strip()
    except errors.KeyringError:  # locked, or there is no desktop to ask
        return ""


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
