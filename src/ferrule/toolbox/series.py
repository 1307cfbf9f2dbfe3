"""A series of events: where its occurrences have their places, when they happen, and how all of it moves by one change.

Its lines are read here as they stand. When it happens is worked out by the library that FindEvents uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from importlib import import_module
from itertools import takewhile
from typing import Any, NamedTuple

from ferrule import ToolError
from ferrule.extension import phrase
from ferrule.toolbox.events import ASK_USER, Block, Moment, malformed, recurring, understood, zone_of

MARGIN = timedelta(days=3)
NO_TIME = timedelta()
_MOST_CHECKED = 2_000
_FARTHEST, _YEAR = timedelta(days=30 * 366), timedelta(days=366)
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class EventOccurrence(NamedTuple):
    """`place` is where the series has it, on the wall clock of its zone; it may have been moved from there."""

    place: datetime
    start: Moment
    length: timedelta


class Series:
    """One event with its exceptions."""

    def __init__(self, calendar: Block) -> None:
        self.calendar = calendar
        events = calendar.blocks("VEVENT")
        masters = [one for one in events if not one.lines("RECURRENCE-ID")]
        if len(masters) != 1 or len({one.value("UID") for one in events}) != 1:
            raise ToolError(phrase("The event has no single beginning, so it is not changed."), suggestion=ASK_USER)
        self.master = masters[0]
        self._zones = {
            str(one.get("TZID")): one.to_tz()
            for one in (
                _readable(understood, calendar.text()).walk("VTIMEZONE") if calendar.blocks("VTIMEZONE") else ()
            )
        }
        self.start, self.length = self.span(self.master)

    @property
    def overrides(self) -> list[Block]:
        return [one for one in self.calendar.blocks("VEVENT") if one.lines("RECURRENCE-ID")]

    @property
    def repeats(self) -> bool:
        return bool(self.master.lines("RRULE") or self.master.lines("RDATE"))

    @property
    def rules(self) -> list[str]:
        return [line.partition(":")[2] for line in self.master.lines("RRULE")]

    def at(self, place: datetime) -> Moment:
        return self.start._replace(at=place if self.start.timed else place.date())

    def place(self, at: Moment) -> datetime:
        wall = at.told_in(self.start.zone)
        return wall if self.start.timed else datetime.combine(wall, time())

    def place_of(self, override: Block) -> datetime:
        return self.place(self.moment_in(override, "RECURRENCE-ID"))

    def place_in(self, name: str, at: Moment) -> datetime:
        """The place that a line names; a day that is left out means what the rule has on it."""
        if name == "EXDATE" and self.start.timed and not at.timed:
            return datetime.combine(at.at, self.start.wall.time())
        return self.place(at)

    def override(self, place: datetime) -> Block | None:
        found = [one for one in self.overrides if self.place_of(one) == place]
        return max(found, key=lambda one: one.value("SEQUENCE").zfill(9), default=None)

    def ranges(self) -> dict[datetime, tuple[Block, timedelta]]:
        """Exceptions that hold for all that follow (RANGE=THISANDFUTURE), and by how much they move them."""
        return {
            at: (one, self.place(self.moment_in(one, "DTSTART")) - at)
            for one in self.overrides
            if is_range(one)
            for at in [self.place_of(one)]
        }

    def base(self, place: datetime) -> tuple[Block, timedelta]:
        """What an occurrence without an exception of its own is like, and how much later it begins than its place."""
        fitting = [(at, one) for at, one in self.ranges().items() if at <= place]
        return max(fitting, key=lambda one: one[0])[1] if fitting else (self.master, NO_TIME)

    def instances(self, rule: str) -> Iterator[datetime]:
        from dateutil.rrule import rrulestr

        parts = _parts(rule)
        until = parts.pop("UNTIL", "")
        last = self.place(self.read(until)) if until else datetime.max  # noqa: DTZ901 - a wall clock
        return takewhile(lambda at: at <= last, _readable(rrulestr, _joined(parts), dtstart=self.start.wall))

    def parted(self, rule: str, place: datetime) -> tuple[str, str, bool]:
        """A rule before a place and from there on, "" where it gives nothing, and whether it gives that place."""
        earlier = 0
        for at in self.instances(rule):
            if at >= place:
                break
            earlier += 1
        else:
            return rule, "", False
        rest, first = _parts(rule), _parts(rule)
        if "COUNT" in rest:
            rest["COUNT"] = str(int(first.pop("COUNT")) - earlier)
        first["UNTIL"] = until_before(self.at(place))
        return _joined(first) if earlier else "", _joined(rest), at == place

    def dates_where(self, name: str, fits: Callable[[datetime], bool]) -> list[str]:
        """The lines of dates beside the rule, with those that fit."""
        lines: list[str] = []
        for line in self.master.lines(name):
            found = [f"{at.text}/{tail}" if tail else at.text
                     for at, tail in self.dates(line) if fits(self.place_in(name, at))]  # fmt: skip
            lines += [f"{line.rpartition(':')[0]}:{','.join(found)}"] if found else []
        return lines

    def occurrences(
        self, also: Iterable[datetime] = (), until: datetime | None = None
    ) -> tuple[list[EventOccurrence], datetime | None]:
        """When it happens, and up to when this is complete where it goes on for longer.

        One that does not end is worked out for 30 years, or 2,000 occurrences, after the last date that it names.
        """
        walls = [self.start.wall, *also]
        for event in self.calendar.blocks("VEVENT"):
            for name in ("DTSTART", "RECURRENCE-ID", "RDATE"):
                walls += [at.wall for line in event.lines(name) for at, _ in self.dates(line)]
        last, cut = max(walls), until
        end = until or last
        for rule in self.rules if until is None else ():
            later = 0
            for at in self.instances(rule):
                end = max(end, at)
                later += at > last
                if later > _MOST_CHECKED or at > last + _FARTHEST:
                    cut = min(cut or at, at)
                    break
        first, end = min(walls) - _YEAR, (cut + MARGIN if cut else end + _YEAR)
        ranges = self.ranges()
        found: list[EventOccurrence] = []
        for start, length, ids in _readable(
            _expanded, self.calendar.text(), first.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
        ):
            timed = isinstance(start, datetime)
            began = (
                Moment(start.replace(tzinfo=None), "other", start.tzinfo) if timed and start.tzinfo else Moment(start)
            )
            place = ids[0] if ids else self.place(began)
            if place in ranges:
                place = self.place(began) - ranges[place][1]
            found.append(EventOccurrence(place, began, length))
        return found, cut

    # Moments

    def span(self, event: Block) -> tuple[Moment, timedelta]:
        """When an event begins, and how long it is."""
        start = self.moment_in(event, "DTSTART")
        if event.lines("DTEND"):
            return start, between(start, self.moment_in(event, "DTEND"))
        if event.lines("DURATION"):
            return start, _readable(import_module("icalendar").vDuration.from_ical, event.value("DURATION"))
        return start, NO_TIME if start.timed else timedelta(days=1)

    def moment_in(self, event: Block, name: str) -> Moment:
        found = self.dates(event.lines(name)[0]) if event.lines(name) else []
        if not found:
            raise _unreadable(name)
        return found[0][0]

    def dates(self, line: str) -> list[tuple[Moment, str]]:
        """The moments in a line, and for periods what says how long they are."""
        head, _, values = line.rpartition(":")
        pairs = (one.strip().partition("/") for one in values.split(",") if one)
        return [(self.read(text, head), tail) for text, _, tail in pairs]

    def period(self, start: Moment, tail: str) -> timedelta:
        if tail.startswith(("P", "+P")):
            return _readable(import_module("icalendar").vDuration.from_ical, tail)
        return between(start, self.read(tail, f";TZID={start.tzid}" if start.tzid else ""))

    def read(self, text: str, head: str = "") -> Moment:
        """A moment as calendars write it, with what stands before it."""
        tzid = re.search(r';TZID="?([^";:]+)"?', head, re.IGNORECASE)
        try:
            if len(text) == 8:
                return Moment(datetime.strptime(text, "%Y%m%d").date())  # noqa: DTZ007 - a day
            if text.endswith("Z"):
                return Moment(datetime.strptime(text, "%Y%m%dT%H%M%SZ"), "UTC", UTC)  # noqa: DTZ007 - it is beside it
            at = datetime.strptime(text, "%Y%m%dT%H%M%S")  # noqa: DTZ007 - its zone is beside it
        except ValueError:
            raise _unreadable(text[:50]) from None
        if tzid is None:
            return Moment(at)
        known = import_module("icalendar.timezone").tzp.timezone
        return Moment(at, tzid[1], self._zones.get(tzid[1]) or known(tzid[1]) or zone_of(tzid[1]))


def is_range(override: Block) -> bool:
    return any("RANGE=THISANDFUTURE" in line.upper() for line in override.lines("RECURRENCE-ID"))


def _expanded(text: str, start: datetime, end: datetime) -> list[tuple[Any, timedelta, tuple[datetime, ...]]]:
    found = (one for series in recurring(understood(text)).series for one in series.between(start, end))
    return [(one.start, one.end - one.start, one.recurrence_ids) for one in found]


def _readable(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What a library makes of what others wrote, on which it fails in any way."""
    try:
        return function(*values, **named)
    except Exception:  # noqa: BLE001 - as said
        raise malformed() from None


