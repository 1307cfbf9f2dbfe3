"""Tool names that every provider accepts, and the way back."""

from __future__ import annotations

import re
from hashlib import sha256
from threading import Lock

MAX_LENGTH = 64
_PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_DIGITS = 10
# Made names end like this, and a name that already does is made anew. So a made name can never be one that
# somebody chose, whichever of the two comes first.
_MADE = re.compile(r".*__[0-9a-f]{10}", re.DOTALL)


def is_portable(name: str, longest: int = MAX_LENGTH) -> bool:
    """Whether a name can go to every provider as it is."""
    return len(name) <= longest and _PORTABLE.fullmatch(name) is not None and _MADE.fullmatch(name) is None


def portable_name(name: str, salt: int = 0, longest: int = MAX_LENGTH) -> str:
    """The name itself when portable; otherwise what is readable of it and a short hash of the whole."""
    if is_portable(name, longest):
        return name
    whole = name if not salt else f"{name}\0{salt}"
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    readable = _FOREIGN.sub("_", name).strip("_-") or "tool"
    if readable[0].isdigit():
        readable = f"_{readable}"
    return f"{readable[: longest - _HASH_DIGITS - 2]}__{digest}"


class NameMap:
    """Names out and back. What a name becomes depends on that name alone, so other tools may come and go.

    `longest` leaves room for what somebody further on writes before every name.
    """

    __slots__ = ("_external", "_internal", "_lock", "_longest")

    def __init__(self, longest: int = MAX_LENGTH) -> None:
        self._longest = longest
        self._external: dict[str, str] = {}
        self._internal: dict[str, str] = {}
        self._lock = Lock()

    def external(self, name: str) -> str:
        """The name to show a provider."""
        known = self._external.get(name)
        if known is not None:
            return known
        if is_portable(name, self._longest):
            return name
        with self._lock:
            salt = 0
            made = portable_name(name, longest=self._longest)
            # Two names with one hash are a matter of luck or malice; the later one is hashed again.
            while self._internal.get(made, name) != name:
                salt += 1
                made = portable_name(name, salt, self._longest)
            self._internal[made] = name
            self._external[name] = made
        return made

    def internal(self, name: str) -> str:
        """The tool's own name for one a provider used; a name never given out comes back as it is."""
        return self._internal.get(name, name)
