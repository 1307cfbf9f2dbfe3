"""getCurrentDateTime: the clock, in forms a model and a person can use."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from ferrule.core.access import NOTHING
from ferrule.core.function_tool import tool


class FormattedDateTime(TypedDict):
    date: str
    time: str
    full: str


class CurrentDateTime(TypedDict):
    datetime: str
    timestamp: int
    timezone: str
    weekday: str
    formatted: FormattedDateTime


def _show(now: CurrentDateTime) -> str:
    return now["formatted"]["full"]


@tool(
    name="getCurrentDateTime",
    display_name="Current date and time",
    kind="readonly",
    may_block=False,
    category="system",
    tags=("assistant", "time"),
    doing="looking at the clock",
    touches=NOTHING,
    display=_show,
)
async def get_current_date_time() -> CurrentDateTime:
    """Get the current date and time of this machine.

    Use this whenever the answer depends on today's date or the time of day, instead of guessing.

    Usage notes:
        - `datetime` is ISO 8601 with the offset from UTC; `timestamp` is in seconds since 1970-01-01 UTC.

    Examples:
        - what time is it, and what day is today: {}
    """
    now = datetime.now().astimezone()
    date, time = now.strftime("%Y-%m-%d"), now.strftime("%H:%M:%S")
    zone = now.tzname() or "UTC"
    return {
        "datetime": now.isoformat(timespec="seconds"),
        "timestamp": int(now.timestamp()),
        "timezone": zone,
        "weekday": now.strftime("%A"),
        "formatted": {"date": date, "time": time, "full": f"{date} {time}"},
    }
