"""Tool names that every provider accepts, and the way back."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LENGTH = 64
_PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_DIGITS = 8
# Names with a hash end like this, and a name that already does is given one of its own. So nobody can choose the name
# that another tool was given, whichever of the two comes first.
_HASHED = re.compile(r".*__[0-9a-f]{8}", re.DOTALL)


def is_portable(name: str, longest: int = MAX_LENGTH) -> bool:
    """Whether a name can go to every provider as it is."""
    return len(name) <= longest and _PORTABLE.fullmatch(name) is not None and _HASHED.fullmatch(name) is None


def readable(name: str) -> str:
    """What can be read of a name in the letters that every provider takes: `查询天气` is `ChaXunTianQi`."""
    return _FOREIGN.sub("_", name if name.isascii() else _in_ascii(name)).strip("_-")


def portable_name(name: str, longest: int = MAX_LENGTH) -> str:
    """The name itself when portable; otherwise what is readable of it, with a hash only where that is nothing."""
    if is_portable(name, longest):
        return name
    short = _started(readable(name))[:longest].rstrip("_-")
    return short if is_portable(short, longest) else _hashed(name, longest)


def _hashed(name: str, longest: int, salt: int = 0) -> str:
    """What is readable of a name and a short hash of the whole."""
    whole = name if not salt else f"{name}\0{salt}"
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    short = _started(readable(name) or "tool")[: longest - _HASH_DIGITS - 2]
    return f"{short}__{digest}"


def _started(name: str) -> str:
    """A name begins with a letter or `_`."""
    return f"_{name}" if name[:1].isdigit() else name


def _in_ascii(name: str) -> str:
    try:
        from anyascii import anyascii  # only where a name needs it
    except ImportError:  # accents go; what has no letters here is left to the hash
        from unicodedata import normalize

        return normalize("NFKD", name)
    return anyascii(name)


class NameMap:
    """Names out and back. A name that was shown once stays.

    Two tools that read alike are told apart by a hash of their names. Tools that are learnt together get the same
    names in whatever order they come. `longest` leaves room for what somebody further on writes before every name.
    """

    __slots__ = ("_external", "_internal", "_lock", "_longest")

    def __init__(self, longest: int = MAX_LENGTH) -> None:
        self._longest = longest
        self._external: dict[str, str] = {}
        self._internal: dict[str, str] = {}
        self._lock = Lock()

    def learn(self, names: Iterable[str]) -> None:
        """Give all these tools their names at once: first to those that can keep theirs."""
        new = [name for name in dict.fromkeys(names) if name not in self._external]
        if not new:
            return
        with self._lock:
            wanted = {name: portable_name(name, self._longest) for name in new if name not in self._external}
            alike = Counter(made for name, made in wanted.items() if made != name)
            for name, made in sorted(wanted.items(), key=lambda one: (one[0] != one[1], one[0])):
                taken = made in self._internal or (made != name and alike[made] > 1)
                self._keep(name, self._apart(name) if taken else made)

    def external(self, name: str) -> str:
        """The name to show a provider."""
        known = self._external.get(name)
        if known is None:
            self.learn((name,))
            known = self._external[name]
        return known

    def internal(self, name: str) -> str:
        """The tool's own name for one a provider used; a name never given out comes back as it is."""
        return self._internal.get(name, name)

    def _apart(self, name: str) -> str:
        """A name that no other tool has. Two with one hash are luck or malice; the later one is hashed again."""
        salt = 0
        while (made := _hashed(name, self._longest, salt)) in self._internal:
            salt += 1
        return made

    def _keep(self, name: str, made: str) -> None:
        self._internal[made] = name
        self._external[name] = made
