"""How many values a JSON text holds, told without making any of them.

Each value becomes an object: a text of nothing but `[]` takes seventy times its size once it is read.
"""

from __future__ import annotations

import re

MESSAGE_VALUES = 500_000
"""What one message may hold. No honest one comes near it."""

_CHUNK = 1 << 16
# No text in JSON goes past the end of its line. One that seems to ends there, so that a quote hides nothing after it.
_TEXT = re.compile(rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+(?:"|\\?(?=[\r\n]))')
_WHOLE = re.compile(rb'(?:[^"]++|"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+(?:"|\\?(?=[\r\n])))*+')


def has_too_many_values(text: bytes | bytearray, most: int = MESSAGE_VALUES) -> bool:
    """Whether a text holds more JSON values than allowed; told by its commas and brackets.

    Commas in texts are no sign of anything, but looking for texts is slow: that is done only where there are many.
    """
    if len(text) <= most or text.count(b",") + text.count(b"[") <= most:
        return False
    found = at = 0
    while at < len(text) and found <= most:
        end = _WHOLE.match(text, at, at + _CHUNK).end()  # type: ignore[union-attr] - it matches nothing at all too
        bare = _TEXT.sub(b"", text[at:end])
        found += bare.count(b",") + bare.count(b"[")
        if end == at:  # a text that is longer than a chunk, or one that never ends
            long = _TEXT.match(text, at)
            end = long.end() if long is not None else len(text)
        at = end
    return found > most
