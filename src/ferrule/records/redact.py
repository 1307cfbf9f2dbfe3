"""What of a call's arguments may be kept: bounded, and without the secrets that can be recognised."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any, NamedTuple

from ferrule.core.secrets import may_hold_secret, redact_text, redact_value
from ferrule.core.shown_text import cut_counted

__all__ = ["KeptArguments", "keep_arguments", "keep_text", "redact_text", "redact_value"]

MAX_ARGUMENTS = 16_384


class KeptArguments(NamedTuple):
    """Redacted JSON text, at most `MAX_ARGUMENTS` characters of it.

    `length` is the length before it was cut. `sha256` is empty unless it was cut; it is taken of the redacted
    text, because a digest of the original would let anyone test guesses for a short secret.
    """

    text: str
    length: int
    sha256: str


def keep_arguments(arguments: Any) -> KeptArguments:
    """The arguments as they go into a record, whatever was sent: a mapping, JSON text, broken JSON."""
    if arguments is None:
        return KeptArguments("", 0, "")
    # Most arguments are plain text and kept as they came in.
    if (
        type(arguments) is str
        and len(arguments) <= MAX_ARGUMENTS
        and arguments.isascii()
        and not may_hold_secret(arguments)
    ):
        return KeptArguments(arguments, len(arguments), "")
    redacted = redact_value(arguments)
    # A string that was JSON is kept as that JSON, not as a string of it.
    text = redacted if isinstance(redacted, str) else json.dumps(redacted, ensure_ascii=False)
    text = without_surrogates(text)
    if len(text) <= MAX_ARGUMENTS:
        return KeptArguments(text, len(text), "")
    return KeptArguments(text[:MAX_ARGUMENTS], len(text), hashlib.sha256(text.encode()).hexdigest())


@lru_cache(maxsize=1024)
def keep_reason(text: str) -> str:
    """`keep_text` for the few sentences that a policy gives as its reasons, again and again."""
    return keep_text(text)


def keep_text(text: object, limit: int = 2_000) -> str:
    """Words as they go into a record: without secrets, without what SQLite cannot store, and not endless."""
    return cut_counted(without_surrogates(redact_text(str(text))), limit)


def without_surrogates(text: str) -> str:
    """Half a surrogate pair is a legal Python string that no database takes; show it as an escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
