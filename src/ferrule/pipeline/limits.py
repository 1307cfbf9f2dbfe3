"""The bounds every call runs within."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True, frozen=True)
class Limits:
    """Bounds on arguments, time, results and parallel work. A tool's own `timeout`, `max_result` and `grace` come
    first.
    """

    argument_bytes: int = 10_000_000
    """Size of a call's arguments as JSON."""
    argument_depth: int = 64
    """Levels of nesting in arguments."""
    number_digits: int = 400
    """Digits of one number in arguments."""
    timeout: float = 120.0
    """Seconds a call may run; waiting for a user's answer doesn't count."""
    grace: float = 1.0
    """Seconds a cancelled tool has to stop before it is abandoned."""
    result_chars: int = 100_000
    """Characters of a result that a model sees."""
    stream_items: int = 10_000
    """Pieces kept of what a generator yields, unless they are text."""
    concurrency: int = 200
    """Calls of one batch that run at once."""
    threads: int = 64
    """Sync tools that run at once."""
    stuck_threads: int = 256
    """Abandoned sync calls that may still hang before further sync calls are refused."""
    nesting: int = 16
    """How deep tools may call tools."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
            if not is_number or (value == 0 and one.name != "grace"):
                least = "of 0 or more" if one.name == "grace" else "above 0"
                raise ValueError(f"Limits: {one.name} must be a number {least}, not {value!r}.")


DEFAULT_LIMITS = Limits()
