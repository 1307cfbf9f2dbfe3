"""Where keys come from: the environment, else the keyring of the desktop when the `keyring` package is there.

A key is never written anywhere by Ferrule, and never read from a file of a workspace.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
