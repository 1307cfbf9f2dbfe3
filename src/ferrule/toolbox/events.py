"""Events as iCalendar has them: which happen when, their lines, and their moments. Runs in a child: anyone may invite
anyone.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from ferrule import ToolError
from ferrule.extension import advice, cut, phrase, without_hidden
from ferrule.toolbox.caldav import events_in
from ferrule.toolbox.failures import invalid

MOST_OCCURRENCES = 5_000
SECONDS_FOR_ONE = 1.0
_LONGEST_TEXT = 2_000
_DEEPEST = 10
ASK_USER = advice("Ask the user to change it in their calendar program.", "Change it in your calendar program.")


class TooManyOccurrences(BaseException):
    """One event took all the time that one may have; nothing in a library may take it for an error of its own."""


@contextmanager
def limited(seconds: float) -> Generator[None]:
    # Its own time counts, and not what a busy machine makes it wait.
    def late(_number: int, _frame: object) -> None:
        raise TooManyOccurrences

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# What happens when


def expand(order: Mapping[str, Any], *, data: bytes) -> dict[str, Any]:
    """All that happens from one moment to another, in the answers of several calendars."""
    start, end = datetime.fromisoformat(order["from"]), datetime.fromisoformat(order["to"])
    zone = ZoneInfo(order["zone"])
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    at = 0
    for answer in order["answers"]:
        for event in events_in(data[at : at + answer["size"]]):
            try:
                with limited(SECONDS_FOR_ONE):
                    happens = list(_happens(event.data, start, end, zone))
            except (TooManyOccurrences, MemoryError):
                notes.append(f"`{event.name}` repeats so often that it was left out")
                continue
            except Exception as error:  # noqa: BLE001 - a library fails in any way on what others wrote
                notes.append(f"`{event.name}` cannot be read ({type(error).__name__}) and was left out")
                continue
            if len(happens) > MOST_OCCURRENCES:
                notes.append(f"`{event.name}` happens more than {MOST_OCCURRENCES:,} times; the first are listed")
            for one in happens[:MOST_OCCURRENCES]:
                one["id"] = f"{answer['calendar']}/{event.name}#{event.version}#{one.pop('occurrence')}"
                one["calendar"] = answer["calendar"]
                found.append(one)
        at += answer["size"]
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in sorted(found, key=lambda one: (one["begins"], one["ends"], one["id"])):
        seen.setdefault((one.pop("uid"), one["begins"], one["title"]), one)
    if len(seen) < len(found):
        notes.append("events that stand in several calendars are listed once")
    return {"events": list(seen.values()), "notes": notes[:20]}


def _happens(text: str, start: datetime, end: datetime, zone: ZoneInfo) -> Generator[dict[str, Any]]:
    whole = understood(text)
    masters = {str(one.get("UID")): one for one in whole.walk("VEVENT") if "RECURRENCE-ID" not in one}
    # An exception for all that follow is there once, and moves each of them by the same time.
    ranges = {
        (str(one.get("UID")), one["RECURRENCE-ID"].dt): _instant(one.start, zone)
        - _instant(one["RECURRENCE-ID"].dt, zone)
        for one in whole.walk("VEVENT")
        if "RECURRENCE-ID" in one and one["RECURRENCE-ID"].params.get("RANGE") == "THISANDFUTURE"
    }
    # All-day and floating events are in nobody's zone: they are asked for a day more, and sorted out below.
    for event in recurring(whole).between(start - timedelta(days=1), end + timedelta(days=1)):
        began, ended = event.start, event.end
        first, last = _instant(began, zone), _instant(ended, zone)
        if not (first < end and (last > start or first == last >= start)):
            continue
        master = masters.get(str(event.get("UID")))
        repeats = master is not None and ("RRULE" in master or "RDATE" in master)
        which = event["RECURRENCE-ID"].dt if "RECURRENCE-ID" in event and repeats else None
        if which is not None and (moved := ranges.get((str(event.get("UID")), which))) is not None:
            which = began - moved
        like = master.start if master is not None else None
        all_day = not isinstance(began, datetime)
        yield {
            "uid": str(event.get("UID", "")), "title": _plain(event.get("SUMMARY"), 300),
            "start": _shown(began), "end": _shown(ended - timedelta(days=1) if all_day and ended > began else ended),
            "weekday": began.strftime("%A"), "all_day": all_day, "zone": "" if all_day else _zone_name(began),
            "location": _plain(event.get("LOCATION"), 300), "description": _plain(event.get("DESCRIPTION")),
            "attendees": [_plain(one, 200).removeprefix("mailto:") for one in _listed(event.get("ATTENDEE"))[:50]],
            "status": _plain(event.get("STATUS"), 20).lower(), "repeats": repeats,
            "busy": str(event.get("TRANSP", "OPAQUE")).upper() != "TRANSPARENT"
            and str(event.get("STATUS", "")).upper() != "CANCELLED",
            "begins": first.timestamp(), "ends": last.timestamp(),
            "occurrence": _occurrence(which, like) if which is not None else "",
        }  # fmt: skip


def understood(text: str) -> Any:
    from icalendar import Calendar

    return Calendar.from_ical(text)


@cache
def _selection() -> Any:
    """Make the library identify an occurrence only by its wall-clock time in the series' own zone.

    The library also matches the time in UTC as if it were a wall-clock time. In Berlin in summer, an exception at 22:00
    would then replace the occurrence at midnight too.
    """
    library, adapters = import_module("recurring_ical_events"), import_module("recurring_ical_events.adapters.event")

    class EventByWallClock(adapters.EventAdapter):
        zone: tzinfo | None = None

        def own(self, at: date) -> date:
            if not isinstance(at, datetime) or at.tzinfo is None:
                return at
            return (at.astimezone(self.zone) if self.zone else at).replace(tzinfo=None)

        @property
        def recurrence_ids(self) -> tuple[date, ...]:
            if "RECURRENCE-ID" not in self._component:
                return ()
            at = self.own(self._component["RECURRENCE-ID"].dt)
            return (at if isinstance(at, datetime) else datetime.combine(at, time()),)

        @property
        def exdates(self) -> list[date]:
            inherited: Any = super()
            return [self.own(one) for one in inherited.exdates]

        @property
        def rdates(self) -> list[Any]:
            inherited: Any = super()
            return [
                (self.own(one[0]), one[1] if isinstance(one[1], timedelta) else one[1] - one[0])
                if not isinstance(one, date)
                else self.own(one)
                for one in inherited.rdates
            ]

    class SeriesByWallClock(library.Series):
        def __init__(self, components: list[EventByWallClock]) -> None:
            starts = [one.raw_start for one in components if not one.is_modification()]
            self.zone = getattr(starts[0], "tzinfo", None) if starts else None
            self.repeated: set[datetime] = set()  # second pass of an hour when clocks go back
            for one in components:
                one.zone = self.zone
            inherited: Any = super()
            inherited.__init__(components)

        def rrule_between(self, *span: datetime) -> Generator[datetime]:
            inherited: Any = super()
            for one in inherited.rrule_between(*span):
                if one.fold:
                    self.repeated.add(one.replace(tzinfo=None))
                yield one.replace(tzinfo=None)

        def occurrence(self, adapter: EventByWallClock, start: date | None = None, end: date | None = None) -> Any:
            inherited: Any = super()
            return inherited.occurrence(adapter, *(
                one.replace(tzinfo=self.zone, fold=one in self.repeated) if isinstance(one, datetime) else one
                for one in (start, end)
            ))  # fmt: skip

    return library.ComponentsWithName("VEVENT", adapter=EventByWallClock, series=SeriesByWallClock)


def recurring(whole: Any) -> Any:
    """Prepare a calendar for queries about what happens when."""
    return import_module("recurring_ical_events").of(whole, components=[_selection()])


def _instant(moment: date, zone: ZoneInfo) -> datetime:
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _shown(moment: date) -> str:
    return moment.isoformat(timespec="minutes") if isinstance(moment, datetime) else moment.isoformat()


def _zone_name(moment: datetime) -> str:
    if moment.tzinfo is None:
        return "floating"
    return str(getattr(moment.tzinfo, "key", "") or moment.tzname() or "")


def _plain(value: object, most: int = _LONGEST_TEXT) -> str:
    return cut(without_hidden("" if value is None else str(value)), most)


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]  # type: ignore[reportUnknownVariableType]


def _occurrence(which: date, like: date | None) -> str:
    """The name of an occurrence: the moment at which the series has it, written as the series begins."""
    if isinstance(which, datetime) and isinstance(like, datetime) and like.tzinfo is not None and which.tzinfo:
        which = which.astimezone(like.tzinfo)
    if not isinstance(which, datetime):
        return which.strftime("%Y%m%d")
    utc = which.tzinfo is not None and _zone_name(which) in ("UTC", "Etc/UTC", "Z")
    return which.strftime("%Y%m%dT%H%M%S") + ("Z" if utc else "")


# The lines of a calendar


class Block:
    """BEGIN to END, with its lines as they stand, folded or not, and the blocks in it."""

    def __init__(self, name: str, items: Iterable[str | Block] = ()) -> None:
        self.name = name
        self.items: list[str | Block] = [*items]

    def lines(self, name: str) -> list[str]:
        """The lines of a property, each unfolded."""
        return [_unfolded(one) for one in self.items if isinstance(one, str) and _name_of(one) == name]

    def value(self, name: str) -> str:
        found = self.lines(name)
        return found[0].partition(":")[2] if found else ""

    def drop(self, *names: str) -> None:
        self.items = [one for one in self.items if isinstance(one, Block) or _name_of(one) not in names]

    def put(self, name: str, *lines: str) -> None:
        """Set a property, in the place where it stood."""
        at = next((at for at, one in enumerate(self.items) if isinstance(one, str) and _name_of(one) == name), None)
        before = self.first_block() if at is None else at  # among the properties, before alarms
        self.drop(name)
        self.items[before:before] = [folded(line) for line in lines]

    def first_block(self) -> int:
        """Where the blocks in it begin, or it ends."""
        return next((at for at, one in enumerate(self.items) if isinstance(one, Block)), len(self.items))

    def put_blocks(self, name: str, made: Iterable[Block]) -> None:
        """These at the end, in place of all that it had of this name."""
        kept = [one for one in self.items if not (isinstance(one, Block) and one.name == name)]
        self.items = [*kept, *made]

    def blocks(self, name: str) -> list[Block]:
        return [one for one in self.items if isinstance(one, Block) and one.name == name]

    def copy(self) -> Block:
        return Block(self.name, (one.copy() if isinstance(one, Block) else one for one in self.items))

    def text(self) -> str:
        inner = "".join(one.text() if isinstance(one, Block) else f"{one}\r\n" for one in self.items)
        return f"BEGIN:{self.name}\r\n{inner}END:{self.name}\r\n"


def parsed(text: str) -> Block:
    """A calendar as blocks of lines; a `ToolError` where it is none."""
    root = Block("")
    open_blocks = [root]
    for line in re.split(r"\r?\n(?![ \t])", text.strip("\r\n")):
        name, _, value = line.partition(":")
        if name.upper() == "BEGIN" and len(open_blocks) <= _DEEPEST:
            inner = Block(value.strip().upper())
            open_blocks[-1].items.append(inner)
            open_blocks.append(inner)
        elif name.upper() == "END" and len(open_blocks) > 1 and open_blocks[-1].name == value.strip().upper():
            open_blocks.pop()
        elif line:
            open_blocks[-1].items.append(line)
    found = root.blocks("VCALENDAR")
    if len(open_blocks) != 1 or len(found) != 1:
        raise malformed()
    return found[0]


def malformed() -> ToolError:
    return ToolError(
        phrase("The event is not written as a calendar should be, so it is not changed."), suggestion=ASK_USER
    )


def _name_of(line: str) -> str:
    return re.split(r"[;:]", _unfolded(line), maxsplit=1)[0].upper()


def _unfolded(line: str) -> str:
    return re.sub(r"\r?\n[ \t]", "", line)


def folded(line: str) -> str:
    """At most 75 bytes in a row, whole characters."""
    rows, row = list[str](), ""
    for letter in line:
        if len((row + letter).encode()) > 74:
            rows.append(row)
            row = ""
        row += letter
    return "\r\n ".join([*rows, row])


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\r\n", "\n").replace("\n", "\\n")


# Moments


class Moment(NamedTuple):
    """A date, a local time in a zone by its name, a time in UTC, or one that is floating."""

    at: date
    tzid: str = ""
    zone: Any = None

    @property
    def wall(self) -> datetime:
        """The local time, as a clock on the wall shows it."""
        at = self.at if isinstance(self.at, datetime) else datetime.combine(self.at, time())
        return at.replace(tzinfo=None)

    def moved(self, delta: timedelta) -> Moment:
        return self._replace(at=self.at + delta)

    @property
    def timed(self) -> bool:
        return isinstance(self.at, datetime)

    @property
    def text(self) -> str:
        """The moment as calendars write it; its zone stands beside it."""
        return f"{self.at:%Y%m%dT%H%M%S}{'Z' if self.tzid == 'UTC' else ''}" if self.timed else f"{self.at:%Y%m%d}"

    def line(self, name: str) -> str:
        if not self.timed:
            return f"{name};VALUE=DATE:{self.text}"
        if self.tzid in ("", "UTC"):
            return f"{name}:{self.text}"
        tzid = f'"{self.tzid}"' if re.search(r"[:;,]", self.tzid) else self.tzid
        return f"{name};TZID={tzid}:{self.text}"

    def utc(self) -> datetime:
        return self.wall.replace(tzinfo=self.zone or UTC).astimezone(UTC)

    def told_in(self, zone: Any) -> datetime:
        """The local time in another zone; a moment without a zone is the same local time in all."""
        if self.zone is None or zone is None or self.zone == zone:
            return self.wall
        return self.utc().astimezone(zone).replace(tzinfo=None)


def moment(what: str, text: str, zone_name: str, zone: Any) -> Moment:
    """What a call says: a day, or a time; one with an offset is told in the zone."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return Moment(date.fromisoformat(text))
        at = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(
            phrase("`{what}` is not a time: `{text}`.", what=what, text=text[:100]),
            phrase("Write `2026-03-01T09:00`, or `2026-03-01` for a whole day."),
        ) from None
    if zone is None:
        if at.tzinfo is not None:
            raise invalid(
                phrase("`{what}` has an offset, and the event floats.", what=what), phrase("Leave the offset out.")
            )
        return Moment(at)
    local = at.astimezone(zone) if at.tzinfo else at.replace(tzinfo=zone)
    if at.tzinfo is not None and local.fold:  # the second of two: a local time in a calendar means the first
        return Moment(at.astimezone(UTC).replace(tzinfo=None), "UTC", UTC)
    there = local.astimezone(UTC).astimezone(zone)
    if there.replace(tzinfo=None) != local.replace(tzinfo=None):
        raise invalid(
            phrase("`{what}`: {text} does not exist in {zone}, because the clocks go forward then.",
                   what=what, text=text, zone=zone_name),
            phrase("Take {time} or another time.", time=f"{there:%H:%M}"),
        )  # fmt: skip
    return Moment(local.replace(tzinfo=None), zone_name, zone)


def zone_of(name: str) -> Any:
    """A zone by its name; None for a floating time."""
    if name == "floating":
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise invalid(
            phrase("There is no time zone `{name}`.", name=name[:100]),
            phrase("Use a name such as `Europe/Berlin`, `UTC`, or `floating`."),
        ) from None
