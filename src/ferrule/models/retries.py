"""When to try again, and after how long: what the server asks for, else a back-off with full jitter."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ferrule.models.loose_json import an_item, items, words

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True, frozen=True)
class Tries:
    """How often, and how long between: up to `first` seconds, doubled each time, at most `longest`.

    A server that asks for more than `patience` seconds is not waited for.
    """

    most: int = 5
    first: float = 1.0
    longest: float = 30.0
    patience: float = 90.0

    def wait(self, attempt: int, asked: float | None, jitter: float | None = None) -> float | None:
        """Seconds before the try after `attempt`; None when there is none. `jitter` is between 0 and 1."""
        if attempt >= self.most:
            return None
        jitter = random.random() if jitter is None else jitter  # noqa: S311 - spreads load, protects nothing
        if asked is not None:
            # Never sooner than asked, and not all clients in the same instant.
            return None if asked > self.patience else asked + jitter * min(1.0, 0.1 * asked)
        return jitter * min(self.longest, self.first * 2 ** (attempt - 1))


PATIENT = Tries()


def wait_asked(headers: Mapping[str, str], body: bytes = b"", now: datetime | None = None) -> float | None:
    """Seconds a server asks to wait: `retry-after-ms`, `Retry-After` in seconds or as a date, or Google's RetryInfo."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    if written := headers.get("retry-after"):
        try:
            when = parsedate_to_datetime(written)
        except ValueError:
            return _from_body(body)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    return _from_body(body)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None  # `nan` is neither


def _from_body(body: bytes) -> float | None:
    if b"RetryInfo" not in body:
        return None
    try:
        loaded: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    first = next(iter(items(loaded)), an_item(loaded))  # Gemini's own stream wraps even its errors
    for detail in items(an_item(first.get("error")).get("details")):
        delay = words(detail.get("retryDelay"))
        if delay.endswith("s"):
            return _number(delay[:-1])
    return None
