"""getCurrentDateTime, through the real pipeline."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import datetime

from inline_snapshot import snapshot

from ferrule import Runtime
from ferrule.builtin.surroundings import get_current_date_time


def test_its_forms_agree_with_each_other_and_the_clock() -> None:
    before = int(time.time())
    result = asyncio.run(Runtime([get_current_date_time]).run("getCurrentDateTime", "{}"))
    data = result.data
    moment = datetime.fromisoformat(data["datetime"])
    assert moment.tzinfo is not None
    assert data["timestamp"] == int(moment.timestamp())
    assert before <= data["timestamp"] <= time.time()
    assert data["timezone"] == moment.astimezone().tzname()
    assert data["formatted"]["date"] == moment.strftime("%Y-%m-%d")
    assert data["formatted"]["time"] == moment.strftime("%H:%M:%S")
    assert data["formatted"]["full"] == moment.strftime("%Y-%m-%d %H:%M:%S")
    assert data["weekday"] == moment.strftime("%A")
    assert result.display_content == data["formatted"]["full"]


def test_the_full_form_is_the_date_and_the_time_and_nothing_else() -> None:
    result = asyncio.run(Runtime([get_current_date_time]).run("getCurrentDateTime", "{}"))
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", result.data["formatted"]["full"])


def test_what_a_model_reads_of_it() -> None:
    tool = get_current_date_time
    assert tool.description.text == snapshot("""\
Get the current date and time of this machine.

Use this whenever the answer depends on today's date or the time of day, instead of guessing.

Usage notes:
- `datetime` is ISO 8601 with the offset from UTC; `timestamp` is in seconds since 1970-01-01 UTC.

Examples:
- what time is it, and what day is today: {}\
""")
    assert tool.input_schema == snapshot({"additionalProperties": False, "properties": {}, "type": "object"})