def _unreadable(name: str) -> ToolError:
    message = phrase("The event has no `{name}` that can be read, so it is not changed.", name=name)
    return ToolError(message, suggestion=ASK_USER)


def between(start: Moment, end: Moment) -> timedelta:
    return end.wall - start.wall if start.tzid == end.tzid else end.utc() - start.utc()


def _parts(rule: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in rule.split(";"))
    return {key.strip().upper(): value.strip().upper() for key, _, value in pairs if key}


def _joined(parts: Mapping[str, str]) -> str:
    return ";".join(f"{key}={value}" for key, value in parts.items())


def until_before(place: Moment) -> str:
    """How a rule says that it ends before a place."""
    if not place.timed:
        return place.moved(timedelta(days=-1)).text
    if place.zone is None:
        return place.moved(timedelta(seconds=-1)).text
    return f"{place.utc() - timedelta(seconds=1):%Y%m%dT%H%M%SZ}"


# Moving a series


class Shift(NamedTuple):
    """One change of time for all: from `old` to `new` on the wall clock, and from one length to another."""

    old: Moment
    new: Moment
    length: timedelta
    new_length: timedelta

    @property
    def days(self) -> timedelta:
        return self.new.wall.replace(hour=0, minute=0, second=0) - self.old.wall.replace(hour=0, minute=0, second=0)

    def place(self, wall: datetime) -> Moment:
        """Where an occurrence belongs that had its place there."""
        if not self.new.timed:
            return Moment(wall.date() + self.days)
        return self.new._replace(at=wall + (self.new.wall - self.old.wall))

    def begin(self, at: Moment) -> Moment:
        """When an occurrence begins that began then; one with hours among whole days keeps them, and the other way."""
        if at.timed != self.old.timed:
            return at.moved(self.days)
        if self.old[:2] == self.new[:2]:
            return at
        moved = self.place(at.told_in(self.old.zone))
        if not moved.timed or at.tzid == self.old.tzid or (at.zone and self.old.zone and not moved.zone):
            return moved
        return at._replace(at=moved.told_in(at.zone))

    def lasts(self, at: Moment, length: timedelta) -> timedelta:
        """How long it is; one whose length is its own keeps it."""
        if at.timed == self.old.timed and (length == self.length or self.old.timed != self.new.timed):
            return self.new_length
        return length

    def rule(self, text: str, series: Series) -> str:
        """A rule that gives the moved places, or one that cannot: the check finds that out."""
        parts = _parts(text)
        days, old, new = self.days.days, self.old.wall, self.new.wall
        if "UNTIL" in parts:
            until = series.read(parts["UNTIL"])
            wall = until.told_in(self.old.zone)
            if not self.new.timed:
                of_day = timedelta(hours=old.hour, minutes=old.minute, seconds=old.second) if until.timed else NO_TIME
                until = self.place(wall - of_day)
            elif until.timed == self.old.timed and (until.tzid or not self.old.tzid):
                until = self.place(wall)
                until = Moment(until.utc().replace(tzinfo=None), "UTC", UTC) if until.zone else until
            else:  # not the form that the event has: other programs may read it in another way, so it stays
                until = until.moved(self.new.wall - self.old.wall if until.timed else self.days)
            parts["UNTIL"] = until.text
        for key, was, now in (("BYHOUR", old.hour, new.hour), ("BYMINUTE", old.minute, new.minute),
                              ("BYSECOND", old.second, new.second)):  # fmt: skip
            if parts.get(key) == str(was):
                parts[key] = str(now)
                if not self.new.timed:
                    del parts[key]
        if not days:
            return _joined(parts)
        found = [re.fullmatch(r"([+-]?\d*)([A-Z]{2})", one) for one in parts.get("BYDAY", "").split(",")]
        moved = [_moved_weekday(one[1], one[2], days) if one and one[2] in _WEEKDAYS else "" for one in found]
        if all(moved):
            parts["BYDAY"] = ",".join(moved)
            if parts.get("FREQ") == "WEEKLY" and parts.get("INTERVAL", "1") != "1" and len(moved) > 1:
                parts["WKST"] = _moved_weekday("", parts.get("WKST", "MO"), days)
        if parts.get("FREQ") == "YEARLY" and parts.get("BYMONTH") == str(old.month) != str(new.month):
            parts["BYMONTH"] = str(new.month)
            if parts.get("BYMONTHDAY") == str(old.day):
                parts["BYMONTHDAY"] = str(new.day)
        elif "BYMONTHDAY" in parts:
            numbers = [int(one) for one in parts["BYMONTHDAY"].split(",")]
            if all(0 < abs(one) <= 28 and 0 < (one + days) * (1 if one > 0 else -1) <= 28 for one in numbers):
                parts["BYMONTHDAY"] = ",".join(str(one + days) for one in numbers)
        return _joined(parts)


def _moved_weekday(number: str, name: str, days: int) -> str:
    """`MO` a day later is `TU`, and `2MO` a week later `3MO`; "" where there is no such rule."""
    if not number:
        return _WEEKDAYS[(_WEEKDAYS.index(name) + days) % 7]
    old, new = int(number), int(number) + days // 7
    return f"{new}{name}" if days % 7 == 0 and old * new > 0 and max(abs(old), abs(new)) <= 4 else ""
